"""No secret and no prompt leaves the parser."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.framing import records
from tests.parse.planted_secrets import BY_NAME, BY_PLACE, BY_SHAPE, HEX, NONE, token
from tests.tables import for_each
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.parse.secrets import mask, may_hold_secret
from vllm_logdoctor.scan import WantedLine
from vllm_logdoctor.texts import with_equal_digits

HEADER = "(APIServer pid=5) INFO 03-04 10:11:12 [api_server.py:93] "


@for_each("form", BY_NAME + BY_PLACE)
@for_each("secret", [token(), token(40), token(24, HEX)])
def test_a_planted_secret_survives_in_no_record_and_is_reported(form: str, secret: str) -> None:
    parser = RecordParser()
    text = f"{HEADER}near {form.format(secret)} failed"
    for found in parser.parse(WantedLine(0, 1, text.encode())):
        assert secret not in found.text
        assert secret not in found.message
    assert parser.secret_count == 1


@for_each("kind", BY_SHAPE)
@for_each("around", ["odd thing {} here", "[{}]", "key {} bad", "x='{}'"])
def test_a_credential_with_a_known_shape_needs_no_name(kind: str, around: str) -> None:
    found = mask(around.format(BY_SHAPE[kind]))
    assert BY_SHAPE[kind][-16:] not in found.text.replace("-----END RSA PRIVATE KEY-----", "")
    assert found.names
    assert not any(BY_SHAPE[kind][:8] in name for name in found.names)


@pytest.mark.parametrize("value", ["KpzXWmqvTrLSnbGh", "aBcdEfgHijKlm"])
def test_a_password_of_letters_alone_is_masked(value: str) -> None:
    assert value not in mask(f"db_password: {value}").text


@pytest.mark.parametrize("value", ["AuthenticationRequired", "required", "NotConfigured"])
def test_a_word_behind_a_name_is_no_password(value: str) -> None:
    assert value in mask(f"db_password: {value}").text


def test_a_secret_in_json_is_masked() -> None:
    for found in records('{"message": "api_key=\'Zx81kkPq22\' set", "levelname": "INFO"}'):
        assert "Zx81kkPq22" not in found.text + found.message


def test_spans_of_times_behind_a_key_are_no_password() -> None:
    text = "the clip with the password (00:47:09-00:47:10)\\n- 100% protagonist"
    assert mask(text).text == text
    assert "Zq7hTk2L" not in mask("pgpass: db.example.com:5432:prod:app:Zq7hTk2L").text


@for_each("text", NONE)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text).text == text
    assert mask(text).names == ()


def test_lines_with_secrets_are_counted_and_named() -> None:
    parser = RecordParser()
    list(parser.parse(WantedLine(0, 9, (HEADER + "vllm serve m --api-key Zx81kkPq22").encode())))
    assert parser.secret_count == 1
    assert parser.secrets[0].line == 9
    assert "Zx81kkPq22" not in parser.secrets[0].text


@given(prompt=st.text(string.ascii_letters + " ", min_size=8, max_size=60).map(lambda text: "Q7z" + text))
def test_prompts_are_replaced_by_their_length(prompt: str) -> None:
    line = (
        HEADER
        + f"Received request cmpl-1: prompt: {prompt!r}, params: SamplingParams(n=1), lora_request: None."
    )
    for found in records(line):
        assert prompt not in found.text
        assert "SamplingParams(n=1)" in found.message


@given(st.text(max_size=300))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask(text).text
    assert mask(once).text == once


@pytest.mark.parametrize(
    "text",
    [
        "'api_key': ['{}', '{}', '{}'], 'port': 1",
        "vllm serve m --api-key {} {} {} --port 1",
        "api_key=('{}', \"{}\")",
        "['serve', '--api-key', '{}', '{}', '{}', '-tp', '2']",
        "API_KEYS={},{} total_num_scheduled_tokens=4, num_tokens={{cmpl-1: 2}}",
        "num_tokens=4, hf_token={}, auth_tokens={},{}, spec_tokens={{cmpl-7c1e5a90b2d34f68: [1]}}",
    ],
)
def test_every_key_of_a_list_is_masked(text: str) -> None:
    secrets = [token() for _ in range(text.count("{}"))]
    found = mask(text.format(*secrets)).text
    assert found == text.format(*["***"] * len(secrets))


def test_every_key_of_a_list_of_named_keys_is_masked() -> None:
    found = mask("api_keys=first=zq7htk2lw9,second=xb4v3nr8mt").text
    assert "zq7htk2lw9" not in found
    assert "xb4v3nr8mt" not in found


@pytest.mark.parametrize(
    "value",
    ["correct horse 17", "it\\'s 17 long", "it''s 17 long", "x" * 30 + "7q" * 3000, "p@ss,w0rd;x"],
    ids=lambda value: value[:12],
)
def test_a_quoted_password_is_masked_to_its_closing_quote(value: str) -> None:
    assert mask(f"password='{value}', port=1").text == "password='***', port=1"


def test_a_secret_before_the_header_of_a_record_is_masked() -> None:
    for found in records("password=Zx81kkPq22 WARNING 03-04 10:11:12 [envs.py:1] text"):
        assert "Zx81kkPq22" not in found.text + found.message


def test_a_private_key_over_several_lines_is_masked() -> None:
    lines = [
        "-----BEGIN RSA PRIVATE KEY-----",
        token(64),
        token(64),
        token(20) + "==",
        "-----END RSA PRIVATE KEY-----",
        "a word",
    ]
    parser = RecordParser()
    texts = [
        found.text
        for number, line in enumerate(lines)
        for found in parser.parse(WantedLine(0, number, line.encode()))
    ]
    assert texts == ["***", "***", "***", "***", "-----END RSA PRIVATE KEY-----", "a word"]


def test_a_value_on_the_line_after_its_name_is_masked() -> None:
    parser = RecordParser()
    lines = [HEADER + "args: api_key=", token(), "Zx81kkPq22"]
    texts = [
        found.text
        for number, line in enumerate(lines)
        for found in parser.parse(WantedLine(0, number, line.encode()))
    ]
    assert texts[1:] == ["***", "Zx81kkPq22"]


def test_a_line_that_is_read_late_ends_no_secret_of_a_later_line() -> None:
    parser, name, value = (
        RecordParser(),
        WantedLine(0, 2, b"INFO 03-01 08:00:01 [a.py:1] api_key"),
        WantedLine(0, 3, b"  input_value='Zq7hTk2Lw9XbV3nR', input_type=str"),
    )
    list(parser.parse(name))
    list(parser.parse(WantedLine(0, 1, b"Received request cmpl-1: text")))
    assert [record.message for record in parser.parse(value)] == ["  input_value='***', input_type=str"]


@for_each("form", [*BY_NAME, *BY_PLACE, *(text.replace("{", "{{") + "{}" for text in BY_SHAPE.values())])
def test_what_is_masked_is_looked_for_in_texts_that_differ_in_digits_only(form: str) -> None:
    assert may_hold_secret(with_equal_digits(form.format(token())).decode())


@pytest.mark.parametrize("piece", ["--", "api_key='", 'api_key="\\', "://", "a:b@", "eyJ", "-----BEGIN PRIVATE KEY-----", "[", "Cookie: a=", "key ",
    "login -p ", "curl -u a:", "token is ", "$2b$", "_key_key", "xoxb-", "passwordpassword", "Authorization: ", "headers='a=b"])  # fmt: skip
def test_masking_takes_time_linear_in_the_text(piece: str) -> None:
    text = piece * (250_000 // len(piece))
    began = time.process_time()
    mask(text)
    assert time.process_time() - began < 2


def test_beginnings_of_secrets_that_never_go_on_cost_time_linear_in_their_lines() -> None:
    def seconds(lines: int, end: str) -> float:
        parser = RecordParser()
        data = f"{HEADER}{'word ' * 70}{end}".encode()
        began = time.process_time()
        for number in range(lines):
            list(parser.parse(WantedLine(0, number, data)))
        return time.process_time() - began

    for end in ("-----BEGIN PRIVATE KEY-----", "api_key:"):
        seconds(100, end)
        few = min(seconds(2_000, end) for _ in range(3))
        assert seconds(10_000, end) < 12 * few
        assert few < 1


@for_each(
    "form",
    [
        "SSHPASS={} sshpass -e ssh node2",
        "ldap bind dn=cn=svc,dc=x bindpw={}",
        "+ huggingface-cli login --token {} --add-to-git-credential",
        "+ hf auth login --token={}",
        "+ vault login {}",
        "+ vault login -method=token {}",
        "+ kubectl create secret generic hf --from-literal=token={}",
        "credentials for bob:{}@node",
        "the password is {}",
        "Password for 'https://bob@git.corp': {}",
        "http_proxy=http://proxyuser:{}@proxy.corp:3128",
        "hf_overrides={{'token': '{}', 'a': 1}}",
        "vllm serve m --api-key\n{} --port 8000",
        "vllm serve m \\\n  --api-key \\\n  {} \\\n  --port 8000",
    ],
)
@for_each("password", ["otterStone62$", "mapleCloud92#"])
def test_a_password_of_words_is_masked_for_what_precedes_it(form: str, password: str) -> None:
    parser = RecordParser()
    for number, line in enumerate(form.format(password).split("\n")):
        for found in parser.parse(WantedLine(0, number + 1, line.encode())):
            assert password not in found.text + found.message
    assert parser.secret_count == 1


@pytest.mark.parametrize(
    "text",
    [
        "session_id: a81bc81b-dead-4e5d-abff-90865d1e13b1",
        "deepspeed.launcher.launch --world_info=eyJub2RlMSI6IFswLCAxXX0= --master_port=29500",
        "{'session_id': 'b81bc81b-beef-4e5d-abff-90865d1e13b2', 'user': 'x'}",
        "image: vllm/vllm-openai:v0.11.2Rc1x@sha256:1f40fc92da24",
        "rank0:worker12@node3 is gone",
        "compile_pass=FuseAttentionQuant",
        "{'key': 'Layer17', 'token': 'word 17'}",
        "the password is wrong for this user",
        "see --api-key\nvllm serve --help",
        "wandb: Currently logged in as: me (team). Use `wandb login --relogin` to force relogin",
    ],
)
def test_what_only_looks_like_a_password_stays(text: str) -> None:
    parser = RecordParser()
    lines = enumerate(text.split("\n"))
    found = [
        one.text for number, line in lines for one in parser.parse(WantedLine(0, number + 1, line.encode()))
    ]
    assert "\n".join(found) == text


@pytest.mark.parametrize("runtime", ["cri-o", "containerd", "docker"])
def test_the_id_of_a_container_is_no_password_and_the_password_of_a_registry_is_one(runtime: str) -> None:
    digest = "9b3fd2a0c1e84756" * 4
    assert digest in mask(f"  containerID: {runtime}://{digest}").text
    assert (
        "h0rst" not in mask(f"  registry: {runtime}://{digest}:h0rst-wIe9rt@registry.example.com/vllm").text
    )
