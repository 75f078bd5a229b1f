"""No kind of credential survives in a report, whatever the place in the log."""

from __future__ import annotations

import pytest

from tests.parse.secret_forms import PLACES, SHAPES, filled
from tests.parse.secret_kinds import PLANTED
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.parse.secrets import Masked, mask

KEY = "Zq7hTk2Lw9XbV3nR"

SERVER = """\
(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2
(EngineCore_DP0 pid=9) INFO 03-04 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m'
{line}
(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] RuntimeError: CUDA error: an illegal memory access was encountered
"""


def reports_with(core: str, line: str) -> list[str]:
    """Return the reports on a log with a line that hold a text."""
    report = analyze(SERVER.format(line=line).encode())
    return [text for text in (report.to_json(), report.to_markdown()) if core in text]


@for_each(("core", "line"), [pytest.param(*planted, id=name) for name, *planted in PLANTED])
def test_it_is_masked(core: str, line: str) -> None:
    assert reports_with(core, line) == []


@for_each("site", ["", "(APIServer pid=5) WARNING 03-04 10:12:00 [weird_site.py:93] "])
@for_each("form", PLACES)
def test_a_value_is_masked_for_its_place(form: str, site: str) -> None:
    line, secret = filled(form, seed=1)
    assert reports_with(secret, site + line) == []


@for_each("form", SHAPES)
@for_each("seed", range(3))
def test_a_token_is_masked_for_its_shape(form: str, seed: int) -> None:
    token, end = filled(form, seed)
    site = "(APIServer pid=5) WARNING 03-04 10:12:00 [weird_site.py:93] "
    assert reports_with(end, f"{site}unexpected {token} here") == []


def test_the_rest_of_a_value_that_a_terminal_broke_is_masked() -> None:
    secret = "Zq7hTk2Lw9XbV3nRk3Vq9ZbQ8r2"
    line = f"+ vllm serve org/model --port 8000 --host 0.0.0.0 --api-key={secret} --max-num-seqs 64"
    assert reports_with(secret[-8:], f"{line[:80]}\n{line[80:]}") == []


@for_each("before", ["│ ", "'", '"', "# "])
@for_each("after", ["", " │", "\\n'", '\\n",'])
def test_each_line_of_a_private_key_is_masked_whatever_is_around_it(before: str, after: str) -> None:
    line, other = (filled(f"[{size}]", seed=size)[0] for size in (64, 63))
    lines = ["-----BEGIN RSA PRIVATE KEY-----", other + "k", line, "-----END RSA PRIVATE KEY-----"]
    assert reports_with(line[:20], "\n".join(before + text + after for text in lines)) == []


@for_each(
    ("text", "masked", "kinds"),
    [
        (KEY * 4, "***", ("private key",)),
        ("x: " + KEY * 4, "x: ***", ("private key",)),
        ("-----BEGIN PRIVATE KEY-----", "***", ("private key",)),
        ("go to https://u:pa55w0rdZq@host/x", "go to https://u:***@host/x", ("password in a URL",)),
        (f"token {KEY}k3Vq9ZbQ8rLm seen", "token *** seen", ("generated token",)),
        ("api_key='s3cr3t-value'", "api_key='***'", ("API key",)),
        (f"hf_{KEY}k3Vq9ZbQ8rLmAAbbcc1", "***", ("Hugging Face token",)),
        ("nothing at all", "nothing at all", ()),
    ],
)
def test_what_was_masked_is_named_by_its_kind(text: str, masked: str, kinds: tuple[str, ...]) -> None:
    assert mask(text) == Masked(masked, kinds)
