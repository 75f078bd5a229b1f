"""The part of a line that says it: without its header, and around the setting in question."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.prefixes import read_prefix

# INFO 04-12 07:11:48 [utils.py:233] text      ERROR 04-20 20:40:11 worker_base.py:153] text
# INFO 04-12 07:11:48.120 [loggers.py:146] text      ERROR 200507 [worker_base.py:148] text (behind the time of a format of its own)
_HEADER = lazy_pattern(
    r"^(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? (?:\d+ )?)?"
    r"(?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?|(?<= )\[)[\w./-]+(?:\.py)?:\d+\] "
)
# [ERROR] [MainThread] [vllm.worker.worker_base] >>> RuntimeError: ...
_LOGGER = lazy_pattern(
    r"^\[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\] (?:\[[\w.-]{1,40}\] )?\[vllm[\w.]{0,120}\] (?:>>> |[-:] )?"
)
# E       KeyError: 'a' (pytest)      >       assert a (pytest)      (Replica(id=3f0) pid=77) text
# --> [226](vscode-resource://x/utils.py:226) f(a)      ---> 247     f(a) (notebooks)
#   | KeyError: 'a' (an exception group)      45.47 ValueError: text (docker build)
_MARK = lazy_pattern(
    r"^(?:[E>] {3,}(?=\S)|-{1,8}> ?(?:\d+ |\[\d+\](?:\(\S{1,600}\))? ) *(?=\S)"
    r"|(?:\((?:[^()]|\([^()]{0,40}\)){1,60}? pid=\d+[^()]{0,60}\) ){1,3}|(?: *\|){1,8} +(?=\S)"
    r"|(?:#\d+ )?(?:\d\.\d{3}|\d\d\.\d\d|\d{3,4}\.\d) (?= |(?![KMG]i?B)[A-Z]|\w+\.[\w.]*[A-Z]|error: ))"
)
# 1: (EngineCore_DP0 pid=21) ERROR ...      the task, as srun --label writes it: it tells which rank says something
_TASK = lazy_pattern(r"\d{1,4}: (?=[\[(A-Z])")
# BatchDecodeWrapper::BeginForward(at::Tensor, at::Tensor, unsigned int, unsigned int, float, at::Tensor) failed to ...
_ARGUMENTS = lazy_pattern(r"(?<=\w)\([^()]{60,2000}\)")
_SENTENCE = lazy_pattern(r"(?<=[\w)\]'\"`])[.!?](?= [A-Z])")
# The class of an exception is no clause: what it says comes behind it.
_CLAUSE = lazy_pattern(r"(?<=[\w)\]'\"`])(?<!Error)(?<!Exception)(?:[:;](?= )| (?=[(\[{]))")
_COMMA = lazy_pattern(r"(?<=[\w)\]'\"`]),(?= )")
_LEFT_OUT = " ... "
"""What evidence of a long line has between its head and the part with the setting that it shows."""
_IN_WORD = lazy_pattern(r"[\w.][\w.%]")


def excerpt(text: str, knobs: Iterable[str] = (), limit: int = 180) -> str:
    """Return what a line says in at most `limit` characters.

    Args:
        text: the line.
        knobs: settings that the reader wants to see of it; the first that the line holds is in the middle.
        limit: most characters.

    Example:
        >>> excerpt("INFO 04-12 07:11:48 [utils.py:233] non-default args: {'a': 1}")
        "non-default args: {'a': 1}"
        >>> excerpt("x" * 50 + " 'max_num_seqs': 1, " + "y" * 50, ["--max-num-seqs"], 40)
        "…'max_num_seqs': 1, yyyyyyyyyyyyyyyyyyy…"
    """
    bare = text[read_prefix(text).end :]
    task = _TASK.match(text)
    said = " ".join(_LOGGER.sub("", _HEADER.sub("", _MARK.sub("", bare))).split()) or " ".join(text.split())
    said = said.removesuffix("^M")  # The end of a line of Windows, as some viewers write it.
    if task is not None and not said.startswith(task[0]):
        said = f"{task[0]}{said}"
    if len(said) <= limit:
        return said
    at = next((found for knob in knobs if (found := _place(said, knob)) >= 0), -1)
    if at < 0 and said.endswith(_LEFT_OUT.rstrip()) and _LEFT_OUT in said[:-limit]:
        start = said.index(_LEFT_OUT) + len(_LEFT_OUT)
    else:
        start = max(0, at - limit // 4) if at >= 0 else 0
        start = min(start, max(0, len(said) - limit + 1))
        left_out = said.rfind(_LEFT_OUT, start, max(at, 0))
        behind = left_out + len(_LEFT_OUT) if left_out >= 0 else said.find(" ", start, max(at, 0)) + 1
        start = max(start, behind if start else 0)
    end = start + limit - 1 - (1 if start else 0)
    return ("…" if start else "") + _whole_words(said, start, end) + ("…" if end < len(said) else "")


def is_indented(text: str) -> bool:
    """Return whether a line is indented as the code of a traceback.

    Example:
        >>> is_indented("ERROR 04-12 07:11:48 [core.py:866]     self.load()"), is_indented("KeyError: 'a'")
        (True, False)
    """
    return _HEADER.sub("", text[read_prefix(text).end :]).startswith("    ")


def without_arguments(text: str, limit: int) -> str:
    """Return a message that is too long without the arguments of a call: C++ names them all before it says what failed.

    Example:
        >>> without_arguments("Begin(at::Tensor, at::Tensor, at::Tensor, unsigned int, unsigned int, float) failed", 60)
        'Begin(…) failed'
    """
    return text if len(text) <= limit else _ARGUMENTS.sub("(…)", text)


def whole_sentences(text: str, limit: int) -> str:
    """Return what a line says, where it is too long cut behind a sentence that fills most of the room, else behind a word.

    Example:
        >>> whole_sentences("The card has 8.5 GiB. Process 7 holds 6 GiB of it.", 40)
        'The card has 8.5 GiB. …'
    """
    said = excerpt(text, limit=limit)
    if not said.endswith("…"):
        return said
    ends = [found.end() for found in _SENTENCE.finditer(said) if found.end() > limit // 2]
    return f"{said[: ends[-1]]} …" if ends else said


def heading(text: str, limit: int) -> str:
    """Return what a message says in at most `limit` characters: to the end of its first sentence, else of a clause, else of a word.

    Example:
        >>> heading("ValueError: No kernel takes this format. Install the package that has one, or use another format.", 60)
        'ValueError: No kernel takes this format'
        >>> heading("RuntimeError: Free memory is below the reserve: 13330546688 bytes available, 2 wanted", 60)
        'RuntimeError: Free memory is below the reserve'
        >>> heading("CompileError: RuntimeError: Tried to erase a node that still has users", 50)
        'CompileError: RuntimeError: Tried to erase a node…'
    """
    if len(text) <= limit:
        return text
    for ends in (_SENTENCE, _CLAUSE, _COMMA):
        found = [end.start() for end in ends.finditer(text) if limit // 3 <= end.start() <= limit]
        if found:
            return text[: found[0] if ends is _SENTENCE else found[-1]]
    return f"{_whole_words(text, 0, limit - 1)}…"


def _whole_words(text: str, start: int, end: int) -> str:
    """Return a part of a text without a torn last word: half a number is another number."""
    part = text[start:end]
    if end >= len(text) or not _IN_WORD.match(text, end - 1):
        return part.rstrip()
    kept = part.rpartition(" ")[0].rstrip()
    return kept if len(kept) > len(part) * 3 // 4 else part


def _place(text: str, knob: str) -> int:
    bare = knob.lstrip("-").split("=")[0].removeprefix("no-")
    if len(bare) < 3:
        return -1
    found = [place for name in (bare.replace("-", "_"), bare) if (place := text.find(name)) >= 0]
    return min(found, default=-1)
