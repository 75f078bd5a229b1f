"""What is masked and what is not, in pairs that differ in one thing: a word, an id, a hash or code in the place of a credential stays."""

from __future__ import annotations

from tests.tables import for_each
from vllm_logdoctor.parse.secrets import mask

MASKED = {
    # In a request: 16 characters that look generated; an id in hexadecimals says nothing.
    "GET /a?code=Zq7hTk2Lw9XbV3nR HTTP/1.1": "GET /a?code=*** HTTP/1.1",
    "?token=abcde1": "?token=***",
    "curl -u user:h0rstwIe9 http://x": "curl -u user:*** http://x",
    "docker login -p h0rst-wIe9 x": "docker login -p *** x",
    "Authorization: Bearer abcdeFghij": "Authorization: Bearer ***",
    "https://user:hunter2@host/x": "https://user:***@host/x",
    "https://k3v7q2m9x4k3v7q2m9x4k3v7q2m9x4zz@pkgs.example/simple": "https://***@pkgs.example/simple",
    "redis://:pa/ss@cache:6379": "redis://:***@cache:6379",
    "headers='x-team=abc,x-tenant=def'": "headers='x-team=***,x-tenant=***'",
    "Cookie: session=abc; theme=dark": "Cookie: ***",
    "token: 1234abcd5678ef90": "token: ***",
    "token_suffix=Zq7hTk2Lw9XbV3nR": "token_suffix=***",
    # The closing quote of the first is lost.
    "api_key='sk-abc, lora_modules=None": "api_key='***, lora_modules=None",
    "api_key='sk-abc', lora_modules=None": "api_key='***', lora_modules=None",
    "api_key=abc": "api_key=***",
    "password: 1234": "password: ***",
    "pin_password=1234": "pin_password=***",
    "password=a1b2c3": "password=***",
    "password: hunter2": "password: ***",
    "db_password=hunter": "db_password=***",
    "DB_PASSWORD=hunter, x": "DB_PASSWORD=***, x",
    "--api-key abc def1 ghi2 --port 8000": "--api-key *** *** *** --port 8000",
    "serve --password abc1def": "serve --password ***",
    "API_KEYS=abc1,def2": "API_KEYS=***,***",
    "('api_key', 'abc1', 'def2')": "('api_key', '***', '***')",
    'api_key=["a1b","c2d"]': 'api_key=["***","***"]',
    'api_key=("a1b")': 'api_key=("***")',
    "api_key=SecretStr('abc1')": "api_key=SecretStr('***')",
    "password: 'it''s 17 long' x": "password: '***' x",
    'password="a\\"b c" x': 'password="***" x',
    "password Authentication1": "password ***",
}
KEPT = (
    "GET /a?code=0123456789abcdef0123 HTTP/1.1",
    "GET /a?code=a81bc81b-dead-4e5d-abff-90865d1e13b1 HTTP/1.1",
    "GET /a?code=Zq7hTk2Lw9XbV3n HTTP/1.1",
    "GET /a?state=prefill-decode-node HTTP/1.1",
    "?token=abcdef",
    # An id of a user, a variable, a word, a place-holder.
    "curl -u user:12345678 http://x",
    "curl -u user:$PASSWORD http://x",
    "curl -u user:required http://x",
    "docker login -p 0000 x",
    "Authorization: required.",
    "Authorization: Bearer {token}",
    "Authorization: Bearer <token>",
    "Authorization: Bearer Abcdefghij",
    # Users and ports.
    "git@github.com:org/repo",
    "https://user@host/x",
    "https://user:8000/x",
    "https://user:@host/x",
    "https://user:***@host/x",
    "https://hf_abcdefghijkl@host/x",
    "https://kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk@pkgs.example/simple",
    "docker://9b3fd2a0c1e8",
    # Numbers and words behind a weak name.
    "token: 12345678",
    "token: abcdefgh",
    "{'token': 'word 17'}",
    "key: 1234abcd5678ef90",
    "db_token: 1234",
    "max_tokens=4096",
    "token_ids=[1, 2]",
    "token_suffix=zq7htk2lw9xbv3nr",
    "api_keys: {chatcmpl-1f: 1, chatcmpl-2e: 1}",
    # Too short, of one character, a place-holder, a path, code.
    "api_key=ab",
    "api_key=aaa",
    "api_key=123",
    "api_key=$KEY",
    "api_key=${KEY}",
    "api_key=%s",
    "api_key=/etc/keys/key.pem",
    "password: 123",
    "passwd = f(x)",
    "password=self.password",
    "db_password=hunter, x",
    "db_password=hunter)",
    "password: hunter",
    "password required",
    "password > abcd1",
    "--api-key abc def ghi",
    "session_id=a81bc81b-dead-4e5d-abff-90865d1e13b1",
)


@for_each(("text", "masked"), list(MASKED.items()))
def test_a_credential_is_masked_and_nothing_else(text: str, masked: str) -> None:
    assert mask(text).text == masked
    assert len(mask(text).names) == 1


@for_each("text", KEPT)
def test_what_stands_in_the_place_of_a_credential_stays(text: str) -> None:
    assert mask(text).text == text
    assert not mask(text).names
