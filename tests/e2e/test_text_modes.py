"""Made-up text in all three ways of reading it: the same rows, which are those that were written.

The engine's reader, rowfall-decode through pipes, and rowfall-decode that writes parts get folders
of files that differ in whatever files differ in: line ends, a last line without one, rows a field
longer or shorter, odd names, orders of columns, blanks, quotes, NULLs and types that the sample
does not show. What was written is known, so a mistake that all three make is found, too.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import pytest

from e2e.tools import Shell
from rowfall.core import sql
from rowfall.core.header_line import unique_names

MODES = {
    "engine": ("--decoder", "never"),
    "pipes": ("--decoder", "always", "--build", "off"),
    "parts": ("--decoder", "always", "--build", "on"),
}
# More than are sampled: what the others hold nobody has seen before the load.
FILES = 14
TYPES = ("Int64", "Float64", "Date", "Bool", "UUID", "String", "DateTime")
ODD = ("", "name ", " name", "2019", "a?b", "$x", "user name", "ä", "x,y", 'q"q')

Value = str | None


@dataclass(frozen=True)
class Shape:
    """What the files of one load have in common.

    Attributes:
        trailing: rows end with a delimiter; ``tail``: the header, too.
        odd: names that nobody can use as they are.
    """

    delimiter: str
    header: bool
    trailing: bool
    tail: bool
    odd: bool
    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """How the load is told what it cannot guess."""
        named = {",": "comma", "\t": "tab"}.get(self.delimiter, self.delimiter)
        header = "yes" if self.header else "no"
        return ("--delimiter", named, "--header", header)


@dataclass(frozen=True)
class File:
    """One file, its rows, and what is wrong with it."""

    text: str
    rows: list[list[Value]]
    bad: str


def make_shape(rng: random.Random) -> Shape:
    header, trailing = rng.random() < 0.7, rng.random() < 0.25
    types = ("Int64", "Int64", *(f"Nullable({t})" for t in rng.choices(TYPES, k=4)))
    names = ["file", "row", "a", "b", "c", "d"]
    odd = header and rng.random() < 0.5
    if odd:
        for at, name in zip((2, 3), rng.sample(ODD, 2), strict=True):
            names[at] = name
    delimiter = rng.choice(",,;|" if trailing else ",,,;|\t")
    # Without names the last column may just be empty, but behind pipes.
    trailing = trailing and (header or delimiter == "|")
    tail = trailing and rng.random() < 0.5
    return Shape(delimiter, header, trailing, tail, odd, tuple(names), types)


def value(rng: random.Random, type_: str) -> str:
    n = rng.randrange(1, 28)
    return {
        "Int64": str(rng.choice([n, -n, 10**15 + n])),
        "Float64": f"{n}.5",
        "Date": f"2024-02-{n:02d}",
        "Bool": rng.choice(["true", "false"]),
        "UUID": f"{rng.getrandbits(127):032x}",
        "DateTime": f"2024-02-03 04:05:{n:02d}",
    }.get(type_) or rng.choice(
        [f"word {n}", f" {n} left", f"right {n}  ", "ä,b;c|d", 'say "x"', ""]
    )


def make_file(rng: random.Random, shape: Shape, number: int, *, bad: str) -> File:
    """Return one file.

    Args:
        bad: what is wrong with one of its rows: ``longer``, ``empty`` for a field that is one too
            many and empty, ``shorter``, ``type``; "" for nothing.
    """
    order = list(range(len(shape.names)))
    if shape.header and not shape.odd and rng.random() < 0.3:
        rng.shuffle(order)
    rows: list[list[Value]] = []
    for n in range(rng.randint(3, 9)):
        row: list[Value] = [str(number), str(n)]
        for type_ in shape.types[2:]:
            bare = type_[9:-1]
            text = value(rng, bare)
            if bare == "UUID":
                text = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
            # Of the files that are sampled only one shows a NULL.
            empty = rng.random() < (0.05 if number < 8 else 0.4)
            row.append(None if empty else text)
        # Beside a last field that the end of the file leaves empty nobody can tell it from NULL.
        row[order[-1]] = row[order[-1]] or None
        rows.append(row)
    if order[-1] > 1 and rng.random() < 0.5:
        rows[-1][order[-1]] = None
    end = rng.choice(["\n", "\r\n"])
    mark = shape.delimiter
    tail = mark if shape.trailing else ""

    def field(text: Value) -> str:
        if text is None:
            return ""
        if not text or mark in text or '"' in text or rng.random() < 0.1:
            return '"' + text.replace('"', '""') + '"'
        return text

    lines = [mark.join(field(row[at]) for at in order) + tail for row in rows]
    at = rng.randrange(1, len(lines))
    if bad == "longer":
        lines[at] += mark + "x" + tail
    elif bad == "empty":
        lines[at] += mark
    elif bad == "shorter":
        lines[at] = mark.join(field(rows[at][o]) for o in order[:-1]) + tail
    elif bad == "type":
        rows[at][1] = "x"
        lines[at] = mark.join([field(rows[at][o]) for o in order]) + tail
    if shape.header:
        names = [shape.names[at] for at in order]
        quoted = ('"' + n.replace('"', '""') + '"' if mark in n or '"' in n else n for n in names)
        lines.insert(0, mark.join(quoted) + tail * shape.tail)
    text = end.join(lines) + rng.choice([end, ""])
    return File(text, rows, bad)


def texts(shell: Shell, query: str) -> list[list[Value]]:
    """Return the rows of a query whose columns are text."""
    done = shell.ok("query", query, "--format", "JSONCompactEachRow")
    return [json.loads(line) for line in done.out.splitlines()]


BAD = ("longer", "empty", "shorter", "type")


def check(shell: Shell, seed: int) -> None:
    """Load one made-up folder in all modes.

    With a schema it is known which files have to be refused; without one a file may be refused, but
    what is loaded of it is right, and the same in all modes.
    """
    rng = random.Random(seed)
    shape = make_shape(rng)
    wrong = dict(zip(rng.sample(range(1, FILES), 3), rng.sample(BAD, 3), strict=True))
    files = [make_file(rng, shape, n, bad=wrong.get(n, "")) for n in range(FILES)]
    for n, file in enumerate(files):
        shell.write(f"in/f{n:02}.csv", file.text)
    names = unique_names(shape.names) if shape.header else [f"c{n}" for n in range(1, 7)]
    given: tuple[str, ...] = ()
    if seed % 3:
        columns = (f"{sql.name(n)} {t}" for n, t in zip(names, shape.types, strict=True))
        given = ("--schema", ", ".join(columns))
    seen: dict[str, list[list[Value]]] = {}
    for mode, options in MODES.items():
        done = shell.run("load", "in/*.csv", "--table", mode, *shape.options, *options, *given)
        if "parts cannot be built" in done.talk:  # names that need files of their own
            options = options[:2]
            done = shell.run("load", "in/*.csv", "--table", mode, *shape.options, *options, *given)
        assert "Traceback" not in done.err
        assert done.code in (0, 1) or not given, done.err
        if done.code not in (0, 1):
            seen[mode] = []
            continue
        cells = ", ".join(f"toString({sql.name(n)})" for n in names)
        order = f"{sql.name(names[0])}, toString({sql.name(names[1])})"
        seen[mode] = texts(shell, f"SELECT {cells} FROM {mode} ORDER BY {order}")
        for n, file in enumerate(files):
            found = [row for row in seen[mode] if row[0] == str(n)]
            if file.bad and (given or file.bad != "type"):
                assert not found, (mode, n)
                assert f"f{n:02}.csv" in done.talk or not given
            elif found or given:
                wanted = sorted(file.rows, key=lambda row: str(row[1]))
                if not given:  # a column of text without NULL
                    found = [[value or "" for value in row] for row in found]
                    wanted = [[value or "" for value in row] for row in wanted]
                assert found == wanted, (mode, n, file.text, done.err)
    engine = seen.pop("engine")
    for mode, rows in seen.items():
        assert rows == engine, mode


def test_files_of_all_kinds(shell: Shell) -> None:
    check(shell, 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(4), *range(5, 40)])
def test_more_files_of_all_kinds(shell: Shell, seed: int) -> None:
    check(shell, seed)
