"""Every type of every source through every target: exactly the value, or a refusal that names it.

Both ends are asked by clients of their own, not by rowfall: :mod:`contract.values` has the sources,
the targets and the values. A value that is refused has to be named, with table and column, before
anything is loaded; it is taken out, and the rest is loaded.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from contract import value_files, values
from contract.value_files import Frame
from contract.values import KEPT_AS, KINDS, TARGETS, Case, value_of
from e2e.tools import Done, Shell

pytestmark = pytest.mark.xdist_group("values")
CASES = (*values.CASES, *value_files.CASES)
SOURCES = {**values.SOURCES, **value_files.SOURCES}
PAIRS = [pytest.param(case, into, id=f"{case}-{into}") for case in CASES for into in TARGETS]


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


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("case", "into"), PAIRS)
def test_values_arrive_as_they_are(
    request: pytest.FixtureRequest, shell: Shell, case: Case, into: str
) -> None:
    source, target = SOURCES[case.source](request, shell), TARGETS[into](request, shell)
    numbers = list(range(1, len(case.values) + 1))
    wrong: list[str] = []
    options = list(case.options)
    while numbers:
        said = source.make(case, numbers)
        assert set(said) == set(numbers), "the source itself does not take a value"
        given = (*source.arguments(), *target.arguments(), *options)
        done = source.run(shell, *given) if isinstance(source, Frame) else shell.run("load", *given)
        if done.code == 2 and "--type" not in options:
            # Of a type that the target lacks the hint says the one that takes its values.
            assert "column v: " in done.err
            options += shlex.split(done.err.partition("Load it as another type: ")[2])
            continue
        assert done.code != 70, done.err
        if done.code == 0:
            wrong += _differences(case, said, target.read(case.kind), into)
            break
        refused = [
            n for n in numbers if _names(done, case, source.name, said[n], case.values[n - 1])
        ]
        if not refused:
            wrong.append(f"refused, and no value is named: {done.talk}")
            break
        numbers = [n for n in numbers if n not in refused]
    assert not wrong, f"{case} into {into}\n" + "\n".join(wrong)


_SAID = {
    "a": ("UInt8", "200"), "b": ("Int128", "-5"), "c": ("UInt64", "18446744073709551615"),
    "d": ("DateTime", "2024-01-01 00:00:00"), "e": ("DateTime64(3, 'Asia/Tokyo')",
    "2024-01-01 00:00:00.123"), "f": ("FixedString(3)", "abc"), "g": ("Nullable(Bool)", ""),
    "h": ("Decimal(20, 4)", "1.2345"), "i": ("Enum8('x' = 1, 'y' = 2)", "y"),
    "j": ("IPv4", "1.2.3.4"),
    "k": ("Array(UInt8)", '"[1,2]"'), "l": ("Array(Nullable(String))", "\"['q',NULL]\""),
    "m": ("Date", "2024-01-01"), "o": ("Map(String, UInt8)", "\"{'a':1}\""),
}  # fmt: skip


@pytest.mark.parametrize("into", ["postgresql", "mariadb", "iceberg", "duckdb"])
def test_the_same_command_is_run_again(
    request: pytest.FixtureRequest, shell: Shell, into: str
) -> None:
    """The types that were asked for are those that the table has got; a killed load goes on."""
    said = {name: value for name, value in _SAID.items()
            if into != "iceberg" or value[0] != "Int128"}  # fmt: skip
    row = ",".join(value for _, value in said.values())
    for number, name in enumerate(("1", "2"), 1):
        shell.write(f"in/{name}.csv", f"n,{','.join(said)}\n{number},{row}\n")
    to = ("--to", f"iceberg+{shell.folder}/lake")
    if into != "iceberg":
        to = TARGETS[into](request, shell).arguments()
    types = [word for name, (type_, _) in said.items() for word in ("--type", f"{name} {type_}")]
    shell.ok("load", "in/1.csv", *to, *types)
    for rows in (1, 0):
        done = shell.ok("load", "in/*.csv", *to, *types, "--json")
        assert done.document["rows"] == rows
    # Another type that the table could have is still another one.
    other = [word.replace("a UInt8", "a Int64") for word in types]
    shell.write("in/3.csv", f"n,{','.join(said)}\n3,{row}\n")
    assert "its types cannot be chosen: a is" in shell.ends(2, "load", "in/*.csv", *to, *other).talk


def _differences(
    case: Case, said: dict[int, str | None], found: dict[int, str | None], into: str
) -> list[str]:
    lost = [f"lost: {case.values[n - 1]}" for n in said if n not in found]
    said = {n: KEPT_AS.get((into, text or ""), text) for n, text in said.items()}
    return lost + [
        f"{case.values[n - 1]}: {said[n]!r} became {found[n]!r}" for n in said if n in found
        and value_of(case.kind, said[n]) != value_of(case.kind, found[n])
    ]  # fmt: skip


def _names(done: Done, case: Case, table: str, said: str | None, literal: str) -> bool:
    """Tell whether an error names table, column and a value, as the source or its client has it."""
    talk = done.talk.lower()
    words = re.split(r"[\s\"',:`.]+", talk)
    if Path(table).stem.lower() not in talk or "v" not in words:
        return False
    texts = {literal.strip("'"), (said or NULL_TEXT).removesuffix("+00")}
    texts |= {_SHOWN_AS.get(text.lower(), text) for text in texts}
    if case.kind == "hex" and said is not None:
        texts.add(repr(bytes.fromhex(said).rstrip(b"\0").decode("latin-1")))
    if case.kind == "float32" and said is not None:
        texts.add(f"{float(said):.8g}".replace("e+", "e"))
    return any(text and text.lower() in talk for text in texts)


# As the engine writes them.
_SHOWN_AS = {"infinity": "inf", "-infinity": "-inf"}
NULL_TEXT = "NULL"
