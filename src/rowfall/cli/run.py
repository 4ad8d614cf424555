"""``rowfall run``."""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rowfall.cli.app import (
    GroupedCommand,
    common_options,
    complete,
    option,
    password_option,
)
from rowfall.cli.load import load
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit, UsageError
from rowfall.core.options import LOAD, flags_of

if TYPE_CHECKING:
    from rowfall.core.masked import Secret
    from rowfall.core.run_results import LoadReport, NamedRun
    from rowfall.project import NamedLoad, Project
    from rowfall.project.project import LayeredLoad

    Layered = dict[str, Any]


class NamedCommand(GroupedCommand):
    """A command whose loads are in ``rowfall.toml`` with all their layers."""

    layered = False


@click.command(name="run", cls=NamedCommand)
@common_options
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete("named_loads"))
@option("--all", "every", is_flag=True, group="Run", help="All loads of the project, in the order "
        "of what they need.")  # fmt: skip
@option("--dry-run", is_flag=True, group="Run", help="Show the plan of each load, and do nothing.")
@option(
    "--at-once", type=click.IntRange(1), metavar="N", group="Run",
    help="Loads that run at the same time at most. Default: as many as there are cores, and as "
    "--memory has room for.",
)  # fmt: skip
@option(
    "--param", "params", multiple=True, metavar="NAME=VALUE", group="Run",
    help="Value of {NAME} in the texts of loads whose params name it. May be given several times.",
)  # fmt: skip
@option(
    "--to", metavar="TARGET", group="Target", shell_complete=complete("targets"),
    help="Another target than the file says.",
)  # fmt: skip
@password_option
@option("--child", is_flag=True, hidden=True, help="Run for another rowfall, as stdin says.")
@click.pass_context
def run(
    ctx: click.Context, /, names: tuple[str, ...], every: bool, dry_run: bool,
    password: Secret | None, **values: Any,
) -> int:  # fmt: skip
    """Run loads of rowfall.toml by their names.

    \b
      rowfall run orders
      rowfall run --all --memory 8GiB

    Each does what 'rowfall load' does with the same sources and options; running it again loads
    what is new. Several run at the same time within --memory, each behind what it needs. Options
    given here win over the environment and over the file.
    """
    from rowfall.cli.settings import project_of
    from rowfall.project import Origin, params
    from rowfall.project.file import LOADS, PARAMS

    output = ctx.ensure_object(CommandOutput)
    project = project_of(ctx)
    wanted = _names(project, names, every=every)
    if values["child"]:
        return _child(output, project, wanted[0], ctx)
    flags = {name: (value, origin) for name, value, origin in _given(ctx)}
    if filled := params.parse(values["params"]):
        flags[PARAMS] = filled, Origin("flag", "--param")
    project.check_params(wanted, filled)
    if dry_run:
        return _plans(output, project, wanted, flags, password)
    for name in wanted:  # all mistakes of the file, before anything begins
        _say_overridden(output, project.assembled(LOADS, name, flags))
    if len(wanted) == 1 and not every:
        return _one(output, project.load(wanted[0], flags), password)
    return _many(output, project, wanted, flags, values["at_once"], password)


# The very options of a load: others would take 2 ms to make.
_NAMES = {item.name for item, _ in flags_of(LOAD)}
run.params += [param for param in load.params if param.name in _NAMES]


def _names(project: Project, names: tuple[str, ...], *, every: bool) -> list[str]:
    """Return the loads that are asked for, each behind what it needs of them.

    Raises:
        UsageError: none, or one that is not there.
    """
    if every and names:
        raise UsageError("--all runs all loads, and some are named", hint="Leave --all out.")
    if not every and not names:
        known = ", ".join(project.loads_here())
        raise UsageError(
            "no load is named",
            hint=f"Name one, or give --all. There are: {known}." if known
            else "Write [loads.NAME] and source = ... into rowfall.toml first.",
        )  # fmt: skip
    for name in names:
        known_names = (*project.names("loads"), *project.names("pipelines"))
        if "://" in name or (os.path.exists(name) and name not in known_names):
            import shlex

            raise UsageError(
                f"{name} is no name of a load in rowfall.toml",
                hint=f"To load it: rowfall load {shlex.quote(name)}",
            )
    asked = project.loads_here() if every else list(dict.fromkeys(names))
    if not asked:
        where = " and ".join(str(file.path) for file in project.files) or "no rowfall.toml"
        raise UsageError(
            f"--all runs all loads, and {where} has none"
            if project.files
            else "there is no rowfall.toml here or in a folder above",
            hint="Write [loads.NAME] and source = ... into rowfall.toml first.",
        )
    return [name for name in project.order(asked) if every or name in asked]


def _given(ctx: click.Context) -> list[tuple[str, Any, Any]]:
    """Return name, value and origin of the options that the command line gives."""
    from dataclasses import fields
    from pathlib import Path

    from rowfall.core.options import Options
    from rowfall.project import Origin

    names = {item.name for item in fields(Options)} | {"to"}
    found = []
    for param in ctx.command.get_params(ctx):
        name = param.name or ""
        if name in names and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = ctx.params[name]
            if getattr(param, "metavar", "") == "FILE":
                value = str(Path(value).absolute())  # the load runs in another folder
            found.append((name, value, Origin("flag", param.opts[0])))
    return found


