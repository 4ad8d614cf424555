"""How many bags of values there are, and names that mean two things: the figures only fall."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from source_code import ONE_WORKER, SOURCE, trees

# More makes a newcomer look up the order of them at every call.
MOST_PARAMETERS, MOST_FIELDS = 6, 10
# Functions with more parameters: the library's own four and the command of one of them, and nine
# others. A new one needs a value whose name says what belongs together, not a higher figure.
LONG_FUNCTIONS = 14
# Values with more fields, of which the document of rowfall-decode, the reports that --json prints
# and the header of a manifest mirror what somebody else reads.
LARGE_CLASSES = 14
# One field an option; core/keywords.py is made of them by docs/make_reference.py.
OPTIONS = {
    "Options", "SourceKeywords", "SelectKeywords", "ReadKeywords", "PlanKeywords", "LoadKeywords",
    "AdoptKeywords",
}  # fmt: skip

pytestmark = ONE_WORKER


@functools.cache
def nodes() -> list[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Functions and classes with the files that they are in."""
    return [
        (path, node)
        for path, module in trees().items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]


def parameters(function: ast.FunctionDef) -> int:
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_functions_with_many_parameters_do_not_become_more() -> None:
    found = [
        f"{path}: {node.name} has {parameters(node)}"
        for path, node in nodes()
        if isinstance(node, ast.FunctionDef) and parameters(node) > MOST_PARAMETERS
    ]
    assert len(found) <= LONG_FUNCTIONS, "\n".join(found)


def test_values_with_many_fields_do_not_become_more() -> None:
    found = []
    for path, node in nodes():
        if isinstance(node, ast.ClassDef) and node.name not in OPTIONS:
            fields = sum(isinstance(part, ast.AnnAssign) for part in node.body)
            if fields > MOST_FIELDS:
                found.append(f"{path}: {node.name} has {fields}")
    assert len(found) <= LARGE_CLASSES, "\n".join(found)


def test_a_whole_system_is_small() -> None:
    """DuckDB, both directions: what the next one of its kind needs, too, is general."""
    files = (SOURCE / "systems/duckdb").glob("*.py")
    assert sum(len(p.read_text(encoding="utf-8").splitlines()) for p in files) <= 600


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, set[str]] = {}
    for path, module in trees().items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, set()).add(path)
    twice = {name for name, found in places.items() if len(found) > 1}
    assert not twice, {name: places[name] for name in twice}


TESTS = Path(__file__).parents[1]
# Programs of their own, which ask for a file or a state, and the two helpers.
SLEEPS = {
    "docs/test_sizes.py", "faults/cutter.py", "faults/kills.py", "faults/paused.py",
    "faults/test_scene.py", "lab/browser.py", "lab/process.py",
}  # fmt: skip


def test_the_world_of_a_test_is_made_of_classes() -> None:
    """A bag of names is typed Any: it stays as it was when what it stands for has changed."""
    bag = "Simple" + "Namespace"
    found = {p.name for p in TESTS.rglob("*.py") if bag in p.read_text(encoding="utf-8")}
    assert found <= {"test_runner.py"}, "it replaces two names of the standard library"


def test_tests_wait_for_events() -> None:
    """Or say why there is none: ``lab.process.wait_until`` and ``let_pass``."""
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if "time.sleep(" in path.read_text(encoding="utf-8")
    }
    assert found == SLEEPS
