"""Every type of every source through every target: exactly the value, or a refusal that names it.

Both ends are asked by clients of their own, not by rowfall: :mod:`contract.values` has the sources,
the targets and the values. A value that is refused has to be named, with table and column, before
anything is loaded; it is taken out, and the rest is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.values import CASES, KINDS, OPEN, SOURCES, TARGETS, Case, value_of
from e2e.tools import Done, Shell

pytestmark = pytest.mark.xdist_group("values")


@pytest.fixture
def shell(rowfall: Any) -> Shell:
    return Shell(rowfall)


def test_each_case_is_complete() -> None:
    """A case of no source, or of no kind, would be one that is never compared."""
    assert len({str(case) for case in CASES}) == len(CASES)
    for case in CASES:
        assert case.source in SOURCES
        assert case.kind.removeprefix("list ") in KINDS
        assert case.values
    assert {case.source for case in CASES} == set(SOURCES)


@pytest.mark.parametrize("into", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.sampled(30)
def test_values_arrive_as_they_are(
    request: pytest.FixtureRequest, shell: Shell, case: Case, into: str
) -> None:
    if {(str(case), into), (str(case), "")} & OPEN:
        request.applymarker(pytest.mark.xfail(strict=True, reason="in OPEN"))
    source, target = SOURCES[case.source](request, shell), TARGETS[into](request, shell)
    numbers = list(range(1, len(case.values) + 1))
    wrong: list[str] = []
    while numbers:
        said = source.make(case, numbers)
        assert set(said) == set(numbers), "the source itself does not take a value"
        done = shell.run("load", *source.arguments(), *target.arguments(), *case.options)
        assert done.code != 70, done.err
        if done.code == 0:
            wrong += _differences(case, said, target.read(case.kind))
            break
        refused = [n for n in numbers if _names(done, source.name, said[n], case.values[n - 1])]
        if not refused:
            wrong.append(f"refused, and no value is named: {done.talk}")
            break
        numbers = [n for n in numbers if n not in refused]
    assert not wrong, f"{case} into {into}\n" + "\n".join(wrong)


def _differences(
    case: Case, said: dict[int, str | None], found: dict[int, str | None]
) -> list[str]:
    lost = [f"lost: {case.values[n - 1]}" for n in said if n not in found]
    return lost + [
        f"{case.values[n - 1]}: {said[n]!r} became {found[n]!r}" for n in said if n in found
        and value_of(case.kind, said[n]) != value_of(case.kind, found[n])
    ]  # fmt: skip


def _names(done: Done, table: str, said: str | None, literal: str) -> bool:
    """Tell whether an error names table, column and a value, as the source or its client has it."""
    talk = done.talk
    if Path(table).name not in talk or "v" not in talk.replace(",", " ").replace(":", " ").split():
        return False
    texts = {literal.strip("'"), said or NULL_TEXT}
    return any(text and text in talk for text in texts)


NULL_TEXT = "NULL"
