"""Makes assets of the loads of a project file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from dagster import (
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    Backoff,
    DagsterInvalidDefinitionError,
    MultiPartitionsDefinition,
    PartitionsDefinition,
    RetryPolicy,
    multi_asset,
)

from rowfall.core.uri import scheme_of
from rowfall.project import Project, find_project

LOAD, PROJECT, PARAM = "rowfall/load", "rowfall/project", "rowfall/param"
"""Keys of an asset's metadata: the load's name, its project file, what its partition fills."""

# What a load has not been able to do for a minute (a server that starts again, a store that is
# overloaded; it has tried several times itself) may work some minutes later.
RETRIES = RetryPolicy(max_retries=3, delay=60, backoff=Backoff.EXPONENTIAL)


def rowfall_assets(
    config: str | os.PathLike[str] = "rowfall.toml",
    *,
    loads: Sequence[str] | None = None,
    partitions_def: PartitionsDefinition[Any] | None = None,
    param: str = "partition",
    key_prefix: Sequence[str] = (),
    **options: Any,
) -> Callable[[Callable[..., Iterable[Any]]], AssetsDefinition]:
    """Make an asset of each load of a project file; the function that is decorated runs them.

    An asset is called as the table that its load fills (as the load, where that names none;
    as both, where several loads fill the table), and depends on what its load ``needs``.

    Args:
        config: the project file.
        loads: names of loads; None for all that have no ``params``, and with ``partitions_def``
            for all that have those of the partitions.
        partitions_def: a load is run for each partition, one after the other where a run has
            several. Its key is the value of ``param``; of partitions of several dimensions each
            fills the parameter of its own name.
        param: the parameter of the loads that the partition's key fills.
        key_prefix: stands before the name of each asset.
        options: what :func:`dagster.multi_asset` takes: ``name``, ``group_name``, ``retry_policy``
            (default: :data:`RETRIES`), ``backfill_policy``, ``op_tags``, ...

    Raises:
        DagsterInvalidDefinitionError: there is no such load, or its ``params`` are others than the
            partitions give.
        rowfall.core.errors.UsageError: the file cannot be read, or holds a mistake.
    """
    path = Path(config).absolute()
    project = find_project(str(path))
    given = _params(partitions_def, param)
    names = _chosen(project, path, loads, given)
    keys = {name: AssetKey([*key_prefix, *parts]) for name, parts in _keys(project).items()}
    specs = [
        AssetSpec(
            keys[name],
            deps=[keys[needed] for needed in project.needs(name)],
            description=f"Load {name} of {path.name}",
            kinds=_kinds(project, name),
            metadata={LOAD: name, PROJECT: str(path), PARAM: param},
            skippable=True,  # as all of a multi_asset that can run a part of its assets
        )
        for name in names
    ]
    options.setdefault("retry_policy", RETRIES)
    return multi_asset(specs=specs, can_subset=True, partitions_def=partitions_def, **options)


def _params(partitions: PartitionsDefinition[Any] | None, param: str) -> set[str]:
    """Return the names of the parameters that partitions fill."""
    if isinstance(partitions, MultiPartitionsDefinition):
        return {dimension.name for dimension in partitions.partitions_defs}
    return set() if partitions is None else {param}


def _chosen(
    project: Project, path: Path, loads: Sequence[str] | None, given: set[str]
) -> Sequence[str]:
    """Return the loads that become assets.

    Raises:
        DagsterInvalidDefinitionError: see :func:`rowfall_assets`.
    """
    params = {name: _params_of(project, name) for name in project.loads_here()}
    names = [name for name, own in params.items() if own == given] if loads is None else loads
    for name in names:
        if name not in params:
            raise DagsterInvalidDefinitionError(
                f"{path} has no load {name}; there are: {', '.join(params) or 'none'}"
            )
        if params[name] != given:
            own = ", ".join(sorted(params[name])) or "none"
            filled = ", ".join(sorted(given)) or "none, as there is no partitions_def"
            raise DagsterInvalidDefinitionError(
                f"{path}, [loads.{name}]: its params are {own}, and partitions fill {filled}"
            )
    if not names:
        what = f"with params = {sorted(given)}" if given else "without params"
        raise DagsterInvalidDefinitionError(f"{path} has no load {what}")
    return names


def _params_of(project: Project, name: str) -> set[str]:
    found = project.find("loads", name)
    return set() if found is None else set(found[1].values.get("params", ()))


def _keys(project: Project) -> dict[str, list[str]]:
    """Return the parts of the asset key of each load: its table, so that others find it by that."""
    tables = {}
    for name in project.names("loads"):
        values = project.assembled("loads", name).values
        tables[name] = str(values["table"][0]) if "table" in values else name
    several = {table for table, loads in Counter(tables.values()).items() if loads > 1}
    return {
        name: [*table.split("."), name] if table in several else table.split(".")
        for name, table in tables.items()
    }


def _kinds(project: Project, name: str) -> set[str]:
    """Return what Dagster shows icons for: rowfall, and the system of the target."""
    made = project.assembled("loads", name)
    to = made.values["to"][0] if "to" in made.values else ""
    scheme = scheme_of(made.connection.uri if made.connection else to)
    return {"rowfall", "clickhouse" if scheme in ("", "file", "clickhouses") else scheme}
