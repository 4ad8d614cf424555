"""Regular expressions that are compiled late are those that they say."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import rowfall
from rowfall.core.patterns import regex


def inside(value: Any) -> Iterator[Any]:
    """Yield what a value of a module holds, those in its tuples included."""
    if isinstance(value, tuple):
        for each in value:
            yield from inside(each)
    yield value


def test_every_pattern_of_the_package_compiles() -> None:
    found = 0
    for module in pkgutil.walk_packages(rowfall.__path__, "rowfall."):
        if module.name != "rowfall.__main__":
            for value in inside(tuple(vars(importlib.import_module(module.name)).values())):
                if type(value).__name__ == "regex":
                    assert value.groups == re.compile(*value._given).groups
                    found += 1
    assert found > 150


def test_it_does_what_a_compiled_one_does() -> None:
    late, now = regex(r"(?P<a>a+)b", re.IGNORECASE), re.compile(r"(?P<a>a+)b", re.IGNORECASE)
    assert repr(late) == "regex('(?P<a>a+)b')"
    for text in ("aab", "xAB ab", ""):
        for name in ("match", "search", "fullmatch"):
            one, other = (getattr(each, name)(text) for each in (late, now))
            assert (one and one.groupdict()) == (other and other.groupdict())
        assert late.findall(text) == now.findall(text)
        assert late.split(text) == now.split(text)
        assert late.subn("-", text) == now.subn("-", text)
        assert late.sub("-", text) == now.sub("-", text)
        assert [m.span() for m in late.finditer(text)] == [m.span() for m in now.finditer(text)]
    assert (late.pattern, late.flags, late.groups, late.groupindex) == (
        now.pattern, now.flags, now.groups, now.groupindex,
    )  # fmt: skip
