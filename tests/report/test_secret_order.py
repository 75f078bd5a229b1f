"""A secret in the log is listed behind what limits a run."""

from __future__ import annotations

from vllm_logdoctor import analyze

ARGUMENTS = "non-default args: {'model': 'org/m', 'api_key': ['Q7mVx2Lr9TzK'], 'max_model_len': 2048}"
HEAD = "ERROR 05-01 10:05:00 [serving_chat.py:203] "
TOO_LONG = (
    "ValueError: This model's maximum context length is 2048 tokens. However, you requested 4100 tokens "
    "(3600 in the messages, 500 in the completion). Please reduce the length of the messages or completion."
)
SERVER = [
    "INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.10.0",
    f"INFO 05-01 10:00:01 [utils.py:326] {ARGUMENTS}",
    "INFO:     Application startup complete.",
    'INFO:     10.0.0.9:4242 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
]
REFUSED = [
    f"{HEAD}Error in preprocessing prompt inputs",
    f"{HEAD}Traceback (most recent call last):",
    f'{HEAD}  File "/opt/vllm/entrypoints/openai/serving_chat.py", line 190, in create_chat_completion',
    f"{HEAD}    ) = await self._preprocess_chat(",
    f"{HEAD}{TOO_LONG}",
    'INFO:     10.0.0.9:4243 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
]


def _actions(lines: list[str]) -> tuple[str, list[str]]:
    report = analyze(lines).to_markdown().splitlines()
    return report[0], [line for line in report if line[:3] in ("1. ", "2. ", "3. ")]


def test_a_limit_comes_before_a_secret() -> None:
    state, actions = _actions([*SERVER, *REFUSED, *REFUSED, *REFUSED])
    assert "API key" not in state
    assert "Requests refused for their length" in actions[0]
    assert "Revoke the key" in actions[1]


def test_a_secret_alone_is_an_action_and_limits_nothing() -> None:
    state, actions = _actions(SERVER)
    assert state.startswith("# HEALTHY")
    assert "Revoke the key" in actions[0]
