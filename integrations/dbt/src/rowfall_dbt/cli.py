"""The command ``rowfall-dbt``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rowfall_dbt.projectfile import text_of
from rowfall_dbt.targets import CannotTranslateError, Relation, target_of

_USAGE = 2
_PASSWORD = "ROWFALL_PASSWORD"  # noqa: S105 - the name of a variable
# Those of rowfall that ask or fill a target: it is the profile's.
_PASSED_ON = (
    "load", "plan", "query", "status", "tables", "report", "explain", "verify", "resume", "adopt",
    "forget", "undo", "clean", "doctor", "tune",
)  # fmt: skip


class Variables(click.ParamType[Any]):
    """The YAML of ``--vars``."""

    name = "yaml"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the mapping that a text holds."""
        import yaml

        try:
            read = yaml.safe_load(value) if isinstance(value, str) else value
        except yaml.YAMLError as error:
            self.fail(f"it is no YAML: {error}", param, ctx)
        if not isinstance(read, dict):
            self.fail("it is a mapping: '{day: 2026-01-01}'", param, ctx)
        return read


def _choosing(command: Any) -> Any:
    """Give a command the options by which dbt finds a project and a profile."""
    for option in (
        click.option("--vars", "variables", type=Variables(), metavar="YAML", help="As of dbt."),
        click.option("--target", "-t", metavar="NAME", help="Target of the profile."),
        click.option("--profile", metavar="NAME", help="Profile, in place of the project's."),
        click.option("--profiles-dir", metavar="FOLDER", help="Where profiles.yml is. Default: "
                     "DBT_PROFILES_DIR, the project, ~/.dbt."),
        click.option("--project-dir", metavar="FOLDER", help="Where dbt_project.yml is. Default: "
                     "DBT_PROJECT_DIR, here."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@_choosing
@click.version_option(package_name="rowfall-dbt")
@click.pass_context
def main(ctx: click.Context, /, **chosen: Any) -> None:
    """Load the sources of a dbt project with rowfall, each row exactly once.

    \b
      rowfall-dbt run --select source:shop
      rowfall-dbt load 'orders/*.csv' --table raw.orders

    The target is that of the project's profile. 'run' loads the tables of sources.yml that have a
    block meta.rowfall; all other commands are those of rowfall.
    """
    ctx.obj = chosen


@main.command(context_settings={"ignore_unknown_options": True})
@_choosing
@click.option("--select", "-s", multiple=True, metavar="SELECTION", help="As of dbt: source:shop, "
              "source:shop.orders, tag:nightly, ...")  # fmt: skip
@click.option("--exclude", multiple=True, metavar="SELECTION", help="As of dbt.")
@click.option("--selector", metavar="NAME", help="As of dbt.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout: rowfall_run.")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF rowfall run]")
@click.pass_context
def run(
    ctx: click.Context, /, select: tuple[str, ...], exclude: tuple[str, ...], selector: str | None,
    as_json: bool, rest: tuple[str, ...], **chosen: Any,
) -> None:  # fmt: skip
    """Load the tables of sources that have a block meta.rowfall.

    Running it again loads what is new. Further options are those of 'rowfall run': --dry-run,
    --at-once N, --memory SIZE, --verify, ...
    """
    selection = [word for one in select for word in ("--select", *one.split())]
    selection += [word for one in exclude for word in ("--exclude", *one.split())]
    selection += ["--selector", selector] if selector else []
    sys.exit(_run({**ctx.obj, **_given(chosen)}, selection, rest, as_json=as_json))


def _run(
    chosen: Mapping[str, Any], selection: Sequence[str], rest: Sequence[str], *, as_json: bool
) -> int:
    from rowfall_dbt.project import ProjectError, credentials_of, sources_of

    choices = _choices(chosen)
    try:
        tables = sources_of(choices, selection)
        if not tables:
            raise ProjectError(
                "no table of a source is to be loaded: none that is selected has meta.rowfall"
            )
        credentials = credentials_of(choices)
        targets = [target_of(credentials, table.relation, choices.folder) for table in tables]
        text = text_of(list(zip(tables, targets, strict=True)))
    except (ProjectError, CannotTranslateError) as error:
        return _fail(str(error))
    # In the folder of the project: relative paths of sources are seen from there.
    handle, path = tempfile.mkstemp(".toml", ".rowfall-dbt-", choices.folder)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        before = ["--json"] if as_json else []
        return _rowfall([*before, "--config", path, "run", "--all", *rest], targets[0].password)
    finally:
        os.unlink(path)


def _passing(name: str) -> None:
    @main.command(
        name, help=f"As 'rowfall {name}'; the target is that of the profile.",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        add_help_option=False,
    )  # fmt: skip
    @click.argument("rest", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def command(ctx: click.Context, /, rest: tuple[str, ...]) -> None:
        from rowfall_dbt.project import ProjectError, credentials_of

        choices = _choices(ctx.obj)
        try:
            target = target_of(credentials_of(choices), Relation(), choices.folder)
        except (ProjectError, CannotTranslateError) as error:
            sys.exit(_fail(str(error)))
        sys.exit(_rowfall([name, *rest], target.password, {"ROWFALL_TO": target.url}))


for _name in _PASSED_ON:
    _passing(_name)


def _rowfall(
    arguments: Sequence[str], password: str, variables: Mapping[str, str] | None = None
) -> int:
    """Run rowfall of this environment; return its exit code."""
    environment = {**os.environ, **(variables or {})}
    if password:
        environment[_PASSWORD] = password
    program = Path(sys.executable).with_name("rowfall")
    process = subprocess.Popen([program, *arguments], env=environment)
    # A scheduler tells this process alone; the load would go on without it.
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # of the same terminal: rowfall ends, and says what is left
            continue


def _choices(chosen: Mapping[str, Any]) -> Any:
    from rowfall_dbt.project import Choices

    return Choices(**_given(chosen))


def _given(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen.items() if value}


def _fail(message: str) -> int:
    click.echo(f"rowfall-dbt: error: {message}", err=True)
    return _USAGE
