"""What a run shows of its failure: exceptions with their context, and lines outside of tracebacks."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.blockkinds import ECHO, BlockKind, wrapped
from vllm_logdoctor.run.blockphase import BlockPhase, phase_of_block, phase_of_message
from vllm_logdoctor.run.blocks import Block, Raised
from vllm_logdoctor.run.lifecycle import Place, trail_of
from vllm_logdoctor.run.lifetimes import in_time_of
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.outcome import Ending
from vllm_logdoctor.run.termination import without_guesses

_FARTHEST = 4000
"""Records that are looked through for lines above, where files are mixed."""

# [Tue Nov 12 10:00:00 2025] NVRM: Xid ...      Nov 12 10:00:00 node3 kernel: NVRM: Xid ...      2025-11-12T10:00:00,1+01:00 NVRM: Xid ...
_KERNEL_DATE = lazy_pattern(
    r"\[?(?P<date>20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?: 20\d\d)?)"
)
# I also tried --enforce-eager, then I get RuntimeError: CUDA error: no kernel image is available     (around a pasted log)
_PROSE = lazy_pattern(
    r"(?:^|[\s(,;])I(?:'m|'ve| am| have)?(?: \w+)? "
    r"(?:get|got|getting|tr(?:y|ied|ying)|see|saw|run|ran|running|us(?:e|ed|ing)|had|set|start(?:ed)?|install(?:ed)?) "
)
# transport/net_ib.cc:1234 NCCL WARN NET/IB : Got completion from peer      libfabric:1:2::efa:ep_ctrl:open():225<warn> Unable to create QP
LIBRARY_WARNED = lazy_pattern(r"\bWARN\b|<warn>")
_WORKERS_STOPPED = "Executor: workers still running after grace period; sending SIGTERM"
_MARKS_REACH = 400
"""A message tells the phase of the records below it, up to so many."""


class Observation(Struct, frozen=True):
    """One text that may name the failure.

    Attributes:
        text: class and text of an exception, or a message.
        record: the line to show.
        block: the block that holds it, or None for a line outside of tracebacks.
        raised: the exception, or None.
        wrapper: whether it only says that something else failed.
        position: its position in the trail.
        place: the same, as the order of the run has it.
    """

    text: str
    record: Record
    position: int
    place: Place
    block: Block | None = None
    raised: Raised | None = None
    wrapper: bool = False
    echo: bool = False

    @property
    def framed(self) -> bool:
        """Return whether a logger printed it."""
        return bool(self.record.level)


class FailureContext:
    """A run that may have failed, with what its judges ask again and again."""

    def __init__(self, run: Run, blocks: Sequence[Block], ending: Ending) -> None:
        self.run = run
        self.blocks = blocks
        self.ending = ending
        self.trail = trail_of(run)
        self._phases: dict[int, BlockPhase] = {}

    def place(self, record: Record) -> Place:
        """Return the position of a record among the others."""
        return self.ending.order.place(record)

    def kind(self, number: int) -> BlockKind:
        """Return what a block is to the run."""
        return self.ending.kinds[number]

    def phase(self, block: Block) -> BlockPhase:
        """Return what was going on when a block was raised; where its frames do not show, by the messages above."""
        if block.start not in self._phases:
            self._phases[block.start] = phase_of_block(block) or self._phase_above(block.start)
        return self._phases[block.start]

    def phase_at(self, position: int) -> BlockPhase:
        """Return what was going on at a place of the trail, by the messages above."""
        return self._phase_above(position)

    def _phase_above(self, position: int) -> BlockPhase:
        positions, phases = self._marks
        last = bisect_left(positions, position) - 1
        return phases[last] if last >= 0 and positions[last] >= position - _MARKS_REACH else ""

    @cached_property
    def _marks(self) -> tuple[list[int], list[BlockPhase]]:
        """Positions in the trail of the messages that tell a phase, and the phases: asked for at every block."""
        found = [(position, phase_of_message(record.message)) for position, record in enumerate(self.trail)]
        marked = [(position, phase) for position, phase in found if phase]
        return [position for position, _ in marked], [phase for _, phase in marked]

    def served_before(self, place: Place) -> bool:
        """Return whether the engine had begun to serve before a place; an excerpt may tell it by its end alone."""
        ready = self.ending.ready
        if ready is None:
            return self.ending.outcome == "crashed_while_serving"
        return ready < place

    def is_of_stopped_worker(self, block: Block) -> bool:
        """Return whether a worker raised a block after the executor had sent its workers SIGTERM: another failure was before."""
        sent = next((one for one in self.trail if _WORKERS_STOPPED in one.message), None)
        after = sent is not None and self.place(sent) < self.place(block.first)
        return after and block.process.role == "worker"

    def time_at(self, position: int) -> float | None:
        """Return the time of the nearest record at or above a place that has one."""
        nearest = reversed(self.trail[max(0, position - 80) : position + 1])
        return next((record.time for record in nearest if record.time is not None), None)

    def above(self, position: int, within: int) -> Sequence[Record]:
        """Return the records above a place: within so many lines, or all of them for 0."""
        if not within:
            return self.trail[:position]
        here = self.trail[position] if position < len(self.trail) else self.trail[-1]
        found: list[Record] = []
        for record in reversed(self.trail[max(0, position - _FARTHEST) : position]):
            if record.file != here.file:
                continue
            if here.line - record.line > within:
                break
            found.append(record)
        return found[::-1]

    def is_of_another_day(self, record: Record) -> bool:
        """Return whether a line prints a date more than a day from the run: a kernel's messages are kept for weeks."""
        found = _KERNEL_DATE.match(record.text[:80])
        return found is not None and in_time_of(self.run, found["date"]) is False

    def is_of_another_card(self, record: Record) -> bool:
        """Return whether a line of the kernel names a card that none of the run's ranks uses, as far as NCCL printed their cards."""
        card = _CARD_OF_XID.search(record.message[:400])
        return card is not None and bool(self._cards) and card["bus"].lower() not in self._cards

    @cached_property
    def _cards(self) -> frozenset[str]:
        found = (_CARD_OF_RANK.search(one.message[:400]) for one in self.trail if "busId" in one.message)
        return frozenset(one["bus"].lower().zfill(2) for one in found if one is not None)

    @cached_property
    def inside(self) -> frozenset[int]:
        """Identities of the records that belong to blocks."""
        return frozenset(id(record) for block in self.blocks for record in block.records)

    def exceptions(self, numbers: Sequence[int]) -> Iterator[Observation]:
        """Yield the exceptions of blocks in order, each chain first raised first."""
        for number in numbers:
            block = self.blocks[number]
            for raised in block.raised:
                above = _error_above(block)
                cut_off = above if not raised.type else None
                quoted = _ORIGINAL.search(raised.statement[:4000])
                yield Observation(
                    quoted["error"] if quoted else _worded(raised) or (above.message if above else ""), cut_off or raised.record, block.start,
                    self.place(raised.record), block, raised, quoted is None and wrapped(raised), bool(quoted or ECHO.search(raised.statement[:200])),
                )  # fmt: skip

    @cached_property
    def lines(self) -> tuple[Observation, ...]:
        """The records outside of tracebacks in order; text that somebody wrote around a log is left out where the log has lines of its own."""
        has_records = any(record.level for record in self.trail)
        return tuple(
            Observation(without_guesses(record.message), record, position, self.place(record))
            for position, record in enumerate(self.trail)
            if id(record) not in self.inside and record.message and not (has_records and is_prose(record))
        )


