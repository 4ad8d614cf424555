"""The docstring of each room names the rooms that its files import, and no others."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import house

from source_code import ONE_WORKER, SOURCE, trees

pytestmark = ONE_WORKER
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
NOTHING = "the standard library and nothing of rowfall"


def imported(room: str) -> set[str]:
    """Return the rooms that the files of a room import, also those for type checking."""
    found = set()
    for path, tree in trees().items():
        for node in ast.walk(tree) if path.startswith(f"{room}/") else ():
            if isinstance(node, ast.ImportFrom) and node.module == "rowfall":
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rowfall."):
                found.add(str(node.module).split(".")[1])
    return (found & {*ROOMS, "api"}) - {room}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_it_says(room: str) -> None:
    text = ast.get_docstring(trees()[f"{room}/__init__.py"])
    said = re.search(r"Imports ([^.]+)\.", (text or "").replace("\n", " "))
    assert said is not None, f"{room}/__init__.py does not say what it imports"
    names = set() if said[1] == NOTHING else set(re.split(r", +", said[1]))
    assert names == imported(room)


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not house.circles(house.imports(trees()))


def test_circles_are_found() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}
    assert house.circles(arrows) == {frozenset({"b", "c"})}


def test_the_drawing_has_all_rooms_from_top_to_bottom() -> None:
    layers = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = layers["tool"]["importlinter"]["contracts"]
    rooms = next(one["layers"] for one in contracts if one["id"] == "rooms")
    page = (SOURCE.parents[1] / "docs/concepts/architecture.md").read_text(encoding="utf-8")
    drawn = page.partition("```text\n")[2].partition("```")[0].splitlines()
    names = [re.match(r"\w+(?: *\| \w+)*", line) for line in drawn]
    assert [re.sub(" +", " ", found[0]) for found in names if found] == rooms


UNIT = Path(__file__).parents[1] / "unit"
# Tests of benchmarks are of no room.
TESTS = sorted(p.relative_to(UNIT) for p in UNIT.rglob("test_*.py") if p.parent.name != "bench")


def test_unit_tests_lie_where_their_module_lies() -> None:
    """A file is named after a module of its folder, or after a subject that no module is named."""
    modules: dict[str, set[str]] = {}
    for path in SOURCE.glob("*/**/*.py"):
        name = path.parent.name if path.stem == "__init__" else path.stem.strip("_")
        folder = path.parent.parent if path.stem == "__init__" else path.parent
        modules.setdefault(name, set()).add(str(folder.relative_to(SOURCE)))
    wrong = []
    for test in TESTS:
        folders = modules.get(test.stem.removeprefix("test_"), set())
        if not (SOURCE / test.parent).is_dir() or (folders and str(test.parent) not in folders):
            wrong.append(f"{test}: the module is in {', '.join(sorted(folders)) or 'no folder'}")
    assert not wrong


# What differs by the kind of target is a method of the destination, and these rooms call it.
_ASKS = re.compile(
    r"session\.(database|shards)\b|\bcaps\.|\b(target|to)\.(server|folder|address)\b"
    r"|isinstance\(\w*(database|target|transaction|table)\b"
)
_ALLOWED = {
    "api.py": 2,  # there is a folder to query; a name or a list of them
    "deliver/build.py": 1, "deliver/decode.py": 1,  # where the engine of this machine keeps parts
    "measure/scale.py": 1,  # whose cores
    "plan/exports.py": 1,
    "plan/planner.py": 2,  # the sentence of the promise, which is no question
    "plan/survey.py": 1,  # the disk of the engine of this machine
    "publish/recover.py": 2,  # numbers of shards for the journal
    "run/many.py": 1,  # the folder whose engine all loads use
    "run/folder_source.py": 1, "run/load.py": 1,  # source and target are the same folder
    "run/session.py": 3,  # whether an address names a table
}  # fmt: skip


def test_nobody_outside_the_destinations_asks_for_the_kind_of_target() -> None:
    found: dict[str, int] = {}
    for room in ("api.py", "run", "plan", "deliver", "publish", "report", "measure"):
        paths = [SOURCE / room] if room.endswith(".py") else sorted((SOURCE / room).rglob("*.py"))
        for path in paths:
            count = len(_ASKS.findall(path.read_text(encoding="utf-8")))
            found[str(path.relative_to(SOURCE))] = count
    assert {path: n for path, n in found.items() if n > _ALLOWED.get(path, 0)} == {}
    assert {path: n for path, n in _ALLOWED.items() if found[path] != n} == {}, "the figures fall"
