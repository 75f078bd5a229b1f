"""Traceback blocks: lines of one traceback brought together again, whoever wrote in between."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.knowledge.call_sites import traceback_announced_at
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.run.tracelines import (
    Link,
    cleaned,
    exception_line,
    exception_repr,
    frame_line,
    link_line,
    marked_code,
    native_above,
    notebook_type,
    opens,
    reports_metrics,
    stack_line,
    without_numbers,
)

_LONGEST_TEXT = 12_000
_TEXT_LINES = 80
_STRANGE_LINES = 40
"""Lines of other writers that may be between two lines of an unmarked traceback."""

# What a prompt log opens; its text may hold anything, tracebacks too.
# INFO 05-01 12:00:00 [logger.py:43] Received request cmpl-1: prompt: '...
_PROMPT_OPENS = lazy_pattern(
    r"(?:Received request|Generated response|Added request|Request) .{0,200}?(?:prompt|output)\w*: ?(?:['\"]|<\d+ ch)",
    re.DOTALL,
)
_PROMPT_CLOSES = lazy_pattern(
    r"(?:params|sampling_params): ?\w+\(|output_token_ids:|lora_request: |finish_reason: "
)
# Raw lines that never continue the text of an exception.
# Abort was called at 77 line in file:      serve.sh: line 4:    31 Aborted                 (core dumped) vllm serve ...
# [1]    31046 segmentation fault (core dumped)  python bench.py      (zsh)      me@node7:~/vllm (main) ❯ python -m vllm ...
_OTHER_RAW = lazy_pattern(
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|Process \w+|Exception ignored|\[[WIE]\d{3,4} |\[rank\d"
    r"|Loading |Capturing |Processed prompts|nanobind:"
    r"|[^\s:]{1,200}\.py:\d+: \w*Warning|slurmstepd|srun:|[-=]{20}|==> |usage: "
    r"|Exception in thread|\s*\[end of output\]|\+ \w|sys:1: |\S+/resource_tracker\.py"
    r"|Abort was called at \d|\[\d+\] +\d+ [a-z]|(?:\([\w.-]{1,40}\) )?[\w.-]{1,40}@[\w.-]{1,60}:[^\n]{0,100}?[$#❯ᐅ➜] \w"
    r"|\S+: line \d+: +\d+ (?:Aborted|Killed|Terminated|Bus error|Segmentation fault)\b"
)
# Training:  40%|████      | 2/5 [00:20<00:30]
_BAR = lazy_pattern(r"[^|\n]{0,80}?\d+%\|")
_WORD = lazy_pattern(r"[A-Za-z]{3}")
_MOST_SAID = 200
"""Lines of one writer above a traceback that its later lines are held against."""
# utils.py:747: AssertionError
_PLACE_OF_TEST = lazy_pattern(r"\S+\.py:\d+: \w*(?:Error|Exception|Timeout|Failed)\s*\Z")
_RAISES = lazy_pattern(r"raise (?P<type>[A-Z]\w*(?:Error|Exception|Timeout))\b")


class Frame(Struct, frozen=True):
    """One place of a traceback: file, line, function, and the code there ("" where not printed)."""

    file: str
    line: int
    function: str
    code: str
    record: Record


class Raised(Struct, frozen=True):
    """One exception of a block.

    Attributes:
        type: its class as printed; "" where the log ends before it.
        text: its full text, of all lines.
        inner: class in brackets of a remote wrapper ("RayTaskError(RuntimeError)").
        frames: outermost first.
        record: the line that names it, or the innermost place of a torn block.
        link: how it follows from the exception before it in the block.
    """

    type: str
    text: str
    inner: str
    frames: tuple[Frame, ...]
    record: Record
    link: Link

    @property
    def name(self) -> str:
        """The class without its module."""
        return self.type.rpartition(".")[2]

    @property
    def statement(self) -> str:
        """Class and text as printed."""
        return f"{self.type}: {self.text}" if self.text else self.type


class Block(Struct, frozen=True):
    """One traceback with its chain, or an exception line on its own.

    Attributes:
        process: who wrote it.
        level: of the logger that framed it, "" for raw text.
        call_site: of that logger, or None.
        introduction: the line that announces it, or None.
        raised: the exceptions as printed: the first one raised comes first.
        native: lines of native code above it, in order.
        records: all its lines.
        start, end: positions of its first and last line among the records.
    """

    process: Process
    level: str
    call_site: tuple[str, int] | None
    introduction: Record | None
    raised: tuple[Raised, ...]
    native: tuple[Record, ...]
    records: tuple[Record, ...]
    start: int
    end: int

    @property
    def first(self) -> Record:
        """Its first line."""
        return self.records[0]

    @property
    def last_raised(self) -> Raised:
        """The exception that left the process or reached the logger."""
        return self.raised[-1]

    @property
    def announcement(self) -> str:
        """Text of the line that announces it, where the log begins below that by the place of its logger; or an empty text."""
        above = self.introduction
        return above.message if above else traceback_announced_at(*(self.call_site or ("", 0)))


class _Raising(Struct):
    """An exception whose lines are still being collected."""

    link: Link
    frames: list[Frame] = field(default_factory=list)
    type: str = ""
    inner: str = ""
    text: list[str] = field(default_factory=list)
    record: Record | None = None
    announced: str = ""
    code_indent: int = 0
    code_record: Record | None = None

    def add_caller(self, frame: Frame) -> None:
        """Put a frame that is printed below the exception before those below it that were printed already."""
        assert self.record is not None
        below = (n for n, one in enumerate(self.frames) if one.record.line > self.record.line)
        self.frames.insert(next(below, len(self.frames)), frame)

    def done(self) -> Raised:
        # pytest ends the text of an error with its place; the sources of the next test follow.
        listed = next((number for number, one in enumerate(self.text) if _PLACE_OF_TEST.match(one)), None)
        text = _without_middle("\n".join(self.text[:listed]).strip().removesuffix("\nAt:").rstrip())
        if not self.type and self.frames:
            self.type = _announced_type(self.frames[-1].code) or self.announced
        record = self.record or (self.code_record if self.type else None) or self.frames[-1].record
        return Raised(self.type, text, self.inner, tuple(self.frames), record, self.link)


def _without_middle(text: str) -> str:
    """Return the two ends of a long text: commands of a build come first, and what the linker refused comes last."""
    half = _LONGEST_TEXT // 2
    return text if len(text) <= _LONGEST_TEXT else f"{text[:half]}\n{text[-half:]}"


class _OpenBlock(Struct):
    """A block whose lines are still being collected."""

    start: int
    introduction: Record | None
    raised: list[_Raising]
    records: list[Record]
    end: int
    pending: Link = ""
    strange: int = 0
    bare: bool = False
    indent: int = 0

    @property
    def current(self) -> _Raising:
        return self.raised[-1]


def blocks_of(records: Sequence[Record]) -> tuple[Block, ...]:
    """Bring the lines of tracebacks together, per process stream, in order of their first lines.

    Returns:
        Blocks; exceptions inside one are linked, the first one raised first.
    """
    found = sorted(_Collector(records).blocks(), key=lambda block: block.start)
    inside = {id(record) for block in found for record in block.records}
    outside = [position for position, record in enumerate(records) if id(record) not in inside]
    return tuple(_with_native(block, native_above(records, block.start, outside)) for block in found)


def _with_native(block: Block, native: tuple[Record, ...]) -> Block:
    return replace(block, native=native) if native else block


class _Collector:
    """Reads records once and keeps one open block per stream."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._open: dict[tuple[object, ...], _OpenBlock] = {}
        self._previous: dict[tuple[object, ...], int] = {}
        self._quoting = False
        self._wrapped: dict[tuple[object, ...], str] = {}
        self._said: dict[tuple[object, ...], deque[str]] = {}

    def blocks(self) -> Iterator[Block]:
        for position, whole in enumerate(self._records):
            if self._quoted(whole):
                continue
            for record in _lines_of(whole):
                key = _stream(record)
                yield from self._take(key, position, record)
                self._remember(key, position, record)
        for waiting in self._open.values():
            yield from self._closed(waiting)

    def _quoted(self, record: Record) -> bool:
        """Return whether a line is the inside of a prompt or an answer that the server logs."""
        if record.call_site or record.level:
            opening = _PROMPT_OPENS.search(record.message, 0, 400)
            self._quoting = bool(opening) and not _PROMPT_CLOSES.search(
                record.message, opening.end() if opening else 0
            )
            return bool(opening)
        if self._quoting and _PROMPT_CLOSES.search(record.message):
            self._quoting = False
            return True
        return self._quoting

    def _take(self, key: tuple[object, ...], position: int, record: Record) -> Iterator[Block]:
        text = self._joined(key, record.message)
        waiting = self._open.get(key)
        if waiting and record.line - waiting.records[-1].line > 400:
            yield from self._close(key)
            waiting = None
        if waiting and waiting.indent and text[: waiting.indent].isspace():
            text = text[waiting.indent :]
        announced = opens(text)
        if announced is not None:
            yield from self._open_traceback(key, position, record, announced)
            return
        if waiting and self._continue(waiting, position, record, text):
            return
        if waiting:
            yield from self._close(key)
        if not self._opens_without_header(key, position, record, text) and not record.level:
            self._said.setdefault(key, deque(maxlen=_MOST_SAID)).append(text)

    def _joined(self, key: tuple[object, ...], message: str) -> str:
        """Return a line of a traceback; in a narrow box, with the path that the line before began.

        │ /opt/env/lib/python3.11/site-packages/langchain/chains/base. │
        │ py:440 in run                                                │
        """
        text = cleaned(message)
        if not message.lstrip().startswith("\u2502"):
            return text
        piece, begun = text.strip(), self._wrapped.pop(key, "")
        whole = f"{begun} {piece}" if begun.endswith(" in") else begun + piece
        if begun and frame_line(whole):
            return whole
        if piece.startswith("/") and not frame_line(piece):
            self._wrapped[key] = piece
        return text

    def _open_traceback(
        self, key: tuple[object, ...], position: int, record: Record, announced: str
    ) -> Iterator[Block]:
        waiting = self._open.get(key)
        if waiting and waiting.pending and not announced:
            waiting.raised.append(_Raising(waiting.pending))
            waiting.pending = ""
            _add(waiting, position, record)
            return
        outer = exception_line(announced, strict=True) if waiting and waiting.current.record is None else None
        if waiting and outer:
            # RuntimeError: Traceback (most recent call last):   (the text is another process' traceback)
            current = waiting.current
            current.type, current.inner, current.record = outer.type, outer.inner, record
            waiting.raised.append(_Raising("echo"))
            _add(waiting, position, record)
            return
        introduction = record if announced else self._introduction(key, position, record)
        if waiting and waiting.bare and record.call_site and introduction is waiting.records[-1]:
            above = waiting.introduction  # Of the same logger, or another part's line.
            introduction = above if above and above.call_site == record.call_site else waiting.records[0]
            self._open.pop(key)  # The exception's repr was printed first: the traceback says it all.
        elif waiting:
            yield from self._close(key)
        text = cleaned(record.message)
        indent = 0 if announced else len(text) - len(text.lstrip(" "))
        raising = _Raising("", announced=notebook_type(text))
        self._open[key] = _OpenBlock(position, introduction, [raising], [record], position, indent=indent)

    def _introduction(self, key: tuple[object, ...], position: int, record: Record) -> Record | None:
        for known in (key, ("process", record.file, record.process)):
            before = self._previous.get(known)
            if before is not None and 0 <= record.line - self._records[before].line <= 3:
                return self._records[before]
        return None

    def _remember(self, key: tuple[object, ...], position: int, record: Record) -> None:
        """Note what may introduce the next block; lines of carets introduce nothing."""
        if record.message.strip(" ^~"):
            self._previous[key] = position
            self._previous[("process", record.file, record.process)] = position

    def _opens_without_header(
        self, key: tuple[object, ...], position: int, record: Record, text: str
    ) -> bool:
        """Open a block at an exception on its own, or inside a traceback whose head is not in the log; False for other lines."""
        place = frame_line(text)
        if place and (not record.level or text.startswith(" ")):
            frame = Frame(place.file, place.line, place.function, "", record)
            indent = max(0, len(text) - len(text.lstrip(" ")) - 2)
            before, torn = self._introduction(key, position, record), [_Raising("", [frame])]
            self._open[key] = _OpenBlock(position, before, torn, [record], position, indent=indent)
            return True
        if record.level in ("INFO", "DEBUG", "WARNING"):
            return False
        named = exception_line(text if record.level else text.strip(), strict=True)
        named = named or (exception_repr(text) if record.level else None)
        if not named:
            return False
        raising = _Raising("", [], named.type, named.inner, [named.text], record)
        introduction = self._introduction(key, position, record)
        self._open[key] = _OpenBlock(position, introduction, [raising], [record], position, bare=True)
        return True

    def _continue(self, waiting: _OpenBlock, position: int, record: Record, text: str) -> bool:
        """Take a line into an open block; False where it does not belong to it."""
        link = link_line(text)
        if link:
            waiting.pending = link
        elif not text.strip():
            if not record.level and waiting.current.record is None:
                return True
        elif place := frame_line(text):
            if waiting.current.record is not None:
                waiting.raised.append(_Raising(waiting.pending or "echo"))
                waiting.pending = ""
            waiting.current.frames.append(Frame(place.file, place.line, place.function, "", record))
        elif waiting.current.record is None:
            return self._inside_frames(waiting, position, record, text)
        elif place := stack_line(text):
            waiting.current.add_caller(Frame(place.file, place.line, place.function, "", record))
        elif not self._continues_text(waiting, record, text):
            return False
        _add(waiting, position, record)
        return True

    def _inside_frames(self, waiting: _OpenBlock, position: int, record: Record, text: str) -> bool:
        current = waiting.current
        indent = len(text) - len(text.lstrip())
        # Where the head of a traceback that a tool indented is cut off, only its code lines tell the indentation.
        shallow = 1 < indent < current.code_indent
        inside = text.startswith(("  ", "\t")) and not shallow
        named = None if inside else exception_line(text.strip(), strict=shallow or not current.frames)
        if named and not record.level and _OTHER_RAW.match(text):
            named = None
        if named:
            current.type, current.inner, current.record = named.type, named.inner, record
            current.text.append(named.text)
        elif current.frames and (
            text.startswith(("  ", "\t")) or not current.frames[-1].code or marked_code(text)
        ):
            last = current.frames[-1]
            code = marked_code(text) or ("" if last.code else text.strip(" ^~|\u2502") and text.strip())
            if code:
                current.frames[-1] = Frame(last.file, last.line, last.function, code, last.record)
                current.code_record = record
                current.code_indent = indent
        else:
            # Another writer without a name between two lines, or a line that the terminal wrapped.
            waiting.strange += 1
            return waiting.strange <= _STRANGE_LINES
        _add(waiting, position, record)
        return True

    def _continues_text(self, waiting: _OpenBlock, record: Record, text: str) -> bool:
        current = waiting.current
        if len(current.text) > _TEXT_LINES:
            return False
        if record.level:
            first = waiting.records[0]
            if waiting.bare and record.time != first.time:
                return False
        elif (
            _OTHER_RAW.match(text)
            or record.line - waiting.records[-1].line > (3 if any(current.text) else 1)
            or (exception_line(text, strict=True) and not text.startswith(" "))
            or self._is_of_program(waiting, record, text)
        ):
            return False
        current.text.append(text)
        return True

    def _is_of_program(self, waiting: _OpenBlock, record: Record, text: str) -> bool:
        """Return whether a line below an exception is what its program prints as it runs: a bar, a stamp, a line alike one above."""
        named = waiting.current.record or record
        stamped = [(one.time is not None, one.outer_time is not None) for one in (named, record)]
        if is_bar(text) or reports_metrics(text) or stamped[0] != stamped[1]:
            return True
        said = self._said.get(_stream(record))
        if not said or waiting.bare or text[:1].isspace() or not _WORD.search(text):
            return False
        alike = without_numbers(text)
        return any(without_numbers(one) == alike for one in said)

    def _close(self, key: tuple[object, ...]) -> Iterator[Block]:
        yield from self._closed(self._open.pop(key))

    def _closed(self, waiting: _OpenBlock) -> Iterator[Block]:
        _turn_around(waiting)
        raised = tuple(one.done() for one in waiting.raised if one.frames or one.record)
        if not raised:
            return
        first = waiting.records[0]
        yield Block(
            first.process, first.level, first.call_site, waiting.introduction, raised,
            (), tuple(waiting.records), waiting.start, waiting.end,
        )  # fmt: skip