# NVRM: Xid (PCI:0000:b3:00): 79, pid=1234, GPU has fallen off the bus.
_CARD_OF_XID = lazy_pattern(r"Xid \(PCI:[0-9a-fA-F]{4,8}:(?P<bus>[0-9a-fA-F]{2})")
# NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START
_CARD_OF_RANK = lazy_pattern(r"\bbusId (?P<bus>[0-9a-fA-F]{1,2})[0-9a-fA-F]{3}\b")
# MQEngineDeadError: Engine loop is not running. Inspect the stacktrace to find the original error: ValueError('Attempted to assign ...').
_ORIGINAL = lazy_pattern(r"to find the original error: (?P<error>\w+(?:Error|Exception)\(.{4,})", re.DOTALL)


def is_prose(record: Record) -> bool:
    """Return whether a line is what somebody writes about a log, in the first person."""
    return not record.level and "I" in record.message[:400] and bool(_PROSE.search(record.message[:400]))


def _error_above(block: Block) -> Record | None:
    """Return the line that announces a traceback: a remark or a warning of another place in the code, right above it, does not."""
    above = block.introduction
    if above is None or (above.level in ("DEBUG", "INFO", "WARNING") and above.call_site != block.call_site):
        return None
    # What makes NCCL fail is a warning, too.
    warns = not above.level and LIBRARY_WARNED.search(above.message) and "NCCL WARN" not in above.message
    return None if warns else above


def _worded(raised: Raised) -> str:
    """Return class and text of an exception; where there is no text, what its class or the code that raised it says."""
    code = raised.frames[-1].code if raised.frames else ""
    if raised.name == "AssertionError" and not raised.text and code.startswith("assert "):
        return f"{raised.type}: {code}"
    if raised.name == "OutOfMemoryError" and not raised.text:
        return f"{raised.type}: CUDA out of memory"
    return without_guesses(raised.statement)
