"""The lines that show a failure: the one that says most, and those that add to it."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.excerpt import excerpt, is_indented
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence
from vllm_logdoctor.run.tracelines import NUMBER, breaks_off, frame_line, indentation, without_numbers

LINES = 6
_HEADER = 120
_ERROR = 60
"""Characters by which a repeated error is recognized."""
_SHORT = 12
# AssertionError      AssertionError: Case 2:      (what it compares is on the next lines)
_BARE = lazy_pattern(r"\w*(?:Error|Exception)(?:: [^:]{1,30}:)?")
# triton.compiler.errors.CompilationError: at 67:13:
_ONLY_PLACE = lazy_pattern(r"\w: at \d+:\d+:\s*\Z")
_SAYS = lazy_pattern(r"[\w.]*(?:Error|Exception): \w")
_WORD = lazy_pattern(r"[A-Za-z]{2,}")
# 150,744
_SEPARATOR = lazy_pattern(r"(?<=\d),(?=\d{3}\b)")
# vLLM detected the platform `cuda`.
_VALUE = lazy_pattern(r"`([A-Za-z]\w*)`")
_NAME = lazy_pattern(r"[A-Za-z]\w*")
_LONGEST = 600
"""Characters that evidence keeps of a line."""
_BREAKS_WORD = lazy_pattern(r"[=(]\Z")
_MIDDLE = lazy_pattern(r"\s*[a-z\d'\"]")
# Processed prompts: 0%| | 0/2 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]:0:rocdevice.cpp :3586: ...
_BAR = lazy_pattern(r"[A-Z][\w ]{2,60}: +\d+%\|.{0,400}?/s(?:, [^\]]{0,80})?\](?=:?\S{2})")
_NEW = lazy_pattern(
    r"\s*(?:[\w.]*(?:Error|Exception|Warning)\b|File \"|FAILED |raise |assert |\S+(?:\(\d+(?:,\d+)?\)|:\d+(?::\d+)?): (?:fatal )?(?:error|warning): )"
)
_CLASSES = lazy_pattern(r"(?:[\w.]*(?:Error|Exception|Exit)(?:\(\w+\))?:\s+)+")
# raise ValueError(msg)      AssertionError()      | RuntimeError:      error: subprocess-exited-with-error      WorkerProc hit an exception.
# return cls.get_metadata_cls()(*args, **kwargs)      ray.exceptions.RayTaskError(ValueError): ray::f() (pid=16, ip=10.0.0.8)
# pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig      Exception in worker W while processing method init_device.
# RuntimeError: Engine core initialization failed. See root cause above.      Processed prompts:   0%|      EngineCore encountered a fatal error.
_SAYS_NOTHING = lazy_pattern(
    r"[\s|]*(?:raise \w.*|[\w.]*(?:Error|Exception)(?:\(\))?:?|error: subprocess-exited-with-error"
    r"|(?:\w+ ?){1,4} (?:hit an exception|failed to start|encountered a fatal error)(?:\.|: %s)?"
    r"|.*\(\*{1,2}\w+\)|.*\(\*\w*args\b.{0,40}\)|.*Traceback \(most recent call last\):?|.*\b\d+%\|.*|ray\.exceptions\.\w+(?:\(\w+\))?: ray::.*"
    r"|\S+ValidationError: \d+ validation errors? for \w+|Exception in worker .{1,80} while processing method \w+\.?"
    r"|Engine background task failed|Process \w+-\d+:|Error executing method .*|RuntimeError: Engine (?:core )?(?:initialization|process) failed.*"
    r"|Unhandled error \(suppress with .*|Error in [\w ]+ stream generator\.|(?:ERROR: +)?Exception in ASGI application"
    r"|CMake Error at \S+ \(\w+\):|File <.*|future: <.*|KeyboardInterrupt|\S*EngineDeadError: EngineCore encountered an issue\..*"
    r"|File \".*, in (?:run_busy_loop|worker_busy_loop|run_engine_core|_bootstrap|<module>)"
    r"|Search for .* for more information\.|Since the operator is called asynchronously.*|CUDA kernel errors might be asynchronously.*"
    r"|.*ERR\d{5} (?:UNKNOWN|PTA call acl).*|what\(\): .*|Position: \d+"
    r"|Compile with `TORCH_USE_\w{1,8}_DSA`.*|For debugging consider passing .*"
    r"|Set TORCHDYNAMO_VERBOSE=1 .*|(?:Loading model weights|Model loading) took .*)\s*",
)
# weight = weight.narrow(      import torch      self.plan(      (the beginning of a statement, whose arguments are on other lines)
# or prefill_meta.block_tables.numel() == 0, \      (the middle of one)
_STATEMENT = lazy_pattern(
    r"\s*(?:(?:import \w|from \S+ import ).*|(?:\w+ = )?[\w.]+\(|(?:(?:or|and|if|else|for|in) .*|[)\]},].*)[,\\(])\s*"
)
# Using cached http://packages.example/rope-1.0-py3-none-any.whl (176 MB)      copying rope/a.py -> build/lib/rope
# ninja: Entering directory `/tmp/b'      PATH=/usr/lib/nvidia-cuda-toolkit/bin:/usr/bin (what a build tool prints of its normal work)
_STEP_OF_TOOL = lazy_pattern(
    r"(?:(?:Using cached|Downloading|Collecting|Processing|Obtaining|Requirement already satisfied:|copying|creating|running|writing|adding) \S"
    r"|ninja: Entering |(?:export )?[A-Z][A-Z0-9_]+=\S)(?!.*(?i:error|fail|not found|denied))"
)
# INFO 04-12 07:11:48 [gpu_model_runner.py:2653] Model loading took 67.5 GiB: a figure of the explanation, and nothing that broke
_NORMAL = lazy_pattern(r"\bINFO:? ")


def decisive(root: Finding) -> tuple[Evidence, ...]:
    """Return the lines of a failure, the one that says most first.

    Of a bare exception that is the assertion that failed, and of a compiler's error that gives a place alone the exception behind it.

    Example:
        >>> lines = (Evidence("a.log", 50, "AssertionError"), Evidence("a.log", 49, "    assert heads % tp_size == 0"))
        >>> [one.line for one in decisive(Finding("x", "failure", "high", "high", "t", "e", "root", lines))]
        [49, 50]
    """
    lines = root.evidence
    first = excerpt(lines[0].text) if lines else ""
    if _ONLY_PLACE.search(first):
        said = [one for one in lines if _SAYS.match(excerpt(one.text)) and not _ONLY_PLACE.search(one.text)]
        return (*said[:1], *(one for one in lines if one not in said[:1]))
    stated = next((one for one in lines if excerpt(one.text).startswith("assert ")), None)
    if stated is None or not (_BARE.fullmatch(first) or frame_line(first)):
        return lines
    return (stated, *(one for one in lines if one is not stated))


def telling(root: Finding) -> tuple[Evidence, ...]:
    """Return the decisive line and those that add to it: no wrapper, progress bar or other wording of the same error.

    Example:
        >>> texts = ("ValueError: expected 2 values of rank 3", "RuntimeError: step failed: expected 2 values of rank 4", "raise ValueError(msg)")
        >>> lines = tuple(Evidence("a.log", number, text) for number, text in enumerate(texts))
        >>> [one.line for one in telling(Finding("x", "failure", "high", "high", "t", "e", "root", lines))]
        [0]
    """
    lines, shown = decisive(root)[:LINES], quoted(root)[1]
    return (*shown[:1], *(one for one in lines if one not in shown and _adds(one, lines[0])))


def carrying(root: Finding) -> tuple[Evidence, ...]:
    """Return the lines that carry the statement on a failure: the error, what shows the places and the phase of the words, figures.

    Example:
        >>> texts = ("KeyError: 'rows'", "    param = table[name]", "Failed to open the file of rows")
        >>> lines = tuple(Evidence("a.log", number, text) for number, text in enumerate(texts))
        >>> finding = Finding("x", "failure", "high", "high", "t", "e", "root", lines)
        >>> [one.line for one in carrying(finding)]
        [0, 2]
    """
    more = (one for one in telling(root) if not _shows_code(one))
    return tuple(dict.fromkeys((*quoted(root)[1], *root.shown_by, *figures(root), *more)))


def _shows_code(line: Evidence) -> bool:
    """Return whether a line is code or a place of a traceback, with or without a box around it."""
    text = excerpt(line.text)
    return is_indented(line.text) or frame_line(text) is not None or text.startswith("│")


def figures(root: Finding) -> tuple[Evidence, ...]:
    """Return the lines in which the run printed the figures and values of an explanation: they prove it, and are nothing that broke.

    Example:
        >>> texts = "ValueError: no memory", "INFO 04-12 07:11:48 [w.py:2] Available KV cache memory: -1.2718 GiB", "INFO [m.py:7] took 9 s"
        >>> lines = tuple(Evidence("a.log", number, text) for number, text in enumerate(texts))
        >>> [one.line for one in figures(Finding("x", "failure", "high", "high", "t", "-1.27 GiB are left.", "root", lines))]
        [1]
    """
    given, values = _numbers(root.explanation), set(_VALUE.findall(root.explanation))
    return tuple(
        one
        for one in decisive(root)[1:]
        if _NORMAL.search(one.text[:_HEADER])
        and (given & _numbers(one.text.partition("] ")[2]) or values.intersection(_NAME.findall(one.text)))
    )


def _numbers(text: str) -> set[float]:
    """Return the numbers in a text, rounded as an explanation shows them."""
    return {round(float(one), 2) for one in NUMBER.findall(_SEPARATOR.sub("", text))}


def quoted(root: Finding) -> tuple[str, tuple[Evidence, ...]]:
    """Return the text of the decisive line, with the rest of a message that a terminal or CMake wrapped, and the lines.

    Example:
        >>> texts = "ReadTimeoutError: HTTPSConnectionPool(host='packages.example.org', port=443): Re", "ad timed out."
        >>> lines = tuple(Evidence("a.log", number, text) for number, text in enumerate(texts))
        >>> quoted(Finding("x", "failure", "high", "high", "t", "e", "root", lines))[0][-15:]
        'Read timed out.'
    """
    lines = decisive(root)
    if not lines:
        return "", ()
    first = lines[0]
    bar = _BAR.match(first.text)
    if bar is not None:  # A progress bar leaves its line open for what is written next.
        return first.text[bar.end() :], lines[:1]
    if len(first.text) >= _LONGEST and first.text.endswith(
        "..."
    ):  # The line goes on, and its last word is torn.
        return f"{first.text[:-3].rpartition(' ')[0]} …", lines[:1]
    begun = [one for one in lines[1:] if _MIDDLE.match(first.text) and _goes_on(one, first)][:1]
    rest = [one for one in lines[1:] if _goes_on(first, one)][:1]
    whole = (*begun, first, *rest)
    text = whole[0].text
    for one in whole[1:]:
        # A tool breaks between words and indents; a terminal breaks where its line is full.
        space = " " if indentation(one.text) and not _BREAKS_WORD.search(text) else ""
        text += f"{space}{one.text.strip()}"
    return text, whole


def _goes_on(first: Evidence, second: Evidence) -> bool:
    """Return whether a line is the rest of the one above: that is long and ends in its middle, and the line has no header of its own."""
    return (
        (second.file, second.line) == (first.file, first.line + 1)
        and breaks_off(first.text)
        and excerpt(second.text) == " ".join(second.text.split())
        and not _NEW.match(second.text)
        and (
            _MIDDLE.match(second.text) is not None or indentation(first.text) == indentation(second.text) > 0
        )
    )


def masked(line: Evidence) -> str:
    """Return the text of a line without its numbers, which are others for each rank, and without Ray's count of equal lines."""
    return without_numbers(line.text.partition(" [repeated ")[0].rstrip())


def _stated(line: Evidence) -> str:
    """Return the text of an error without its class and numbers."""
    return without_numbers(_CLASSES.sub("", excerpt(line.text, limit=400)))[:_ERROR].rstrip(" .…")


def _adds(line: Evidence, first: Evidence) -> bool:
    text, error = excerpt(line.text, limit=400), _stated(first)
    if _STATEMENT.fullmatch(text) or _STEP_OF_TOOL.match(text):
        return False
    if _WORD.search(text) is None or _SAYS_NOTHING.fullmatch(text) or _NORMAL.search(line.text[:_HEADER]):
        return False
    own, whole = _stated(line), without_numbers(excerpt(first.text, limit=400))
    quoted = (len(error) >= _SHORT and error in without_numbers(text)) or (
        len(own) >= _SHORT and own in whole
    )
    return not (quoted or own == error) or text.startswith("assert ")
