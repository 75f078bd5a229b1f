"""Benchmarks of other engines without a server: llama-bench in all its formats, llama-batched-bench, SGLang's bench_one_batch."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping

from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import cells, comma_separated

# INSERT INTO llama_bench (build_commit, ...) VALUES ('abc', ...);
_INSERT = re.compile(r"^INSERT INTO \w+ \(([^)]*)\) VALUES \((.*)\);\s*$")
# Decode.  median latency: 0.00800 s, median throughput:    124.93 token/s
_ONE_BATCH = re.compile(
    r"^(Prefill|Decode|Total)\.? +(?:\d+ +)?(?:median )?latency: +(\d+(?:\.\d+)?) s, +(?:median )?throughput: +(\d+(?:\.\d+)?) token/s"
)
_BUILD = re.compile(r"^build: (\S+ \(\S+\))")
_DEVICE = re.compile(r"^\s*Device \d+: ([^,]+),")
_KEPT = ("model_filename", "gpu_info", "type_k", "type_v", "n_gpu_layers", "n_batch", "n_ubatch")


def read_llama_bench(lines: Lines) -> Iterator[Reading]:
    """Yield tokens per second of each test of llama-bench's Markdown table, with build and card above and below it."""
    names: list[str] = []
    for line, text in enumerate(lines, start=1):
        if found := _BUILD.match(text):
            yield Reading("build", found[1], line=line)
        elif found := _DEVICE.match(text):
            yield Reading("device", found[1].strip(), line=line)
        row = cells(text)
        if "t/s" in row:
            names = row
        elif names and len(row) == len(names) and re.search(r"±|\+-", row[names.index("t/s")]):
            values = dict(zip(names, row, strict=True))
            rate, spread = re.split(r" *(?:±|\+-) *", values["t/s"])[:2]
            test, model = values.get("test", "test"), values.get("model", "")
            yield Reading(test, number_or_text(rate), "tok/s", model, line)
            yield Reading(f"{test} spread", number_or_text(spread), "tok/s", model, line)
            if "size" in values:
                yield Reading("size", values["size"], "", model, line)


def read_llama_bench_rows(lines: Lines) -> Iterator[Reading]:
    """Yield the same of llama-bench's CSV, JSON, JSON lines and SQL, by name of the column."""
    for line, row in _rows(lines):
        test, model = _test_of(row), str(row.get("model_type", ""))
        if row.get("avg_ts") in (None, ""):
            continue
        yield Reading(test, number_or_text(str(row["avg_ts"])), "tok/s", model, line)
        if row.get("stddev_ts") not in (None, ""):
            yield Reading(f"{test} spread", number_or_text(str(row["stddev_ts"])), "tok/s", model, line)
        if "model_size" in row:
            yield Reading("size", number_or_text(str(row["model_size"])), "bytes", model, line)
        build = [str(row[name]) for name in ("build_commit", "build_number") if name in row]
        if build:
            yield Reading("build", " ".join(build), "", model, line)
        yield from (
            Reading(name, number_or_text(str(row[name])), "", model, line) for name in _KEPT if name in row
        )


def _test_of(row: Mapping[str, object]) -> str:
    """Return the name that llama-bench's own table gives a test: pp512, tg128, pp512+tg128, tg32 @ d4096."""
    prompt, generated, depth = (int(str(row.get(name) or 0)) for name in ("n_prompt", "n_gen", "n_depth"))
    test = "+".join([*([f"pp{prompt}"] if prompt else []), *([f"tg{generated}"] if generated else [])])
    return f"{test} @ d{depth}" if depth else test


def _rows(lines: Lines) -> Iterator[tuple[int, Mapping[str, object]]]:
    first = next((text for text in lines if text.strip()), "")
    if first.startswith(("[", "{")):
        yield from _json_rows(lines)
    elif any(_INSERT.match(text) for text in lines):
        for line, text in enumerate(lines, start=1):
            if found := _INSERT.match(text):
                values = next(csv.reader([found[2]], quotechar="'", skipinitialspace=True))
                yield line, dict(zip((name.strip() for name in found[1].split(",")), values, strict=False))
    else:
        yield from comma_separated(lines)


def _json_rows(lines: Lines) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the objects of an array that is printed one key a line, or of one object a line; the line is that of the speed."""
    kept: list[str] = []
    speed = 0
    for line, text in enumerate(lines, start=1):
        if '"avg_ts"' in text:
            speed = line
        kept.append(text)
        if not text.rstrip().rstrip(",]").endswith("}"):
            continue
        try:
            row = json.loads("\n".join(kept).strip().lstrip("[").rstrip(",] \n"))
        except ValueError:
            continue
        kept = []
        if isinstance(row, dict):
            yield speed or line, row


def read_batched_bench(lines: Lines) -> Iterator[Reading]:
    """Yield prompt and decode speed of each batch of llama-batched-bench, in its table or in JSON lines."""
    names: list[str] = []
    for line, text in enumerate(lines, start=1):
        row: dict[str, str] = {}
        if text.lstrip().startswith("{"):
            try:
                row = {key.upper(): str(value) for key, value in json.loads(text).items()}
            except (ValueError, AttributeError):
                continue
            row = {
                {"SPEED_PP": "S_PP t/s", "SPEED_TG": "S_TG t/s", "PL": "B"}.get(key, key): value
                for key, value in row.items()
            }
        elif "S_TG t/s" in text:
            names = cells(text)
        elif names and len(values := cells(text)) == len(names):
            row = dict(zip(names, values, strict=True))
        if isinstance(number_or_text(row.get("S_TG t/s", "")), int | float):
            subject = f"batch {row.get('B', '?')}, {row.get('PP', '?')} prompt and {row.get('TG', '?')} generated tokens"
            yield Reading("S_PP", number_or_text(row.get("S_PP t/s", "")), "tok/s", subject, line)
            yield Reading("S_TG", number_or_text(row["S_TG t/s"]), "tok/s", subject, line)


def read_one_batch(lines: Lines) -> Iterator[Reading]:
    """Yield latency and speed of SGLang's bench_one_batch, the last result of each part (those before warm up)."""
    found: dict[str, tuple[int, str, str]] = {}
    for line, text in enumerate(lines, start=1):
        if match := _ONE_BATCH.match(text):
            found[match[1]] = line, match[2], match[3]
    for part, (line, seconds, rate) in found.items():
        yield Reading(f"{part} latency", number_or_text(seconds), "s", line=line)
        yield Reading(f"{part} throughput", number_or_text(rate), "tok/s", line=line)


def is_one_batch(head: str) -> bool:
    """Return whether a text holds results of bench_one_batch."""
    return any(_ONE_BATCH.match(text) for text in head.split("\n"))