def is_bar(text: str) -> bool:
    """Return whether a line is a progress bar; one is drawn once more where its program ends."""
    return _BAR.match(text) is not None


def is_of_other_program(text: str) -> bool:
    """Return whether a line without a header is a shell's, a launcher's or an interpreter's, and not the program's."""
    return _OTHER_RAW.match(text) is not None


def _turn_around(block: _OpenBlock) -> None:
    """Give the exception of a traceback that is printed with its last line first the places below it.

    IndexError: pop from empty list
      File "/opt/json/core.py", line 50, in fix
    """
    if len(block.raised) != 2:
        return
    named, places = block.raised
    torn = named.record is not None and not named.frames and places.record is None and places.frames
    if torn and named.record is block.records[0] and places.frames[0].record is block.records[1]:
        named.frames = places.frames[::-1]
        block.raised.pop()


def _announced_type(code: str) -> str:
    """Return the exception that the last line of a torn traceback raises: "assert ...", "raise ValueError(".

    >>> _announced_type("assert actual_len >= last_group_len"), _announced_type("raise ValueError(")
    ('AssertionError', 'ValueError')
    """
    if code.startswith("assert "):
        return "AssertionError"
    found = _RAISES.match(code)
    return found["type"] if found else ""


def _lines_of(record: Record) -> Iterable[Record]:
    """Yield a record line by line: a record of JSON holds its whole traceback."""
    if "\n" not in record.message:
        return (record,)
    return (replace(record, message=line, text=line) for line in record.message.split("\n"))


def _add(waiting: _OpenBlock, position: int, record: Record) -> None:
    waiting.records.append(record)
    waiting.end = position
    waiting.strange = 0


def _stream(record: Record) -> tuple[object, ...]:
    """Name the stream in which a traceback's lines follow each other."""
    if record.level and record.call_site:
        return (record.file, record.process, record.level, record.call_site)
    return (record.file, record.process)
