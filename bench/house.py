"""Count how the code is built: ``python bench/house.py``, a table for bench/NOTES.md.

The last two rows follow one embedded load of csv.gz as somebody who reads it does. The load runs
under a profiler, which keeps the first call of each function; not those that a module makes while
it is imported (decorators, the table of options), nor those that make objects of dataclasses:
nobody reads these to follow a load. Whoever reads a function goes on into each that it calls, if
that one calls at least two more of rowfall: names of others say enough. A stay is the time in one
file until the next one is opened; a climb opens a file of a higher room.
``--source`` counts another tree: its rooms are those of the pyproject.toml beside it. ``--list``
prints the way instead: each function that is read in another file than its caller, "^" where one of
the two rooms is left for a higher one, on the way there or back.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
# As in tests/docs/test_rooms.py and test_sizes.py, which keep these figures from growing.
_ASKS = re.compile(
    r"session\.(database|shards)\b|\bcaps\.|\b(target|to)\.(server|folder|address)\b"
    r"|isinstance\(\w*(database|target|transaction|table)\b"
)
_ASKING = ("api.py", "run", "plan", "deliver", "publish", "report", "measure")
_MOST_PARAMETERS, _MOST_FIELDS = 6, 10
_LEAST_CALLS = 3  # the function itself and two that it calls
_SEEN = "HOUSE_SEEN"


def trees(source: Path) -> dict[str, ast.Module]:
    """Return the code of a package by its paths."""
    paths = sorted(source.rglob("*.py"))
    return {str(p.relative_to(source)): ast.parse(p.read_text(encoding="utf-8")) for p in paths}


def lines_that_ask(source: Path) -> tuple[int, int]:
    """Return lines that ask for the kind of target, and the files that they are in."""
    found: dict[Path, int] = {}
    for room in _ASKING:
        for path in [source / room] if room.endswith(".py") else (source / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found[path] = sum(bool(_ASKS.search(line)) for line in text.splitlines())
    return sum(found.values()), sum(map(bool, found.values()))


def imports(code: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return the files that each file imports, also inside of functions and for type checking."""
    names = {path: path.removesuffix(".py").replace("/", ".") for path in code}
    known = {f"rowfall.{name}".removesuffix(".__init__") for name in names.values()}
    arrows = {}
    for path, tree in code.items():
        wanted = {
            (f"{node.module}.{alias.name}", node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rowfall.")
            for alias in node.names
        }
        name = f"rowfall.{names[path]}".removesuffix(".__init__")
        arrows[name] = {one if one in known else str(module) for one, module in wanted}
    return arrows


def circles(arrows: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of files that import each other."""
    reached: dict[str, set[str]] = {}
    for name in arrows:
        todo, seen = list(arrows[name]), set[str]()
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += arrows.get(at, ())
        reached[name] = seen
    found = {
        frozenset(other for other in reached[name] if name in reached.get(other, ()))
        for name in arrows if name in reached[name]
    }  # fmt: skip
    return {one for one in found if len(one) > 1}


def sizes(code: dict[str, ast.Module]) -> tuple[int, int, int]:
    """Return values of many fields, functions of many parameters, and class names used twice.

    Without the values that have one field for each option.
    """
    values = functions = 0
    places: dict[str, set[str]] = {}
    for path, tree in code.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields = sum(isinstance(part, ast.AnnAssign) for part in node.body)
                of_options = node.name == "Options" or node.name.endswith("Keywords")
                values += fields > _MOST_FIELDS and not of_options
            elif isinstance(node, ast.FunctionDef):
                given = node.args
                names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
                own = names[:1] in (["self"], ["cls"])
                functions += len(names) - own > _MOST_PARAMETERS
        for top in tree.body:
            if isinstance(top, ast.ClassDef) and not top.name.startswith("_"):
                places.setdefault(top.name, set()).add(path)
    return values, functions, sum(len(found) > 1 for found in places.values())


def count_lines(folder: Path) -> int:
    """Return the lines of Python in a folder."""
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in folder.rglob("*.py"))


# --- the way of a load ----------------------------------------------------------------------------

_Call = tuple[str, int, str]
"""File of a function, the number of the one that has called it first (-1: none), and its name."""


def follow() -> None:
    """Run the command in ``sys.argv`` and write the first call of each function to a file."""
    import threading
    from types import CodeType, FrameType

    import rowfall
    from rowfall.cli import main

    base = str(Path(rowfall.__file__).parent) + "/"
    first: dict[CodeType, CodeType | None] = {}
    guard = threading.Lock()

    def is_ours(code: CodeType) -> bool:
        body = "__qualname__" in code.co_names and not code.co_argcount  # of a class
        own = code.co_filename.startswith(base) and not code.co_name.startswith("<") and not body
        return own and code.co_filename != f"{base}core/dataclass.py"

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in first or not is_ours(code):
            return
        caller, at = None, frame.f_back
        while at is not None:
            if at.f_code.co_name == "<module>" and at.f_code.co_filename.startswith(base):
                return  # of an import
            if caller is None and is_ours(at.f_code):
                caller = at.f_code
            at = at.f_back
        with guard:
            first.setdefault(code, caller)

    def end(code: int) -> None:  # as the command ends by, without what is to be done here
        raise SystemExit(code)

    setattr(os, "_exit", end)  # noqa: B010 - mypy: it never returns
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        main()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    numbers = {code: number for number, code in enumerate(first)}
    calls = [
        (code.co_filename.removeprefix(base), numbers[of] if of else -1, code.co_qualname)
        for code, of in first.items()
    ]
    Path(os.environ[_SEEN]).write_text(json.dumps(calls))


def load_calls(source: Path) -> list[_Call]:
    """Load three small files of csv.gz into a new folder; return the first calls of functions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(3):
            with gzip.open(folder / f"{number}.csv.gz", "wt") as file:
                file.write("id,name,at\n")
                file.writelines(f"{n},n{n},2024-01-01 00:00:00\n" for n in range(1000))
        seen, paths = folder / "calls.json", os.pathsep.join((str(source.parent), str(ROOT)))
        environment = {**os.environ, _SEEN: str(seen), "PYTHONPATH": paths, "HOME": name}
        program = "import bench.house; bench.house.follow()"
        command = (
            sys.executable,
            "-c",
            program,
            "load",
            "*.csv.gz",
            "--to",
            "./out",
            "--table",
            "t",
        )
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
        return [
            (str(file), int(of), str(called)) for file, of, called in json.loads(seen.read_text())
        ]


def opened(calls: list[_Call]) -> dict[int, list[int]]:
    """Return the numbers of the functions that a reader goes on into, by that of their caller."""
    weights = [1] * len(calls)
    for number in reversed(range(len(calls))):  # whoever calls was called before
        if calls[number][1] >= 0:
            weights[calls[number][1]] += weights[number]
    called: dict[int, list[int]] = {}
    for number, (_, caller, _) in enumerate(calls):
        if weights[number] >= _LEAST_CALLS:
            called.setdefault(caller, []).append(number)
    return called


def files_in_order(calls: list[_Call]) -> Iterator[str]:
    """Give the files that a reader opens, one after the other."""
    called = opened(calls)

    def read(number: int) -> Iterator[str]:
        yield calls[number][0]
        for one in called.get(number, ()):
            yield from read(one)
            yield calls[number][0]

    for number in called[-1]:
        yield from read(number)


def describe(calls: list[_Call], rooms: Mapping[str, int]) -> Iterator[str]:
    """Give a line for each function that is read in another file than its caller."""
    called = opened(calls)

    def read(number: int, depth: int) -> Iterator[str]:
        file, caller, name = calls[number]
        of = calls[caller] if caller >= 0 else ("", -1, "")
        if of[0] != file:
            depth += 1
            sign = " " if _height(rooms, of[0]) == _height(rooms, file) else "^"
            yield f"{depth:3} {sign} {'  ' * depth}{file}:{name}  <- {of[2]}"
        for one in called.get(number, ()):
            yield from read(one, depth)

    for number in called[-1]:
        yield from read(number, -1)


def _height(rooms: Mapping[str, int], file: str) -> int:
    return rooms.get(file.partition("/")[0].removesuffix(".py"), 0)


def heights(source: Path) -> dict[str, int]:
    """Return how high each room lies, by pyproject.toml."""
    settings = tomllib.loads((source.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(
        c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if "layers" in c
    )
    return {room: -at for at, layer in enumerate(layers) for room in re.split(r" *\| *", layer)}


def walk(source: Path) -> tuple[int, int, int]:
    """Return stays, files and climbs of a reader of one load."""
    rooms = heights(source)
    stays = [file for file, _ in itertools.groupby(files_in_order(load_calls(source)))]
    ways = itertools.pairwise(_height(rooms, file) for file in stays)
    climbs = sum(after > before for before, after in ways)
    return len(stays), len(set(stays)), climbs


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--source", type=Path, default=ROOT / "src/rowfall")
    arguments.add_argument("--list", action="store_true", help="print the way of a load")
    asked = arguments.parse_args()
    source: Path = asked.source.absolute()
    if asked.list:
        print(*describe(load_calls(source), heights(source)), sep="\n")
        return
    code = trees(source)
    asking, asking_files = lines_that_ask(source)
    values, functions, twice = sizes(code)
    stays, files, climbs = walk(source)
    duckdb = source / "systems/duckdb"
    for what, found in (
        ("lines that ask for the kind of target", f"{asking} in {asking_files} files"),
        ("circles of files", len(circles(imports(code)))),
        (f"values of more than {_MOST_FIELDS} fields", values),
        (f"functions of more than {_MOST_PARAMETERS} parameters", functions),
        ("class names with two meanings", twice),
        ("lines of Python", f"{count_lines(source):,}"),
        ("lines of the DuckDB system", count_lines(duckdb) if duckdb.is_dir() else "-"),
        ("stays of a reader of one load", f"{stays} in {files} files"),
        ("climbs of that reader", climbs),
    ):
        print(f"| {what} | {found} |")


if __name__ == "__main__":
    main()
