"""Launch commands that a log shows: typed at a prompt, traced by a script's shell, printed by a supervisor."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import flag_spans, whole_flag
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.model import Evidence

# $ vllm serve org/m --port 8000      (venv) user@host:~/work# python -m vllm.entrypoints.openai.api_server --model org/m
# + CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m -tp 2      root 4711 12.0 0.4 ... python3 -m vllm.entrypoints.openai.api_server --model org/m
# Starting server: /opt/venv/bin/vllm serve org/m       docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model org/m
# VLLM_CPU_KVCACHE_SPACE=16 time python benchmarks/benchmark_throughput.py --model org/m --device cpu      (an engine of its own)
# (base) PS C:\Users\me\my work> vllm serve org/m      C:\work>vllm serve org/m      me@mac vllm % vllm serve org/m
# me@node7:~/vllm (main) ❯ vllm serve org/m      ➜  vllm git:(main) ✗ vllm serve org/m      [me@node7 my work]$ vllm serve org/m
# A bare "# " or "> " begins a comment or a quotation, unless the command on the log's first line has it too.
_TYPED = (
    r"(?:\([\w .:/\\-]{1,80}\) ?){0,3}"
    r"(?:(?:[^\s$#>'\"`]{1,80}(?: ?[^\s$#>'\"`]{1,120})?[$#>]|\[[^\]'\"`]{1,120}\][$#]|PS [^>'\"`]{1,200}>|\$) "
    r"|[A-Za-z]:\\[^>'\"`]{0,200}> ?|\S{1,60}@\S{1,60} [^\s'\"`]{1,120} [%$#] "
    r"|(?:[^\s'\"`]{1,80} {1,4}){0,5}[❯➜ᐅ✗λ] {1,4}(?:[^\s'\"`]{1,80} {1,4}){0,3}?)"
)
_TRACED = r"\++ "
_LABEL = (
    r"(?:(?:\[[^\]]{1,40}\] ?)?(?i:(?:start|launch|runn|execut)(?:ing|ed)?|command|cmd|exec)[\w ]{0,30}: ?)"
)
_LISTED = r"(?:[\w+-]{1,32} +\d{1,9} .{0,200}? )"
WRAPPERS = (
    r"(?:(?:nohup|exec|sudo|time|env|srun|mpirun|numactl|taskset|stdbuf|setsid|uv run|poetry run)"
    r"(?: [\w.,=:/@%-]{1,60}){0,12}? +){0,4}"
)
"""Programs that start another one, with their options."""
_BEFORE = rf"(?:[A-Z][A-Z0-9_]{{1,60}}=\S{{0,200}} +){{0,20}}{WRAPPERS}"
_PROGRAM = (
    r"(?:(?:\S{1,160}/)?vllm +serve(?= )"
    r"|(?:\S{0,160}/)?python[\d.]{0,5} +(?:-\w +)*-m +vllm\.entrypoints\.(?:openai\.)?api_server(?= |$)"
    r"|(?:\S{0,160}/)?python[\d.]{0,5} +(?:\S{1,160}/)vllm +serve(?= )"
    r"|(?:\S{1,160}/)?vllm +bench +(?:throughput|latency)(?= )"
    r"|(?:\S{0,160}/)?python[\d.]{0,5} +(?:\S{1,160}/)?benchmark_(?:throughput|latency)\.py(?= ))"
)
_IMAGE = r"(?:sudo +)?(?:docker|podman|nerdctl) +run +.{0,3000}?\bvllm/vllm-(?:openai|cpu)\S{0,100}"
_COMMAND = lazy_pattern(
    rf"\s*(?:(?P<typed>{_TYPED})|{_TRACED}|{_LABEL}|{_LISTED})?(?:{_BEFORE}(?P<program>{_PROGRAM})|(?P<image>{_IMAGE}))(?P<arguments>(?: .*)?)\Z"
)
# + vllm bench serve --model org/m --request-rate inf      Running benchmark: python benchmarks/benchmark_serving.py --model org/m
_LOAD = lazy_pattern(
    rf"\s*(?:{_TYPED}|{_TRACED}|{_LABEL})?(?P<command>{_BEFORE}(?:(?:\S{{1,160}}/)?vllm +bench +serve"
    r"|(?:\S{0,160}/)?python[\d.]{0,5} +(?:\S{1,160}/)?benchmark_serving\.py)(?: .*)?)\Z"
)
# $ vllm serve org/a --port 8000 root@node7# vllm serve org/b      (two lines of a terminal, copied as one)
_TYPED_LAUNCH = rf"{_TYPED}{_BEFORE}(?:{_PROGRAM}|{_IMAGE})"
_AT_PROMPT = lazy_pattern(rf"\s*{_TYPED_LAUNCH}")
_NEXT_PROMPT = lazy_pattern(rf"(?<=\s)(?={_TYPED_LAUNCH})")
_BARE = ("# ", "> ")
_MOST_LOADS = 100
# ... --swap-space^Me 2      a terminal that wraps a line as somebody types draws the last character twice
_REDRAWN = lazy_pattern(r"(.)(?:\^M|\r)\1")
_CONTROL = lazy_pattern(r"\^M|[\x00-\x08\x0b-\x1f\x7f]")
_MARKS = (
    "vllm serve", "entrypoints.", "vllm/vllm-", "docker run", "podman run", "vllm bench ", "benchmark_serving.py", "benchmark_throughput.py",
    "benchmark_latency.py",
)  # fmt: skip
_MOST_LINES = 80
_LONGEST = 16_000
_ENDS = frozenset({"|", "&", "&&", "||", ";", ">", ">>", "<", "2>&1", "2>", "&>"})
# org/m   /models/m   m.gguf: no word of a sentence, no placeholder of a manual
_MODEL = lazy_pattern(r"[\w.~/-][\w./:@+-]*")
_SIZE = lazy_pattern(r"(?P<figure>\d+(?:\.\d+)?)(?P<unit>[kKmM])")
_UNITS = {"k": 1000, "K": 1024, "m": 1_000_000, "M": 1024 * 1024}
_SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-q": "quantization",
}
_PLAIN = {"true": True, "false": False, "none": None}
# 2>server.log   2>&1   >/dev/null
_REDIRECTION = lazy_pattern(r"\d?[<>].*")


class LaunchCommand(Struct, frozen=True):
    """What a command line asks for.

    Attributes:
        arguments: values by field; `model` where the command names one.
        evidence: the lines of the command.
        offline: whether it is a benchmark with an engine of its own, not a server.
        typed: whether it was typed at a prompt: the shell was done with the command before it.
    """

    arguments: dict[str, Any]
    evidence: tuple[Evidence, ...]
    offline: bool = False
    typed: bool = False


class Launches(Struct):
    """Collects the commands of one run's part of the log, and the one that comes behind its begin.

    Attributes:
        own: the last command before the run's first line, or None.
        following: the last command behind it: the next run's, or None.
        loads: the lines of the first commands of benchmark clients, their text the command alone.
        prompt: the bare prompt of the log, or "".
    """

    own: LaunchCommand | None = None
    following: LaunchCommand | None = None
    loads: list[Evidence] = field(default_factory=list)
    prompt: str = ""
    _lines: list[str] = field(default_factory=list)
    _evidence: list[Evidence] = field(default_factory=list)
    _last: tuple[int, int] = (-1, -1)

    def may_tell(self, record: Record) -> bool:
        """Return, at little cost, whether text that no logger framed can be a part of a command."""
        return bool(self._lines) or any(mark in record.message for mark in _MARKS)

    def is_typed(self, record: Record) -> bool:
        """Return whether a line is a prompt with the launch of a server: the shell is done with the command before it."""
        if not any(mark in record.message for mark in _MARKS):
            return False
        return _AT_PROMPT.match(self._at_prompt(record.message)) is not None

    def _at_prompt(self, text: str) -> str:
        return f"$ {text[2:]}" if self.prompt and text.startswith(self.prompt) else text

    def read(self, record: Record, evidence: Evidence, begun: bool) -> None:
        """Take in a record; a backslash at its end says that the next line goes on."""
        text = record.message.rstrip()
        if record.line == 1 and not begun and text.startswith(_BARE):
            self.prompt = text[:2]
        if not self._lines:
            text = self._at_prompt(text)
        if self._lines and (record.file, record.line) == (self._last[0], self._last[1] + 2):
            # A blank line, which is not a record, ends a command whose last line has a backslash.
            self._finish(begun)
        elif self._lines and (record.file, record.line) != (self._last[0], self._last[1] + 1):
            self._lines, self._evidence = [], []
        elif self._lines and _AT_PROMPT.match(text):
            self._lines, self._evidence = [], []  # The command before was given up, or copied in part.
        if not self._lines and not any(mark in text for mark in _MARKS):
            return
        self._lines.append(text.removesuffix("\\"))
        self._evidence.append(evidence)
        self._last = record.file, record.line
        if not text.endswith("\\") or len(self._lines) >= _MOST_LINES:
            self._finish(begun)

    def _finish(self, begun: bool) -> None:
        """Note the command whose lines were read."""
        whole, lines = " ".join(self._lines), tuple(self._evidence)
        command = command_of(whole, lines)
        self._lines, self._evidence = [], []
        load = _LOAD.match(whole) if command is None and len(whole) <= _LONGEST else None
        if load is not None and len(self.loads) < _MOST_LOADS:
            self.loads.append(replace(lines[0], text=" ".join(load["command"].split())))
        if command is not None and begun:
            self.following = command
        elif command is not None:
            self.own = command


def command_of(text: str, evidence: tuple[Evidence, ...] = ()) -> LaunchCommand | None:
    """Read a line that is the launch of a server and nothing else; None for anything that only speaks of one.

    Example:
        >>> command_of("$ vllm serve org/m --max-num-seqs 32 -tp 2 2>&1 | tee log").arguments
        {'model': 'org/m', 'max_num_seqs': 32, 'tensor_parallel_size': 2}
        >>> command_of("me@a:~$ vllm serve org/m --port 80 root@b# vllm serve org/n").arguments
        {'model': 'org/n'}
        >>> command_of("$ vllm serve org/m --swap-space^Me 2").arguments
        {'model': 'org/m', 'swap_space': 2}
        >>> command_of("Run vllm serve org/m to start it") is None
        True
    """
    if len(text) > _LONGEST:
        return None
    found = _COMMAND.match(_CONTROL.sub("", _REDRAWN.sub(r"\1", text)))
    if found is None:
        return None
    if any(mark in found["arguments"] for mark in _MARKS):
        _, *later = _NEXT_PROMPT.split(found["arguments"])
        if later:
            return command_of(later[-1], evidence)
    try:
        words = shlex.split(found["arguments"])
    except ValueError:
        return None
    program = found["program"] or ""
    arguments = _arguments(words, "serve" in program)
    offline = "bench" in program
    if offline:  # Its own arguments, as the lengths of its prompts, are no settings of the engine.
        arguments = {
            name: value for name, value in arguments.items() if flag_spans(f"--{name.replace('_', '-')}")
        }
    typed = found["typed"] is not None
    # A sentence names no model; who types a command may leave it to the default or to the shell.
    return LaunchCommand(arguments, evidence, offline, typed) if typed or arguments.get("model") else None


def _arguments(words: Sequence[str], takes_model: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting: list[str] = []
    for position, word in enumerate(words):
        if word in _ENDS or _REDIRECTION.fullmatch(word):
            break
        name = field_of_flag(word)
        if name is not None:
            _close(found, waiting)
            waiting = [name]
            _, equals, value = word.partition("=")
            if equals:
                waiting.append(value)
                _close(found, waiting)
                waiting = []
        elif waiting:
            waiting.append(word)
        elif takes_model and position == 0 and _MODEL.fullmatch(word):
            found["model"] = word
    _close(found, waiting)
    return found


def field_of_flag(word: str) -> str | None:
    """Return the field that a word names as a flag: --max-num-seqs, --no-enable-prefix-caching=..., -tp."""
    if word in _SHORT:
        return _SHORT[word]
    head = word.partition("=")[0]
    if head.startswith("--") and len(head) > 3 and head[2].isalpha():
        return whole_flag(head.replace("_", "-"))[2:].replace("-", "_")
    return None


def asked_of(command: str) -> dict[str, Any]:
    """Return what the command line of a benchmark client asks for, by argument.

    Example:
        >>> asked_of("vllm bench serve --model org/m --max-concurrency 8 --request-rate inf --ignore-eos")
        {'model': 'org/m', 'max_concurrency': 8, 'request_rate': 'inf', 'ignore_eos': True}
    """
    try:
        return _arguments(shlex.split(command), takes_model=False)
    except ValueError:
        return {}


def _close(found: dict[str, Any], words: Sequence[str]) -> None:
    """Note a flag with the words behind it; a value that the shell was to fill in is not known."""
    if not words:
        return
    name, values = words[0], [_value(word) for word in words[1:]]
    if any("$" in word for word in words[1:]):
        return
    if not values and name.startswith("no_"):
        found[name.removeprefix("no_")] = False
    elif not values:
        found[name] = True
    else:
        found[name] = values[0] if len(values) == 1 else values


def _value(word: str) -> Any:
    """Return a word of a command line as the value that it means.

    Example:
        >>> _value("0.9"), _value("32k"), _value("auto"), _value('{"a": 1}')
        (0.9, 32000, 'auto', {'a': 1})
    """
    if word.lower() in _PLAIN:
        return _PLAIN[word.lower()]
    size = _SIZE.fullmatch(word)
    if size is not None:
        return int(float(size["figure"]) * _UNITS[size["unit"]])
    if word.startswith(("{", "[")) or word[:1].isdigit() or word[:1] == "-":
        try:
            return json.loads(word)
        except ValueError:
            return word
    return word
