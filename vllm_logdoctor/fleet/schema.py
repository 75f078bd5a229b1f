"""The tables of a store: their columns only grow, none changes its type or meaning."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    import pyarrow

SCHEMA = 1
"""Number of the schema; raised only for what a reader of the one before could misunderstand."""

Status = Literal[
    "ok", "partial", "empty", "not-vllm", "other-tool", "unreadable", "too-slow", "too-large", "killed-worker", "defect",
]  # fmt: skip
STATUSES: dict[Status, str] = {
    "ok": "read to its end",
    "partial": "read in part: a cut or damaged archive, or the time limit",
    "empty": "no byte in it",
    "not-vllm": "no line of vLLM",
    "other-tool": "written by another tool, or another kind of file",
    "unreadable": "could not be opened or unpacked",
    "too-slow": "ended its worker at four times the time limit",
    "too-large": "needed more memory than the limit",
    "killed-worker": "its worker process died twice on it",
    "defect": "a defect of logdoctor: please report it",
}
FORGOTTEN = "forgotten"
"""Status of a row that only says that a log was taken out; no reader returns it."""


class Column(Struct, frozen=True):
    """A column: name, type ("text", "texts", "count", "number", "flag" or "time") and meaning with unit."""

    name: str
    type: Literal["text", "texts", "count", "number", "flag", "time"]
    meaning: str


def _columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)  # type: ignore[arg-type]


_KEY = (
    ("log", "text", "key of the log: hash of its paths"),
    ("part", "text", "part that holds the row; see `logs`"),
)
_RUN = (*_KEY, ("run", "count", "number of the run in the log"))
_EFFECT = (
    ("metric", "text", "figure that the expected effect is about"),
    ("low", "number", "expected ratio after / before, lower end"),
    ("high", "number", "upper end"),
    ("origin", "text", "where the range is from: measured, computed or published"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "logs": _columns(
        *_KEY,
        ("added", "count", "when the row was written, ms since 1970 UTC; the newest row of a log counts"),
        ("path", "text", "first file"),
        ("files", "texts", "all files: rotated, standard output and error, ranks"),
        ("state", "text", "hash of sizes and times of change: a log whose state differs is read anew"),
        ("bytes", "count", "size of the files"),
        ("modified", "time", "last change of the files, UTC"),
        ("job", "text", "job that the log belongs to: batch system and id, or the log itself"),
        ("job_number", "text", "id of the job without the server's name; null without one"),
        ("job_from", "text", "name, content or null"),
        ("status", "text", "how reading went"),
        ("note", "text", "what the status means here"),
        ("seconds", "number", "time that reading took"),
        ("engine", "text", "version of logdoctor, of its patterns and of this schema"),
        ("runs", "count", "runs in the log"),
        ("lines", "count", "lines read"),
        ("vllm_lines", "count", "log messages that were compared with vLLM's, without routine lines and files that no release has"),
        ("recognised", "count", "of these, records that a pattern knows"),
    ),
    "runs": _columns(
        *_RUN,
        ("kind", "text", "server, offline, build or unknown"),
        ("server", "text", "engine that wrote the log: only vllm is judged"),
        ("engine", "text", "V0, V1 or null"),
        ("version", "text", "vLLM version as printed"),
        ("release", "text", "release of that version; null for source builds (0.1.devN) and unknown ones"),
        ("model", "text", "model in one form: without folders and cache paths"),
        ("platform", "text", "cuda, rocm, tpu, xpu, cpu, hpu, npu, neuron or null"),
        ("tp", "count", "tensor parallel size"),
        ("pp", "count", "pipeline parallel size"),
        ("dp", "count", "data parallel size"),
        ("cards", "count", "accelerators by the parallel sizes; 0 on CPU, null where not known"),
        ("quantization", "text", ""),
        ("eager", "flag", "enforce_eager"),
        ("started", "time", "first line, clock of the log"),
        ("ended", "time", "last line"),
        ("year_from", "text", "log, file date or null"),
        ("span_s", "number", "seconds from first to last line"),
        ("clock", "text", "ok, or why the span can't be trusted"),
        ("outcome", "text", "how the run ended"),
        ("startup_complete", "flag", "whether it got ready"),
        ("bottleneck", "text", "what limited it"),
        ("root", "text", "id of the root cause of a failure"),
        ("root_file", "text", "file of the line that proves it"),
        ("root_line", "count", "its number"),
        ("startup_s", "number", "length of the start-up"),
        ("samples", "count", "statistics lines"),
        ("busy", "count", "of these, with work in the engine"),
        ("generation_p50", "number", "tokens/s, median of the busy lines"),
        ("generation_max", "number", "tokens/s"),
        ("prompt_p50", "number", "tokens/s, median of the busy lines"),
        ("running_max", "count", "requests"),
        ("waiting_max", "count", "requests"),
        ("kv_max", "number", "highest use of the KV cache in percent"),
        ("prefix_hit", "number", "last prefix cache hit rate in percent"),
        ("preemptions", "count", ""),
        ("requests", "count", "answered requests in the access log"),
        ("requests_4xx", "count", ""),
        ("requests_5xx", "count", ""),
        ("kv_tokens", "number", "size of the KV cache in tokens"),
        ("max_concurrency", "number", "requests of full length that it holds"),
        ("weights_gib", "number", "size of the weights"),
        ("load_s", "number", "loading of the weights"),
        ("compile_s", "number", "torch.compile"),
        ("graph_s", "number", "capture of CUDA graphs"),
        ("init_s", "number", "initialization of the engine"),
        ("ceiling_share", "number", "measured decode speed over what memory bandwidth allows"),
        ("secrets", "count", "lines that hold a credential"),
        ("secret_places", "texts", "file:line of the first twenty"),
        ("first_line", "count", "first line of the run"),
        ("last_line", "count", "last line"),
    ),
    "settings": _columns(
        *_RUN,
        ("scope", "text", "config or env"),
        ("name", "text", "EngineArgs field or variable"),
        ("value", "text", "value; a short hash in place of free text"),
        ("provenance", "text", "explicit, reported or adjusted (defaults are left out)"),
        ("line", "count", "line that proves it"),
    ),
    "findings": _columns(
        *_RUN,
        ("rank", "count", "place in the order of importance"),
        ("id", "text", "rule: `logdoctor explain ID`"),
        ("kind", "text", "failure, performance, configuration or security"),
        ("role", "text", "root, cascade or contributing; failures only"),
        ("severity", "text", ""),
        ("confidence", "text", ""),
        ("file", "text", "file of the line that proves it"),
        ("line", "count", "its number"),
        *_EFFECT,
    ),
    "changes": _columns(
        *_RUN,
        ("rank", "count", "place in the plan"),
        ("knob", "text", "flag, variable or action"),
        ("kind", "text", "flag, env, setting or action"),
        ("before", "text", "value now; null for not set"),
        ("after", "text", "planned value, a hash for an action; null: drop it"),
        ("safety", "text", "safe, needs-test or changes-results"),
        ("findings", "texts", "rules that ask for it"),
        *_EFFECT,
    ),
    "phases": _columns(
        *_RUN,
        ("name", "text", "phase of start-up or serving"),
        ("parent", "text", "phase that it is a part of"),
        ("process", "text", ""),
        ("seconds", "number", "length"),
    ),
    "load": _columns(
        *_RUN,
        ("low", "count", "fewest running requests of the level"),
        ("high", "count", "most"),
        ("running", "number", "mean"),
        ("samples", "count", "statistics lines"),
        ("generation_q25", "number", "tokens/s"),
        ("generation_p50", "number", "tokens/s"),
        ("generation_q75", "number", "tokens/s"),
        ("prompt", "number", "tokens/s, mean"),
    ),
    "requests": _columns(
        *_RUN,
        ("endpoint", "text", "known path of vLLM's server, or other"),
        ("status", "count", "HTTP status"),
        ("count", "count", "answered requests"),
    ),
    "messages": _columns(
        *_RUN,
        ("pattern", "text", "pattern id; for a message that nobody knows, a hash of its template"),
        ("known", "flag", "whether a pattern knows it"),
        ("verdict", "text", "harmless, needs-attention, costs-performance, cause-of-failure, unknown ..."),
        ("level", "text", "of unknown messages"),
        ("call_site", "text", "file.py that printed it; of unknown messages"),
        ("count", "count", ""),
        ("file", "text", "file of the first one"),
        ("line", "count", "line of the first one"),
    ),
    "documents": _columns(
        *_KEY,
        ("document", "text", "JSON report of the log, secrets masked; cites lines, so it holds text of the log"),
    ),
    "accounting": _columns(
        ("job_number", "text", "id of the job without the server's name"),
        ("added", "count", "when the row was written, ms since 1970 UTC; the newest row of a job counts"),
        ("system", "text", "slurm, pbs or csv"),
        ("user", "text", ""),
        ("state", "text", "how the job ended, in the batch system's words"),
        ("started", "time", "clock of the batch system"),
        ("ended", "time", ""),
        ("elapsed_s", "number", "seconds used"),
        ("cards", "count", "accelerators that the job had"),
        ("card", "text", "their type"),
        ("nodes", "count", ""),
    ),
}  # fmt: skip
DETAIL = tuple(name for name in TABLES if name not in ("logs", "accounting"))
"""Tables whose rows count only with the row of their log."""


@cache
def arrow_schema(table: str) -> pyarrow.Schema:
    """Return the schema of a table for pyarrow."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "text": pa.string(), "texts": pa.list_(pa.string()), "count": pa.int64(), "number": pa.float64(), "flag": pa.bool_(),
        "time": pa.timestamp("ms"),
    }  # fmt: skip
    return pa.schema([(column.name, types[column.type]) for column in TABLES[table]])
