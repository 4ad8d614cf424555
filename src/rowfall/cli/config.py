"""``rowfall config``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rowfall.cli.app import GroupedCommand, common_options, complete, option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import UsageError
from rowfall.core.nearest import did_you_mean

if TYPE_CHECKING:
    from rowfall.project import Project


class _ConfigCommand(GroupedCommand):
    layered = False


@click.command(name="config", cls=_ConfigCommand)
@common_options
@click.argument("name", required=False, metavar="[NAME]", shell_complete=complete("named"))
@option("--schema", is_flag=True, group="Config", help="Print the JSON Schema of rowfall.toml, for "
        "editors.")  # fmt: skip
@option("--migrate", is_flag=True, group="Config", help="Rename what older versions called "
        "otherwise, and say what was done; comments stay.")  # fmt: skip
@click.pass_context
def config(ctx: click.Context, name: str | None, schema: bool, migrate: bool) -> None:
    """Show each setting and where it comes from.

    NAME is a load, a pipeline or a connection of rowfall.toml: all that it is made of. Without it
    the options that hold for every command here, and what the files name. -v adds the defaults.
    Secrets are shown as the references that they are.
    """
    from rowfall.cli.settings import project_of

    output = ctx.ensure_object(CommandOutput)
    if schema:
        import json

        from rowfall.project.schema import json_schema

        output.data(json.dumps(json_schema(), indent=1))
        return
    project = project_of(ctx)
    if migrate:
        _migrate(output, project)
        return
    from rowfall.project.shown import shown_project
    from rowfall.report.config import config_document, config_text

    if name is not None:
        _check_name(project, name)
    found = shown_project(project, name)
    if output.json:
        output.document(config_document(found))
    else:
        output.data(config_text(
            found, defaults=output.verbose, color=output.data_color, width=output.columns
        ))  # fmt: skip


def _check_name(project: Project, name: str) -> None:
    """Check that something has a name.

    Raises:
        UsageError: nothing has.
    """
    kinds = ("loads", "pipelines", "connections")
    known = [each for kind in kinds for each in project.names(kind)]
    if name not in known:
        there = f"There are: {', '.join(known)}." if known else "No file here names anything."
        raise UsageError(
            f"no load, pipeline or connection is named {name}",
            hint=f"{did_you_mean(name, known)}{there}",
        )


def _migrate(output: CommandOutput, project: Project) -> None:
    from rowfall.project.editing import migrate

    documents: list[dict[str, Any]] = []
    for file in project.files:
        done = migrate(file)
        documents.append({"file": str(done.path), "did": list(done.did)})
        if not output.json:
            output.talk(f"{done.path}: " + ("" if done.did else "nothing to do"))
            for line in done.did:
                output.talk(f"  {line}")
    if not project.files and not output.json:
        output.talk("there is no rowfall.toml here or in a folder above: nothing to do")
    if output.json:
        output.document({"rowfall_migrated": 1, "files": documents})
