"""No secret and no prompt leaves the frame room."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.framing import records
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.parse.secrets import mask
from vllm_logdoctor.scan import Line

HEADER = "(APIServer pid=5) INFO 03-04 10:11:12 [api_server.py:93] "
PLACES = [
    "args: Namespace(host=None, api_key='{}', port=8000)",
    "args: Namespace(host=None, api_key=['{}'], port=8000)",
    "non-default args: {{'model': 'm', 'api_key': ['{}']}}",
    "non-default args: {{'hf_token': '{}', 'model': 'm'}}",
    "vllm serve m --api-key {} --port 8000",
    "export HF_TOKEN={}",
    "HUGGING_FACE_HUB_TOKEN={} set",
    "AWS_SECRET_ACCESS_KEY={}",
    "headers: Authorization: Bearer {}",
    "proxy http://user:{}@proxy.example:3128/",
    "redis://:{}@cache.example:6379/0",
    '{{"password": "{}"}}',
]
secrets = st.text(string.ascii_letters + string.digits, min_size=12, max_size=40).map(
    lambda text: "Q7z" + text
)


@pytest.mark.parametrize("place", PLACES)
@given(secret=secrets)
def test_a_planted_secret_survives_in_no_record(place: str, secret: str) -> None:
    for found in records(HEADER + place.format(secret)):
        assert secret not in found.text
        assert secret not in found.message


@pytest.mark.parametrize(
    "shape",
    ["hf_" + "a1B2" * 9, "sk-" + "a1B2" * 9, "nvapi-" + "a1B2" * 9, "AKIA" + "A1B2" * 4, "ghp_" + "a1B2" * 9],
)
def test_keys_that_tell_themselves_by_their_shape_need_no_name(shape: str) -> None:
    assert shape not in mask(f"token is {shape}, use it").text


def test_a_secret_in_json_is_masked() -> None:
    for found in records('{"message": "api_key=\'Zx81kkPq22\' set", "levelname": "INFO"}'):
        assert "Zx81kkPq22" not in found.text + found.message


@pytest.mark.parametrize(
    "text",
    [
        "api_key=None",
        "api_key=[]",
        "'api_key': None",
        "max_num_batched_tokens=2048",
        "eos_token_id=2",
        "tokenizer='a/b'",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text).text == text
    assert mask(text).names == ()


def test_lines_with_secrets_are_counted_and_named() -> None:
    parser = RecordParser()
    list(parser.parse(Line(0, 9, (HEADER + "vllm serve m --api-key Zx81kkPq22").encode())))
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
