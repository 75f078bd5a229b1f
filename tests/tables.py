"""Many cheap cases as one test: they are collected once, and all that fail are reported together."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

_Test = Callable[..., None]
_Parameters = type(pytest.param(None))


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[_Test], _Test]:
    """Call a test with every case of a table, given as to `pytest.mark.parametrize`.

    Fixtures are shared by the cases: a test that needs a folder of its own for each is parametrized.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    alone = len(wanted) == 1
    table = [one.values if isinstance(one, _Parameters) else (one,) if alone else one for one in cases]
    assert table

    def decorate(test: _Test) -> _Test:
        @wraps(test)
        def every_case(**fixtures: Any) -> None:
            failed = []
            for values in table:
                case = dict(zip(wanted, values, strict=True))
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception):
                    failed.append(f"{case!s:.300}\n{traceback.format_exc(limit=-2)}")
            assert not failed, f"{len(failed)} of {len(table)} cases fail:\n\n" + "\n".join(failed)

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in wanted]
        every_case.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return every_case

    return decorate
