"""Small packs for tests, as text."""

from __future__ import annotations

GOOD = """[pack]
name = "site"
title = "Our site"

[[pattern]]
id = "site-wrapper-started"
literal = ["wrapper: starting vllm"]
regex = 'wrapper: starting vllm on (?P<gpus>\\d+) GPUs of (?P<host>\\S+)'
level = "foreign"
seen = "any"
topic = "lifecycle"
verdict = "information"
severity = "info"
meaning = "Our wrapper starts the server."
[pattern.fields]
gpus = { type = "int" }
[[pattern.samples]]
text = "wrapper: starting vllm on 8 GPUs of node7"
values = { gpus = 8 }
[[pattern.counter_samples]]
text = "wrapper: stopping vllm"
"""
LINES = GOOD.count("\n")


def changed(old: str, new: str) -> str:
    """Return the good pack with one text replaced, which must stand there once."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def line_of(text: str, part: str) -> int:
    """Return the 1-based line of the first line that starts with `part`."""
    return next(number for number, line in enumerate(text.split("\n"), start=1) if line.startswith(part))
