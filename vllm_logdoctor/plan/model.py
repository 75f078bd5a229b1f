"""The plan: one merged set of changes with the launch command before and after."""

from __future__ import annotations

from msgspec import Struct

from vllm_logdoctor.rules.model import Change


class PlannedChange(Struct, frozen=True):
    """A change with the findings that ask for it and what was settled about it."""

    change: Change
    findings: tuple[str, ...]
    settled: str = ""


class WhatIf(Struct, frozen=True):
    """A capacity answer: KV tokens and concurrency after one change; None with the reason in `basis`."""

    knob: str
    before: object
    after: object
    kv_cache_tokens: int | None
    low: int | None
    high: int | None
    max_concurrency: float | None
    basis: str


class NextLimit(Struct, frozen=True):
    """What limits with a plan made, and where.

    Attributes:
        name: "max_num_seqs", "KV cache", "client", "memory bandwidth" ...
        where: the figures of the planned run at which it limits; empty for a limit of the load, which is not simulated.
        stays: whether it is what limits this run as well.
    """

    name: str
    where: str
    stays: bool


class Plan(Struct, frozen=True):
    """All changes, one value per knob, in order, valid for the run's vLLM version.

    Attributes:
        changes: in the order to apply.
        command_before, command_after: complete launch commands as shell, or None where the log does not hold
            the arguments.
        refused: knobs that were asked for and left out, with the reason.
        next_limits: what limits with the plan made, the first first; empty where the log does not tell it.
    """

    changes: tuple[PlannedChange, ...] = ()
    command_before: str | None = None
    command_after: str | None = None
    refused: tuple[tuple[str, str], ...] = ()
    next_limits: tuple[NextLimit, ...] = ()

    @property
    def next_limit(self) -> str:
        """Return the name of the first of the next limits, or ""."""
        return self.next_limits[0].name if self.next_limits else ""
