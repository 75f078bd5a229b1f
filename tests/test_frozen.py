"""Classes under `@frozen` and `@slotted` behave as those under `@dataclass(frozen=True, slots=True)` and `@dataclass(slots=True)`."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from inspect import signature
from typing import Any, get_type_hints

import pytest

from vllm_logdoctor.frozen import frozen, slotted


@frozen
class Place:
    """Where something stands."""

    file: str
    line: int = 1
    notes: tuple[str, ...] = ()
    seen: dict[str, int] = field(default_factory=dict)


@frozen
class Single:
    """One field only."""

    value: int


@slotted
class Tally:
    """What may change."""

    name: str
    count: int = 0
    seen: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Usual:
    """What the standard library makes of the fields of `Place`."""

    file: str
    line: int = 1
    notes: tuple[str, ...] = ()
    seen: dict[str, int] = field(default_factory=dict)


def test_arguments_are_taken_by_place_and_by_name() -> None:
    place = Place("a.log", notes=("x",))
    assert (place.file, place.line, place.notes, place.seen) == ("a.log", 1, ("x",), {})


@pytest.mark.parametrize("arguments", [{}, {"file": "a", "column": 2}])
def test_missing_and_unknown_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Place(**arguments)


def test_each_instance_has_its_own_default_from_a_factory() -> None:
    assert Place("a").seen is not Place("a").seen


def test_fields_can_neither_be_set_nor_deleted_nor_added() -> None:
    place: Any = Place("a")
    with pytest.raises(FrozenInstanceError):
        place.line = 2
    with pytest.raises(FrozenInstanceError):
        del place.line
    with pytest.raises(FrozenInstanceError):
        place.column = 3
    assert not hasattr(place, "__dict__")


def test_equal_fields_of_the_same_class_are_equal_and_have_one_hash() -> None:
    assert Place("a", 2) == Place("a", 2) != Place("a", 3)
    assert Place("a", 2) != Usual("a", 2)
    assert Single(4) == Single(4) != Single(5)
    assert {Single(4), Single(4), Single(5)} == {Single(5), Single(4)}


def test_it_reads_and_is_taken_apart_as_a_data_class() -> None:
    place, usual = Place("a", 2, ("x",), {"y": 1}), Usual("a", 2, ("x",), {"y": 1})
    assert repr(place).endswith(repr(usual).removeprefix("Usual"))
    assert is_dataclass(place)
    assert [(one.name, one.type) for one in fields(place)] == [(one.name, one.type) for one in fields(usual)]
    assert get_type_hints(Place) == get_type_hints(Usual)
    assert asdict(place) == asdict(usual)
    assert replace(place, line=3) == Place("a", 3, ("x",), {"y": 1})
    match place:
        case Place(file, line):
            assert (file, line) == ("a", 2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_copied_and_pickled_whole(protocol: int) -> None:
    place = Place("a", 2, ("x",), {"y": 1})
    assert pickle.loads(pickle.dumps(place, protocol)) == place
    assert copy.copy(place) == place
    assert copy.deepcopy(place).seen is not place.seen


def test_a_default_before_a_field_without_one_is_refused() -> None:
    class Wrong:
        """Its second field needs a value that its first one does not need."""

        line: int = 1
        file: str

    with pytest.raises(TypeError, match="file"):
        frozen(Wrong)


def test_parameters_have_the_names_of_the_fields() -> None:
    assert list(signature(Place).parameters) == ["file", "line", "notes", "seen"]


def test_a_slotted_class_may_change_and_has_no_hash() -> None:
    tally, same = Tally("a"), Tally("a")
    assert tally == same
    tally.count += 1
    tally.seen.append(4)
    assert tally == Tally("a", 1, [4]) != same
    assert repr(tally).endswith("Tally(name='a', count=1, seen=[4])")
    with pytest.raises(TypeError):
        hash(tally)
    with pytest.raises(AttributeError):
        tally.column = 3  # type: ignore[attr-defined]


def test_methods_that_the_class_brings_are_kept() -> None:
    @frozen
    class RuleMatch:
        """Shown by its name."""

        name: str

        def __repr__(self) -> str:
            return self.name

    assert repr(RuleMatch("kv-cache")) == "kv-cache"
