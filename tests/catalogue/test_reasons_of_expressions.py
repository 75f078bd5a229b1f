"""Why a regex is refused: the rule that it breaks, in words, below and above each limit."""

from __future__ import annotations

from tests.tables import for_each
from vllm_logdoctor.catalogue.redos import superlinear_reason

TOUCH = "has two open-ended parts in touch that can take the same character; part them by a literal"
ROUNDS = "repeats a part of changing length; end each round with a character that it can't take"


def each_place(text: str) -> str:
    return f"tries each place of {text!r} to the end; let what follows exclude one of its characters"


@for_each(
    ("regex", "reason", "anywhere"),
    [
        (r"a\d+\d+x", TOUCH, TOUCH),
        (r"a\d+[a-c]+x", None, each_place("a")),
        # What a look ahead holds is tried as well.
        (r"(?=\d+\d+x)y", TOUCH, TOUCH),
        (r"(?=\d+x)y", None, None),
        (r"(\w+\s*)+x", ROUNDS, ROUNDS),
        (r"(?:a?b?)+c", ROUNDS, ROUNDS),
        (r"(?:ab|[ax]b)+c", ROUNDS, ROUNDS),
        (r"(a)\1+x", ROUNDS, ROUNDS),
        (r"(?:\w+, )*x", None, each_place("anything")),
        (r"(?:ab|cd)+x", None, each_place("anything")),
        # From the start of a message a part is tried once, anywhere in it from each place.
        (r"error .* in x", None, each_place("error ")),
        (r"error [^e]* in x", None, None),
        (r"error .* in .* of x", each_place(" in "), each_place("error ")),
        (r"error .* in .*", None, each_place("error ")),
        (r"error (?:.*) in x", None, each_place("error ")),
    ],
)
def test_the_reason_of_a_refusal(regex: str, reason: str | None, anywhere: str | None) -> None:
    assert superlinear_reason(regex) == reason
    assert superlinear_reason(regex, anywhere=True) == anywhere


@for_each(("first", "second", "refused"), [(10, 10, False), (250, 250, True), (1, 250, False)])
def test_limits_multiply(first: int, second: int, refused: bool) -> None:
    reason = superlinear_reason(rf"x.{{0,{first}}}y.{{0,{second}}}z")
    assert (reason or "").startswith("has limits that multiply to ") is refused
    if refused:
        assert f" {first * second} tries" in (reason or "")
