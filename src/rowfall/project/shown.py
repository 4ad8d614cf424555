"""Settings as ``rowfall config`` shows them: nothing is resolved, so nothing secret is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rowfall.core import uri
from rowfall.core.config_results import ShownProject, ShownValue
from rowfall.core.nearest import nearest
from rowfall.core.options import ANSWERS, LOAD, Options, flags_of
from rowfall.project import environment
from rowfall.project.file import (
    COMMAND,
    CONNECTION,
    CONNECTIONS,
    HOOKS,
    LOADS,
    NEEDS,
    PARAMS,
    PASSWORD,
    PIPELINES,
    PROFILES,
    SOURCE,
    SQL,
    TABLE,
    TIMEOUT,
    TO,
    URI,
    option_keys,
)
from rowfall.project.project import Layered, Project, password_of
from rowfall.project.values import DEFAULT, ENVIRONMENT, Hook, Origin

_FIRST = (SOURCE, CONNECTION, TO, URI, PASSWORD, TABLE, NEEDS, PARAMS, *HOOKS)


def shown_project(project: Project, name: str | None = None) -> ShownProject:
    """Return what is to be shown of a project.

    Args:
        name: of a load, a pipeline or a connection; None for the settings of every command.
    """
    kind, values = "", _of_commands(project)
    if name is not None:
        kind = next(k for k in (LOADS, PIPELINES, CONNECTIONS) if name in project.names(k))
        values = _of_connection(project, name) if kind == CONNECTIONS else _of_load(
            project, kind, name
        )  # fmt: skip
    names = [
        (each, one, file.where(section.kind, one))
        for each in (CONNECTIONS, LOADS, PIPELINES)
        for one in project.names(each)
        if (found := project.find(each, one)) is not None
        for file, section in (found,)
    ]
    known = [*map(environment.variable, (item.name for item in fields(Options)))]
    unknown = [(one, nearest(one, known) or "") for one in environment.unknown()]
    legacy = tuple(str(file.path) for file in project.files if file.named(PROFILES))
    return ShownProject(
        tuple(str(file.path) for file in project.files), name or "", kind,
        _shown(values, _keys(kind)), tuple(names), tuple(unknown), legacy,
    )  # fmt: skip


def _keys(kind: str) -> list[str]:
    """Return the options that are shown where they are defaults."""
    if kind == CONNECTIONS:
        return []
    if kind:
        return list(option_keys(kind))
    return [item.name for item, _ in flags_of(LOAD) if item.name not in ANSWERS]


def _of_commands(project: Project) -> dict[str, tuple[Any, Origin]]:
    values: dict[str, tuple[Any, Origin]] = dict(environment.option_values())
    if to := os.environ.get(environment.TO):
        values[TO] = uri.mask(to), Origin(ENVIRONMENT, environment.TO)
    elif (default := project.default_target()) is not None:
        values[TO] = default
    connection = values[TO][0] if TO in values else None
    for key, found in project.defaults(connection).items():
        values.setdefault(key, found)
    if connection is not None:
        _add_password(project, connection, values)
    return values


def _of_load(project: Project, kind: str, name: str) -> dict[str, tuple[Any, Origin]]:
    made = project.assembled(kind, name)
    values = dict(made.values)
    if made.connection is not None:
        text, origin = values[TO]
        values[TO] = f"{text}: {made.connection.uri}", origin
        _add_password(project, made.connection.name, values)
    return values


def _of_connection(project: Project, name: str) -> dict[str, tuple[Any, Origin]]:
    found = project.find(CONNECTIONS, name)
    described = project.described_connection(name)
    assert found is not None and described is not None  # noqa: S101, PT018 - the name was checked
    file, section = found
    key = TO if section.kind == PROFILES else URI
    values = dict(project.defaults(name, names=described.values))
    values[URI] = described.uri, Origin("project", file.place(section, key))
    _add_password(project, name, values)
    return values


def _add_password(
    project: Project, name: str, values: dict[str, tuple[Any, Origin]]
) -> None:  # fmt: skip
    """Add the reference of a connection's password, which gives nothing away."""
    found = project.find(CONNECTIONS, name)
    if found is None:
        return
    file, section = found
    if (reference := password_of(section)) is not None:
        key = next(key for key in section.values if key.startswith(PASSWORD))
        values[PASSWORD] = reference, Origin("project", file.place(section, key))


def _shown(values: Layered, options: list[str]) -> tuple[ShownValue, ...]:
    default = Options()
    rest = [key for key in options if key in values]
    others = [key for key in values if key not in (*_FIRST, *rest)]
    order = [key for key in _FIRST if key in values] + rest + others
    found = [
        ShownValue(key, _plain(values[key][0]), values[key][1].layer, values[key][1].text)
        for key in order
    ]
    found += [
        ShownValue(key, _plain(getattr(default, key)), DEFAULT, "")
        for key in options
        if key not in values
    ]
    return tuple(found)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Hook):
        said: Mapping[str, Any] = (
            {SQL: list(value.sql)} if value.sql else {COMMAND: list(value.command)}
        )
        return {**said, TIMEOUT: value.timeout}
    return uri.mask(value) if isinstance(value, str) and "://" in value else value
