"""Dataclasses of rowfall behave as those of the standard library, class by class."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pkgutil
from typing import Any, ClassVar

import pytest

import rowfall
from rowfall.core.dataclass import dataclass


def classes() -> list[type]:
    """Return all dataclasses of the package, those that take part in bases included."""
    found = {}
    for module in pkgutil.walk_packages(rowfall.__path__, "rowfall."):
        if module.name != "rowfall.__main__":
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and "__dataclass_given__" in value.__dict__:
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return [found[name] for name in sorted(found)]


def standard(cls: type) -> type:
    """Make a class of the same fields by the standard library."""
    namespace: dict[str, Any] = {"__annotations__": {}}
    for name, (annotation, default) in cls.__dict__["__dataclass_given__"].items():
        namespace["__annotations__"][name] = annotation
        if default is not dataclasses.MISSING:
            namespace[name] = copy.copy(default)
    asked = cls.__dataclass_params__  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=asked.frozen, eq=asked.eq, slots=True)(
        type(cls.__name__, (), namespace)
    )


def test_each_class_takes_and_shows_what_the_standard_one_would() -> None:
    found = classes()
    assert len(found) > 150
    for cls in found:
        theirs = standard(cls)
        ours = dataclasses.fields(cls)
        assert [(f.name, f.type, f.init, f.compare, f.default) for f in ours] == [
            (f.name, f.type, f.init, f.compare, f.default) for f in dataclasses.fields(theirs)
        ]
        assert cls.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]
        if "__init__" in cls.__dict__ and cls.__init__.__qualname__.endswith("<locals>.__init__"):
            with pytest.raises(TypeError):
                cls(no_such_field=1)  # compiles it
        names = list(inspect.signature(cls).parameters)
        assert names == list(inspect.signature(theirs).parameters), cls


@dataclass(frozen=True, slots=True)
class Base:
    a: int
    b: str = "b"
    kind: ClassVar[str] = "base"


@dataclass(frozen=True, slots=True)
class Below(Base):
    """Has a field more, and one that only it compares not."""

    c: list[int] = dataclasses.field(default_factory=list, compare=False)
    d: float = dataclasses.field(default=1.0, repr=False)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")


@dataclass(slots=True)
class Open:
    a: int
    b: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.b = self.a + 1


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    a: int


class Plain(Base):
    """A class below without slots, with an attribute of its own."""

    more: int


def test_objects_are_made_compared_shown_and_hashed() -> None:
    one = Below(1, c=[7])
    assert (one.a, one.b, one.c, one.d, one.kind) == (1, "b", [7], 1.0, "base")
    assert one == Below(1)
    assert hash(one) == hash(Below(1))
    assert one != Below(1, d=2.0)
    assert Below(1).c is not Below(1).c
    assert Below(1) != Base(1)
    assert Base(1) == Base(1, "b")
    assert repr(one) == "Below(a=1, b='b', c=[7])"
    assert Itself(1) != Itself(1)
    assert len({Itself(1), Itself(1)}) == 2
    nan = float("nan")
    assert Itself(1).__class__ is Itself
    assert Open(2) == Open(2)
    assert Open(2).b == 3
    assert Below(1, d=nan) == Below(1, d=nan)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))
    with pytest.raises(ValueError, match="negative"):
        Below(-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Base()  # type: ignore[call-arg]
    match one:
        case Below(a, b):
            assert (a, b) == (1, "b")
        case _:
            raise AssertionError


def test_frozen_objects_stay_as_they_are() -> None:
    one = Below(1)
    for name in ("a", "c", "unknown"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.a  # type: ignore[misc]
    assert not hasattr(one, "__dict__")
    plain = Plain(1)
    plain.more = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.a = 5  # type: ignore[misc]
    changed = Open(1)
    changed.a = 9
    assert (changed.a, changed.b) == (9, 2) != (9, Open(9).b)


def test_the_standard_library_works_on_them() -> None:
    one = Below(1, c=[7])
    assert dataclasses.asdict(one) == {"a": 1, "b": "b", "c": [7], "d": 1.0}
    assert dataclasses.replace(one, a=2).a == 2
    assert dataclasses.is_dataclass(one)
    assert copy.copy(one) == one
    assert copy.deepcopy(one).c == [7]

    @dataclasses.dataclass(frozen=True)
    class Theirs(Base):
        e: int = 0

    assert repr(Theirs(1, "x", 3)).endswith("Theirs(a=1, b='x', e=3)")
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Open", (Base,), {"__annotations__": {}}))


def test_the_first_objects_are_those_that_a_compiled_class_makes() -> None:
    @dataclass(frozen=True, slots=True)
    class Late(Base):
        c: list[int] = dataclasses.field(default_factory=list)
        d: float = 1.0

    def made() -> str:
        return repr([Late(1), Late(1, "x"), Late(b="y", a=2), Late(3, d=4.0, c=[5])])

    first = Late(a=1)
    assert Late.__init__.__qualname__.endswith("<locals>.__init__")
    before = made()
    for _ in range(40):
        assert Late(1) == first
    assert Late.__init__.__qualname__.endswith("Late.__init__")
    assert made() == before
    assert Late(1).c is not Late(1).c


def test_what_the_first_object_is_given_is_refused_in_the_words_of_python() -> None:
    for args, more in (((), {}), ((1, "b", 3), {}), ((1,), {"a": 2}), ((1,), {"e": 2})):

        @dataclass(frozen=True, slots=True)
        class Ours:
            a: int
            b: str = "b"

        theirs = dataclasses.dataclass(frozen=True, slots=True)(
            type("Ours", (), {"__annotations__": {"a": "int", "b": "str"}, "b": "b"})
        )
        said = []
        for cls in (Ours, theirs):
            with pytest.raises(TypeError) as caught:
                cls(*args, **more)
            said.append(str(caught.value).rpartition("__init__")[2])
        assert said[0] == said[1]