def _rows_loader(output: CommandOutput, password: Secret | None) -> Any:
    """Return what loads the rows of a named load and shows it."""
    from rowfall import api
    from rowfall.systems.clickhouse.prestart import prestart

    def load_rows(load: NamedLoad) -> LoadReport:
        if load.options.many_tables:
            with output.listener(busy="looking at the tables of the source") as listener:
                return api.load_tables(
                    load.sources, to=load.to, table=load.table, options=load.options,
                    on_event=listener, password=password or load.password,
                )  # fmt: skip
        prestart(load.sources, load.to)
        with output.listener() as listener:
            return api.load(
                load.sources, to=load.to, table=load.table, options=load.options,
                on_event=listener, password=password or load.password, began=output.began,
            )  # fmt: skip

    return load_rows


def _run_here(output: CommandOutput, load: NamedLoad, password: Secret | None) -> NamedRun:
    """Run one load in this process, in the folder of its file."""
    from rowfall.core.signals import GO_ON, terminable
    from rowfall.project.one_run import run_load

    with chdir(load.folder), terminable(GO_ON):
        return run_load(load, _rows_loader(output, password), output.talk)


def _one(output: CommandOutput, load: NamedLoad, password: Secret | None) -> int:
    from rowfall.core.tables import TablesReport

    done = _run_here(output, load, password)
    if output.json:
        _document(output, done)
        return done.exit
    if isinstance(done.report, TablesReport):
        output.tables_ended(done.report)
    elif done.report is not None:
        output.ended(done.report)
    for hook in done.hooks:
        if not hook.error and output.verbose:
            output.talk(f"{hook.when} hook done in {hook.seconds:,.1f} s: {hook.what}")
    if done.error:
        label = "" if done.exit == Exit.INTERRUPTED else "error: "
        output.error(done.error, done.hint or None, label=label, code=done.exit)
    return done.exit


def _say_overridden(output: CommandOutput, load: LayeredLoad) -> None:
    """Say which variables win over keys of the load itself: nothing else shows them."""
    for key, (_, origin) in load.values.items():
        if origin.layer == "environment" and key in load.section.values:
            output.talk(f"{origin.text} is set and wins over {key} of {load.section.title}")


def _document(output: CommandOutput, done: NamedRun) -> None:
    from rowfall.core.run_results import RunReport
    from rowfall.report.run import run_document

    output.document(run_document(RunReport((done,), 1, 0, done.seconds)))


def _child(output: CommandOutput, project: Project, name: str, ctx: click.Context) -> int:
    """Run one load for another rowfall, which sends what it was given through stdin."""
    import json

    from rowfall.core.masked import Secret
    from rowfall.project import Origin
    from rowfall.project.many_runs import die_with

    asked = json.loads(sys.stdin.read())
    die_with(asked["parent"])
    given = asked["flags"]
    secret = given.pop("password", None)
    flags = {
        key: (tuple(value) if isinstance(value, list) else value, Origin("flag"))
        for key, value in given.items()
    }
    load = project.load(name, flags)
    from rowfall.core.units import parse_size

    # What the file gives one load is its own; more than its share of --memory it does not get.
    own = load.options.memory
    if asked["memory"] and (own is None or parse_size(own) > asked["memory"]):
        flags["memory"] = str(asked["memory"]), Origin("flag", "--memory")
        load = project.load(name, flags)
    done = _run_here(output, load, None if secret is None else Secret(secret))
    _document(output, done)
    return done.exit


def _many(
    output: CommandOutput, project: Project, names: list[str], flags: Layered,
    at_once: int | None, password: Secret | None,
) -> int:  # fmt: skip
    from rowfall.core.signals import GO_ON, terminable
    from rowfall.core.units import parse_size
    from rowfall.project.many_runs import ManyRuns, run_many
    from rowfall.report.run import run_document, run_text

    plain = {key: value for key, (value, _) in flags.items()}
    memory = plain.pop("memory", None)
    if password is not None:
        plain["password"] = password.reveal()
    with terminable(GO_ON):
        done = run_many(ManyRuns(
            project, names, plain, output.config, parse_size(memory) if memory else 0,
            at_once or 0, lambda name, line: output.talk(f"{name}: {line}"),
        ))  # fmt: skip
    if output.json:
        output.document(run_document(done))
    elif not output.quiet:
        color = output.talk_color
        output.emit(run_text(done, color=color, width=output.columns) + "\n", styled=color)
    else:
        from rowfall.report.run import failure_lines

        for one in done.loads:
            if one.exit:
                output.emit("\n".join(failure_lines(one)) + "\n")
    return done.exit


def _plans(
    output: CommandOutput, project: Project, names: list[str], flags: Layered,
    password: Secret | None,
) -> int:  # fmt: skip
    """Print the plan of each load; nothing is written, and no hook runs."""
    from rowfall import api
    from rowfall.project import hooks
    from rowfall.report.plan import plan_document, plan_text
    from rowfall.report.tables import tables_plan_document, tables_plan_text

    documents = []
    for name in names:
        load = project.load(name, flags)
        asked: dict[str, Any] = {"to": load.to, "table": load.table, "options": load.options,
                 "password": password or load.password}  # fmt: skip
        color, width = output.data_color, output.columns
        with chdir(load.folder), output.listener():
            hooks.check(load)
            if load.options.many_tables:
                many = api.plan_tables(load.sources, **asked)
                document = tables_plan_document(many)
                text = tables_plan_text(many, color=color, every=output.verbose, width=width)
            else:
                made = api.plan(load.sources, **asked)
                document = plan_document(made, every_split=False)
                text = plan_text(made, every_split=False, verbose=output.verbose, color=color,
                                 width=width)  # fmt: skip
        if output.json:
            documents.append({"name": name, "plan": document})
            continue
        output.data((f"load {name}\n\n" if len(names) > 1 else "") + text + "\n")
    if output.json:
        output.document({"rowfall_run_plan": 1, "loads": documents})
    return Exit.DONE
