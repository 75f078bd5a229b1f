"""Reader of Python-repr-like text: configuration lines, argument dumps, nested objects, enum members, JSON."""

from __future__ import annotations

from typing import Any

from vllm_logdoctor.lazy import lazy_pattern

_NUMBER = lazy_pattern(r"-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)(?![\w.])")
_WORD = lazy_pattern(r"[A-Za-z_][\w.]*")
_CONSTANTS = {"None": None, "null": None, "True": True, "true": True, "False": False, "false": False}
# chunked_prefill_enabled=False multi_step_stream_outputs=True     (0.6.3 forgot the comma)
_MISSING_COMMA = lazy_pattern(r"\s+(?=[A-Za-z_]\w*=)")
# CompilationMode.VLLM_COMPILE: 3     DynamicShapesType.BACKED: 'backed'
_ENUM_MEMBER = lazy_pattern(r"[A-Z]\w*\.(?P<name>[A-Z]\w*)\s*:\s*(?:'(?P<text>[^']*)'|[\d(-])")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_DEPTH = 60
_MOST = 1e18


def read_pairs(text: str) -> dict[str, Any]:
    """Read `key=value, key=value` text, as in `Namespace(...)` and the engine's configuration line.

    A text that is cut gives the pairs before the cut; a value that can't be read is kept as text.

    Example:
        >>> read_pairs("model='a/b', dtype=torch.float16, x=Cfg(n=1, k={'a': <E.B: 2>}), y=[1, 2]")["x"]
        {'n': 1, 'k': {'a': 'B'}}
    """
    return _Reader(text).pairs(end="", depth=0)


def read_value(text: str) -> Any:
    """Read one value: a dict, a list, an object, a number, a word.

    Example:
        >>> read_value("{'model': 'm', 'enforce_eager': True, 'lora': [P(name='a')]}")
        {'model': 'm', 'enforce_eager': True, 'lora': [{'name': 'a'}]}
    """
    return _Reader(text).value(stop=",}])", depth=0)


def _number(text: str) -> int | float | str:
    """Return a number, or the text of one that no setting of an engine has: arithmetic on it would overflow."""
    value = float(text)
    if not abs(value) < _MOST:
        return text
    return value if set(text) & set(".eE") else int(text)


class _Reader:
    """Recursive descent over the text; never fails, gives what precedes a cut."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def pairs(self, end: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._skip() < len(self._text):
            if end and self._text[self._at] == end:
                self._at += 1
                break
            match = _WORD.match(self._text, self._at)
            if not match or self._text[match.end() : match.end() + 1] != "=":
                before = self._at
                self.value(stop=",)" if end else ",", depth=depth + 1)
                self._at += self._at == before
            else:
                self._at = match.end() + 1
                found[match[0]] = self.value(stop="," + end, depth=depth + 1)
            self._skip()
            if self._text[self._at : self._at + 1] == ",":
                self._at += 1
        return found

    def value(self, stop: str, depth: int) -> Any:
        self._skip()
        first = self._text[self._at : self._at + 1]
        if depth > _DEPTH or not first:
            return self._bare(stop)
        if first in "'\"":
            return self._string(first)
        if first == "{":
            return self._mapping(depth)
        if first in "[(":
            return self._sequence("]" if first == "[" else ")", depth)
        if first == "<":
            return self._member()
        number = _NUMBER.match(self._text, self._at)
        if number and self._text[number.end() : number.end() + 1] in ("", *",)]} \t\r\n"):
            self._at = number.end()
            return _number(number[0])
        return self._word(stop, depth)

    def _word(self, stop: str, depth: int) -> Any:
        word = _WORD.match(self._text, self._at)
        if word:
            after = self._text[word.end() : word.end() + 1]
            if after == "(":
                self._at = word.end() + 1
                return self._arguments(depth)
            if word[0] in _CONSTANTS and after in ("", *",)]} \t\r\n"):
                self._at = word.end()
                return _CONSTANTS[word[0]]
        return self._bare(stop)

    def _arguments(self, depth: int) -> Any:
        """Arguments of an object: named ones as a dict, positional ones alone as a list."""
        start = self._skip()
        word = _WORD.match(self._text, start)
        if word and self._text[word.end() : word.end() + 1] == "=":
            return self.pairs(end=")", depth=depth + 1)
        items = self._sequence(")", depth, opened=True)
        return items[0] if len(items) == 1 else items

    def _string(self, quote: str) -> str:
        out: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == quote:
                break
            if character == "\\" and self._at < len(self._text):
                escaped = self._text[self._at]
                self._at += 1
                out.append(_ESCAPES.get(escaped, escaped))
            else:
                out.append(character)
        return "".join(out)

    def _mapping(self, depth: int) -> Any:
        found: dict[str, Any] = {}
        members: list[Any] = []
        self._at += 1
        while self._skip() < len(self._text):
            if self._text[self._at] == "}":
                self._at += 1
                break
            before = self._at
            key = self.value(stop=":,}", depth=depth + 1)
            self._skip()
            if self._text[self._at : self._at + 1] == ":":
                self._at += 1
                found[str(key)] = self.value(stop=",}", depth=depth + 1)
            else:
                members.append(key)
            self._skip()
            self._at += self._text[self._at : self._at + 1] == ","
            self._at += self._at == before
        return members if members and not found else found

    def _sequence(self, end: str, depth: int, opened: bool = False) -> list[Any]:
        found: list[Any] = []
        self._at += not opened
        while self._skip() < len(self._text):
            if self._text[self._at] == end:
                self._at += 1
                break
            before = self._at
            found.append(self.value(stop="," + end, depth=depth + 1))
            self._skip()
            self._at += self._text[self._at : self._at + 1] == ","
            self._at += self._at == before
        return found

    def _member(self) -> str:
        """Read an enum member as its text value or else its name; keep the words of any other object.

        <DynamicShapesType.BACKED: 'backed'>   <CUDAGraphMode.FULL: (2, 1)>   <class 'x'>   <function f at 0x1>
        """
        end = self._text.find(">", self._at)
        end = len(self._text) if end < 0 else end
        inside = self._text[self._at + 1 : end]
        self._at = end + 1
        member = _ENUM_MEMBER.match(inside)
        if member is None:
            return inside.split(":", 1)[0].strip()
        return member["text"] or member["name"]

    def _bare(self, stop: str) -> str:
        start = self._at
        depth = 0
        while self._at < len(self._text):
            character = self._text[self._at]
            if depth == 0 and character in stop:
                break
            depth += (character in "([{") - (character in ")]}")
            if depth < 0:
                break
            self._at += 1
        text = self._text[start : self._at]
        missing = _MISSING_COMMA.search(text)
        if missing:
            self._at = start + missing.start()
            text = text[: missing.start()]
        return text.strip()

    def _skip(self) -> int:
        while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
            self._at += 1
        return self._at
