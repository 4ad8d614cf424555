"""Values that a shell completes: paths, words, tables, loads, names. Nothing is started for it.

Imported when a shell asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rowfall.core.errors import RowfallError

if TYPE_CHECKING:
    from rowfall.core.results import Report


def paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a path."""
    return [CompletionItem(incomplete, type="file")]


def words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the words of a metavar such as ``auto|on|off``."""
    known = str(param.metavar or "").split("|") if hasattr(param, "metavar") else []
    return [CompletionItem(word) for word in known if word.startswith(incomplete)]


def commands(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of commands."""
    group = ctx.find_root().command
    return _begin(group.list_commands(ctx) if isinstance(group, click.Group) else (), incomplete)


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of formats."""
    from rowfall.core.formats import FORMATS

    return _begin([f.name for f in FORMATS], incomplete)


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return connections and beginnings of URIs; folders are the shell's to complete."""
    from rowfall.project import connection_names

    found = _begin([*connection_names(), "clickhouse://", "clickhouses://", "null:"], incomplete)
    return found or paths(ctx, param, incomplete)


def named_loads(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of the loads of the project."""
    from rowfall.cli.settings import project_of

    try:
        return _begin(project_of(ctx).loads_here(), incomplete)
    except (RowfallError, OSError):  # a shell has no place for it
        return []


def named(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of loads, pipelines and connections."""
    from rowfall.cli.settings import project_of

    try:
        project = project_of(ctx)
    except (RowfallError, OSError):
        return []
    kinds = ("loads", "pipelines", "connections")
    return _begin([name for kind in kinds for name in project.names(kind)], incomplete)


def named_pipelines(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of pipelines."""
    from rowfall.cli.settings import project_of

    try:
        return _begin(project_of(ctx).names("pipelines"), incomplete)
    except (RowfallError, OSError):
        return []


def tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the tables that were loaded before, those of ``default`` as they are typed."""
    names = (r.table.removeprefix("default.") for r in _reports(ctx) if r.table)
    return _begin(dict.fromkeys(names), incomplete)


def loads(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of loads, the newest first, with what they loaded."""
    found = [
        CompletionItem(r.load_id[:8], help=f"{r.outcome}, {r.source} into {r.table or r.target}")
        for r in _reports(ctx)
        if r.load_id.startswith(incomplete)
    ]
    return [*_begin(["last"] if found else [], incomplete), *found]


def _reports(ctx: click.Context) -> list[Report]:
    from rowfall import api
    from rowfall.cli.settings import target_of

    try:
        return api.loads(to=target_of(ctx, ctx.params.get("to")))
    except (RowfallError, OSError):  # a shell has no place for it
        return []


def _begin(known: Iterable[object], incomplete: str) -> list[CompletionItem]:
    lower = incomplete.lower()
    return [CompletionItem(str(k)) for k in known if str(k).lower().startswith(lower)]
