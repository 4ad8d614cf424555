"""Commands and options that hints name exist, and each hint with a command is run by a test."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import tomllib
from collections.abc import Iterator, Sequence

import click

from e2e.test_hint_commands import CASES
from rowfall.cli.app import COMMANDS, cli
from source_code import ONE_WORKER, SOURCE, trees
from unit.cli.data_hints import NOT_TRIED, OF_THE_COMMAND, PASTED_BY
from unit.cli.hint_runs import NOT_RUN, RUN_BY

pytestmark = ONE_WORKER
# Of Kafka's own programs, pip and the AWS command line.
FOREIGN = {
    "--list", "--upgrade", "--bootstrap-server", "--alter", "--topic", "--entity-type",
    "--entity-name", "--add-config", "--queue-name",
}  # fmt: skip
# What follows the name of the program where no command does.
WORDS = {"cannot", "does", "loads", "may", "needs", "to"}


def flags(command: click.Command, context: click.Context) -> set[str]:
    own = {flag for p in command.get_params(context) for flag in (*p.opts, *p.secondary_opts)}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            own |= flags(found, click.Context(found, parent=context))
    return own


def hints() -> Iterator[tuple[str, str]]:
    """Yield (where, text) of each hint; what is filled in is left out."""
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            for given in node.keywords:
                if given.arg == "hint":
                    texts = [
                        part.value for part in ast.walk(given.value)
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    ]  # fmt: skip
                    yield f"{file}:{node.lineno}", " ".join(texts)


def test_what_hints_name_exists() -> None:
    known = flags(cli, click.Context(cli, **cli.context_settings)) | FOREIGN
    found = list(hints())
    assert len(found) > 300
    for where, text in found:
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text):
            assert flag in known, f"{where}: {flag}"
        for name in re.findall(r"\browfall ([a-z-]+)\b(?= |$|['.;,])", text):
            assert name in COMMANDS or name in WORDS, f"{where}: rowfall {name}"


# Commands that can be typed: those of rowfall with their arguments, options that are filled in,
# programs of others. "Leave out --pull." is none: without it the command is another one. pip is
# none either: no index is asked here, and that the extras exist is a test of its own.
_TYPED = re.compile(
    rf"\browfall ({'|'.join(sorted(COMMANDS))})\b|--[a-z][a-z-]+ \{{\}}|\{{\}} -dc |-t\.$|"
    r"\b(iconv|unzip|tar xf|sqlite3|jq -c|7z x|unrar x|bunzip2|GRANT|kafka-(topics|configs))\b|"
    r"ALTER (TABLE|USER) "
)
# Texts of documents, not of hints: what options mean, and SQL.
_OTHERS = ("core/options.py", "core/keywords.py", "core/engine_formats.py", "docs/")
_SQL = re.compile(r"[A-Z]+ [A-Z]")


@functools.cache
def templates() -> Sequence[tuple[str, str, bool]]:
    """Return (place, text, whether it is a hint with a command) with {} for what is filled in.

    Hints need not stand where an error is raised: each sentence of the code counts.
    """
    return tuple(each for name, tree in trees().items() for each in _templates_of(name, tree))


def _templates_of(name: str, tree: ast.Module) -> Iterator[tuple[str, str, bool]]:
    hint, documents = set[ast.AST](), set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            documents.add(node.value)  # a docstring
        if isinstance(node, ast.JoinedStr):
            documents |= {part for part in ast.walk(node) if part is not node}
        for given in node.keywords if isinstance(node, ast.Call) else ():
            if given.arg == "hint":
                hint |= set(ast.walk(given.value))
            if given.arg in ("help", "text"):
                documents |= set(ast.walk(given.value))
    for node in ast.walk(tree):
        text = _template(node)
        if text is None or node in documents or name.startswith(_OTHERS):
            continue
        said = node in hint or (re.match(r"[A-Z{, ]", text) and not _SQL.match(text))
        command = bool(said and " " in text.strip() and _TYPED.search(text))
        yield f"{name}:{getattr(node, 'lineno', '')}", text, command


def _template(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    return None


_TODO = (
    "a test has to type these commands: add a Case to e2e/test_hint_commands.py, or name the test "
    "that does it in unit/cli/hint_runs.py"
)


def test_each_hint_with_a_command_is_run() -> None:
    everything = templates()
    found = {text: where for where, text, command in everything if command}
    assert len(found) > 80
    listed = [case.hint for case in CASES]
    known = {*listed, *RUN_BY, *NOT_RUN}
    new = [f"{where}: {text!r}" for text, where in found.items() if text not in known]
    assert not new, "\n".join([_TODO, *new])
    old = known - {text for _, text, _ in everything}
    assert not old, "\n".join(["these are no hints any more:", *old])


# Rooms that meet data; of a sentence that names an option, not of an option alone.
_OF_DATA = (
    "schema/", "plan/", "deliver/", "systems/", "sources/", "stores/", "run/attempts",
    "run/remedies", "engines/", "publish/", "decoder/",
)  # fmt: skip
_OPTION = re.compile(r"(?<![\w-])--[a-z]")
_SENTENCE = re.compile(
    r"[A-Z{(, ]|.*(;|--[a-z-]+( \S+)? (loads?|fills|stores|leaves|keeps|takes|makes|gives|reads|"
    r"skip|replace|says|has|names)\b)"
)


def options_in_sentences() -> Iterator[tuple[str, str]]:
    """Yield (place, text) of each hint and note that names an option, errors themselves apart."""
    for name, tree in trees().items():
        if not name.startswith(_OF_DATA):
            continue
        left = set[ast.AST]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr):
                left.add(node.value)
            if isinstance(node, ast.JoinedStr):
                left |= {part for part in ast.walk(node) if part is not node}
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func)[-5:] == "Error":
                left |= set(ast.walk(node.args[0]))
        for node in ast.walk(tree):
            text = _template(node)
            if text is None or node in left or " " not in text.strip():
                continue
            if _OPTION.search(text) and _SENTENCE.match(text):
                yield f"{name}:{getattr(node, 'lineno', '')}", text


def test_options_that_are_named_because_of_data_are_tried() -> None:
    """Each hint says what it is for; one about data has a test that pastes it, or a reason."""
    ours = [PASTED_BY, NOT_TRIED, OF_THE_COMMAND]
    for one, other in itertools.combinations(ours, 2):
        assert not {*one} & {*other}
    listed = {*PASTED_BY, *NOT_TRIED, *OF_THE_COMMAND}
    others = {*(case.hint for case in CASES), *RUN_BY, *NOT_RUN}
    found = {text: where for where, text in options_in_sentences() if text not in others}
    new = [f"{where}: {text!r}" for text, where in found.items() if text not in listed]
    assert not new, "\n".join(["put them into a list of unit/cli/data_hints.py:", *new])
    assert not listed - {*found}, "these are no hints any more"


def test_the_tests_that_run_hints_exist() -> None:
    for text, test in (RUN_BY | PASTED_BY).items():
        file, _, name = test.partition("::")
        source = (SOURCE.parents[1] / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", source, re.M), (text, test)


def test_the_extras_that_hints_install_exist() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    calls = [
        node
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("extras.")
    ]
    # extras.driver(what, EXTRA, module, ...); missing(what, EXTRA); command(EXTRA)
    given = [node.args[:2][-1] for node in calls]
    named = {node.value for node in given if isinstance(node, ast.Constant)}
    known = {*project["project"]["optional-dependencies"]}
    assert {"embedded", "aws", "kafka", "mysql", "postgresql"} <= named <= known
