"""Put what the environment and ``rowfall.toml`` say in place of what a command line leaves out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from click.core import ParameterSource

from rowfall.cli.output import CommandOutput
from rowfall.core.config_files import find_files
from rowfall.core.errors import UsageError
from rowfall.core.own_files import is_data_folder_at

if TYPE_CHECKING:
    import click

    from rowfall.project import Project

TO = "ROWFALL_TO"
_USUAL = "./rowfall-data"


def project_of(ctx: click.Context, *, needed: bool = True) -> Project:
    """Return the project of a command, of ``--config`` where that was given.

    Args:
        needed: the command names something of it; else files of other users are left out, which is
            said.

    Raises:
        UsageError: a file holds a mistake.
    """
    from rowfall.project import find_project

    output = ctx.ensure_object(CommandOutput)
    project = find_project(output.config, needed=needed)
    for error in project.foreign:
        output.talk(f"rowfall: {error.message}")
    return project


def target_of(ctx: click.Context, to: str | None) -> str | None:
    """Return the target that a command line means, for a shell that completes it."""
    to = os.environ.get(TO) or None if to is None else to
    if not find_files(ctx.ensure_object(CommandOutput).config):
        return to
    project = project_of(ctx)
    if to is None and (default := project.default_target()) is not None:
        to = default[0]
    found = None if to is None else project.described_connection(to)
    return to if found is None else found.uri


def source_of(ctx: click.Context, source: str | None) -> str:
    """Return the source that a command line means; without one that is where loads go.

    The password of a connection is known to whoever opens the address.

    Raises:
        UsageError: a file of the project holds a mistake, or nothing was loaded here.
    """
    source = os.environ.get(TO) or None if source is None else source
    connection = None
    if find_files(ctx.ensure_object(CommandOutput).config):
        project = project_of(ctx, needed=source is not None and not {"/", ":"} & set(source))
        if source is None and (default := project.default_target()) is not None:
            source = default[0]
        connection = None if source is None else project.connection(source)
    if source is None and not is_data_folder_at(_USUAL):
        raise UsageError(
            f"there is no data folder {_USUAL}, where loads go",
            hint="Load something first, or name where the table is: --from postgresql://host/db, "
            "--from FOLDER",
        )
    if connection is None:
        return source or _USUAL
    if connection.password is not None:
        from rowfall.core import passwords

        passwords.remember(connection.uri, connection.password)
    return connection.uri


def apply_settings(ctx: click.Context) -> None:
    """Complete the parameters of a command by the layers below the command line.

    These are the environment, the connection that ``--to`` names, ``[defaults]`` of the project's
    file, and those of the user's.

    Raises:
        UsageError: a file or a variable says something that makes no sense.
    """
    params = ctx.params
    to = params["to"] = os.environ.get(TO) or None if params["to"] is None else params["to"]
    by = "--to" if ctx.get_parameter_source("to") is not ParameterSource.DEFAULT else TO
    from_environment = any(name.startswith("ROWFALL_") for name in os.environ)
    files = find_files(ctx.ensure_object(CommandOutput).config)
    if not files and not from_environment:
        return
    from rowfall.project.environment import option_values

    open_to = {
        param.name for param in ctx.command.get_params(ctx)
        if param.name and ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT
    }  # fmt: skip
    found: dict[str, Any] = {k: value for k, (value, _) in option_values(open_to).items()}
    if files:
        named = to is not None and not {"/", ":"} & set(to)
        project = project_of(ctx, needed=named)
        connection: str | None = to
        if to is None and (default := project.default_target()) is not None:
            connection = params["to"] = default[0]
        _connect(ctx, project, by, named=named)
        for key, (value, _) in project.defaults(connection, names=open_to).items():
            found.setdefault(key, value)
    params.update(found)


def _connect(ctx: click.Context, project: Project, by: str, *, named: bool) -> None:
    """Put address and password of a connection in place of its name."""
    params = ctx.params
    if params["to"] is None:
        return
    connection = project.connection(params["to"])
    if connection is None:
        if named:
            from rowfall.project.file import WORD
            from rowfall.project.project import check_target_word

            if WORD.fullmatch(params["to"]):
                check_target_word(project, params["to"], by)
        return
    params["to"] = connection.uri
    if "password" in params and params["password"] is None:
        params["password"] = connection.password
