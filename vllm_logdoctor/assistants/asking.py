"""The conversation with a model: the excerpt, requests for more lines, and the answer, all bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from vllm_logdoctor.assistants.checks import Checks
from vllm_logdoctor.assistants.endpoint import EndpointError
from vllm_logdoctor.assistants.excerpt import LogLine, chosen, excerpt_of
from vllm_logdoctor.assistants.injection import addresses_model
from vllm_logdoctor.assistants.lines import LineSource
from vllm_logdoctor.assistants.question import (
    MOST_REQUESTS,
    ROUNDS,
    Answer,
    RequestIn,
    first_messages,
    schema,
    shown,
)
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.parse.secrets import mask
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.opinion import Opinion

_MOST_ANSWER = 40_000
"""Characters of an answer that are read."""
_MOST_MORE = 60
"""Lines that one request adds at most."""
_EXCERPT_LINES = 120


class Client(Protocol):
    """What is asked: an endpoint, or anything else that answers messages with text."""

    @property
    def model(self) -> str:
        """Name of the model."""

    def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        """Return the answer to messages (role and content) as text of JSON that follows the schema."""


def messages_for(analysis: Analysis, run: int | None = None) -> list[dict[str, str]]:
    """Return the first messages of a conversation on a run: what is sent before the model asks for more.

    Raises:
        LogdoctorError: no such run (exit code 2).
    """
    return first_messages(excerpt_of(analysis, run, _EXCERPT_LINES))


def ask(analysis: Analysis, client: Client, log: LineSource, run: int | None = None) -> Opinion:
    """Ask a model for a second opinion on a run.

    Args:
        analysis: all of an analysis; nothing of it is changed.
        client: what answers; whatever it raises becomes the opinion's error.
        log: where more lines are looked up.
        run: number of the run; default: the last that failed, else the last.

    Raises:
        LogdoctorError: no such run (exit code 2).
    """
    diagnosis = chosen(analysis, run)
    excerpt = excerpt_of(analysis, diagnosis.run.number, _EXCERPT_LINES)
    sent = list(excerpt.lines)
    conversation = first_messages(excerpt)
    answer, error, requests = Answer(), "", 0
    for left in range(ROUNDS, -1, -1):
        try:
            text = client.complete(conversation, schema(may_ask=left > 0))
            answer = _answer(text)
        except (EndpointError, LogdoctorError) as failure:
            error = str(failure)
            break
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            break
        if not answer.more_lines or not left:
            break
        requests += 1
        added = _looked_up(log, answer.more_lines)
        sent += added
        words = f"Lines that you asked for ({left - 1} more requests possible):"
        conversation += [
            {"role": "assistant", "content": text[:_MOST_ANSWER]},
            {"role": "user", "content": f"{words}\n{shown(added)}"},
        ]
    claims, dropped = Checks(diagnosis, sent).checked(answer.claims) if not error else ((), ())
    addressed = tuple(dict.fromkeys(one.at for one in sent if addresses_model(one.text)))
    number, model, error = diagnosis.run.number, _one_line(client.model, 120), _one_line(error, 300)
    lines = len({one.at for one in sent})
    return Opinion(number, model, error, claims, dropped, addressed, lines, requests)


def _one_line(text: str, limit: int) -> str:
    return " ".join(visible(mask(text[: 4 * limit]).text).split())[:limit]


def _answer(text: str) -> Answer:
    """Read an answer; a fence around it and a train of thought before it are left out.

    Raises:
        EndpointError: it is not JSON of the schema.
    """
    plain = text[:_MOST_ANSWER].rpartition("</think>")[2].strip()
    if plain.startswith("```"):
        plain = plain.strip("`").removeprefix("json").strip()
    try:
        return msgspec.json.decode(plain.encode("utf-8", "replace"), type=Answer)
    except msgspec.ValidationError as error:
        raise EndpointError(f"the model's answer has another shape: {error}") from None
    except (msgspec.DecodeError, RecursionError):
        raise EndpointError("the model's answer is not JSON") from None


def _looked_up(log: LineSource, requests: Sequence[RequestIn]) -> list[LogLine]:
    """Return the lines that a model asked for; a request that can't be met adds none."""
    found: list[LogLine] = []
    for one in requests[:MOST_REQUESTS]:
        try:
            first, last = str(one.first), str(one.last or one.first)
            lines = log.containing(one.text) if one.text.strip() else log.between(first, last)
        except LogdoctorError:
            continue
        found += lines.lines
    return found[:_MOST_MORE]
