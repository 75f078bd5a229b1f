"""What the Jenkins xunit plugin's schema of JUnit files (junit-10.xsd) allows, element by element.

Written after that schema, for the elements that logdoctor may come to write. Jenkins refuses a whole file for one
attribute that its schema does not list.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from msgspec import Struct


class Form(Struct, frozen=True):
    """What an element may carry.

    Attributes:
        required: attributes that must be there.
        optional: attributes that may be there.
        children: elements inside.
        text: whether text is allowed inside.
    """

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()
    text: bool = False


def _form(required: str = "", optional: str = "", children: str = "", *, text: bool = False) -> Form:
    return Form(frozenset(required.split()), frozenset(optional.split()), frozenset(children.split()), text)


FORMS = {
    "testsuites": _form(optional="name time tests failures errors", children="testsuite"),
    "testsuite": _form(
        required="name tests failures errors",
        optional="group time skipped timestamp hostname id package file log url",
        children="testsuite properties testcase system-out system-err",
    ),
    "testcase": _form(
        required="name",
        optional="time classname group",
        children="skipped error failure system-out system-err",
    ),
    "failure": _form(optional="type message", text=True),
    "error": _form(optional="type message", text=True),
    "skipped": _form(optional="type message", text=True),
    "system-out": _form(text=True),
    "system-err": _form(text=True),
}


def violations(root: ElementTree.Element) -> list[str]:
    """Return what the schema would refuse, one phrase each."""
    if root.tag not in ("testsuites", "testsuite"):
        return [f"{root.tag} is no outermost element"]
    return list(_violations(root))


def _violations(element: ElementTree.Element) -> Iterator[str]:
    form = FORMS.get(element.tag)
    if form is None:
        yield f"unknown element {element.tag}"
        return
    attributes = set(element.attrib)
    for name in sorted(form.required - attributes):
        yield f"{element.tag} lacks {name}"
    for name in sorted(attributes - form.required - form.optional):
        yield f"{element.tag} may not carry {name}"
    if not form.text and (element.text or "").strip():
        yield f"{element.tag} may hold no words"
    for child in element:
        if child.tag not in form.children:
            yield f"{child.tag} is not allowed in {element.tag}"
        if (child.tail or "").strip() and not form.text:
            yield f"{element.tag} may hold no words"
        yield from _violations(child)
