"""Proves that whatever a regex matches holds at least one of its literals.

The regex is unrolled into the few shapes that its matches can have: runs of known characters with
gaps between them. A literal inside one run of every shape is proof; anything else is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.catalogue.regextree import Again, Chars, Choice, Look, Node, Repetition, tree

GAP = "\0"
"""Stands in a shape for any text, also none."""
MOST_SHAPES = 512
_MOST_COPIES = 4


def shapes(regex: str) -> set[str]:
    """Return the shapes of a regex's matches.

    >>> sorted(shape.replace(GAP, "…") for shape in shapes("(?:GPU )?KV cache: [0-9]+ tokens"))
    ['GPU KV cache: … tokens', 'KV cache: … tokens']
    """
    return _shapes(tree(regex))


def uncovered_shape(regex: str, literals: Sequence[str]) -> str | None:
    """Return a shape that holds none of the literals, with … for its gaps; None when every match holds a literal.

    >>> uncovered_shape("KV cache size: [0-9]+ tokens", ["KV cache size: "]) is None
    True
    >>> uncovered_shape("(?:GPU|CPU) blocks: [0-9]+", ["GPU blocks"])
    'CPU blocks: …'
    """
    for shape in sorted(shapes(regex)):
        if not any(literal in run for literal in literals for run in shape.split(GAP)):
            return shape.replace(GAP, "…")
    return None


def _shapes(nodes: Sequence[Node]) -> set[str]:
    found = {""}
    looked: dict[int | None, set[str]] = {}
    for node in nodes:
        # (?=(...))\1 takes what the look ahead saw.
        pieces = looked.get(node.group, {GAP}) if isinstance(node, Again) else _pieces(node)
        if isinstance(node, Look) and node.group is not None:
            looked[node.group] = _shapes(node.body)
        if len(found) * len(pieces) > MOST_SHAPES:
            pieces = {GAP}
        found = {_squeeze(before + piece) for before in found for piece in pieces}
    return found


def _pieces(node: Node) -> set[str]:
    if isinstance(node, Chars):
        return {node.literal} if node.literal is not None else _few(node)
    if isinstance(node, Choice):
        return set[str]().union(*(_shapes(body) for body in node.bodies))
    if isinstance(node, (Look, Again)):
        return {""}
    return _repeated(node)


def _few(node: Chars) -> set[str]:
    """Return the characters of a small set, else a gap."""
    if 0 < len(node.allowed) <= 2 and min(node.allowed) >= 0:
        return {chr(code) for code in node.allowed}
    return {GAP}


def _repeated(node: Repetition) -> set[str]:
    once = _shapes(node.body)
    if node.most == 1:
        return once | ({""} if node.least == 0 else set())
    if node.least == 0 or len(once) > 8:
        return {GAP} if node.least == 0 else {_squeeze(GAP + shape + GAP) for shape in once}
    copies = min(node.least, _MOST_COPIES)
    found = {""}
    for _ in range(copies):
        found = {before + shape for before in found for shape in once}
    return found if node.least == node.most == copies else {_squeeze(shape + GAP) for shape in found}


def _squeeze(shape: str) -> str:
    while GAP + GAP in shape:
        shape = shape.replace(GAP + GAP, GAP)
    return shape
