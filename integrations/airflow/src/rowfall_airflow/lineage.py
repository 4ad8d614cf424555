"""What a load has read and written, as OpenLineage names data sets.

The names are those of rowfall's own lineage and of other tools (openlineage.io/docs/spec/naming):
without users and options, and with the port also where it is the default one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from posixpath import dirname
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_PORTS = {"clickhouse": 8123, "clickhouses": 8443, "postgresql": 5432, "mysql": 3306, "kafka": 9092}
_SCHEMES = {"clickhouses": "clickhouse", "postgresql": "postgres"}
_NOWHERE = ("generate", "null", "arrow")
_WILD = "*?[{"


def lineage_of(sources: Sequence[str], report: Mapping[str, Any]) -> OperatorLineage[Any, Any]:
    """Return inputs and outputs of a load with what was counted.

    Args:
        sources: as rowfall was given them. ``report``: its ``rowfall_report``.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import (
        input_statistics_input_dataset,
        output_statistics_output_dataset,
    )

    read = [name for source in sources if (name := input_name(source)) is not None]
    inputs = [InputDataset(namespace, name) for namespace, name in dict.fromkeys(read)]
    if len(inputs) == 1:  # of several nobody has counted each by itself
        inputs[0].inputFacets = {
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                size=report.get("bytes_source"), fileCount=report.get("splits_loaded")
            )
        }
    written = output_name(str(report.get("target", "")), str(report.get("table", "")))
    outputs = []
    if written is not None:
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=report.get("rows"), size=report.get("bytes_written")
        )
        outputs = [OutputDataset(*written, outputFacets={"outputStatistics": counted})]
    return OperatorLineage(inputs=inputs, outputs=outputs)


def input_name(source: str) -> tuple[str, str] | None:
    """Return (namespace, name) of a source, of a pattern its folder; None for no place."""
    scheme = _scheme(source)
    if scheme in _NOWHERE or source == "-":
        return None
    if scheme in _PORTS:
        return _in_server(source, scheme, "")
    wild = min((at for mark in _WILD if (at := source.find(mark)) >= 0), default=-1)
    place = dirname(source[:wild] + "x") if wild >= 0 else source
    if scheme in ("", "file"):
        path = unquote(urlsplit(place).path) if scheme else place
        return "file", os.path.abspath(path)
    parts = urlsplit(place)
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}", unquote(parts.path).strip("/") or "/"


def output_name(target: str, table: str) -> tuple[str, str] | None:
    """Return (namespace, name) of what was loaded into; None for no place."""
    scheme = _scheme(target)
    if target.startswith("null:"):
        return None
    if scheme in _PORTS:
        return _in_server(target, scheme, table)
    if table and scheme in ("", "file", "duckdb"):
        path = unquote(target.partition("://")[2].partition("?")[0]) if scheme else target
        return "file", f"{os.path.abspath(path)}/{table}"
    return input_name(target)


def _in_server(address: str, scheme: str, table: str) -> tuple[str, str]:
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].partition(",")[0]
    bare = host.rpartition("]")[2] if "[" in host else host
    where = host if ":" in bare else f"{host or 'localhost'}:{_PORTS[scheme]}"
    names = [unquote(name) for name in parts.path.split("/") if name]
    if scheme == "postgresql":
        names = [*names[:1], table] if table else names
        if len(names) == 2 and "." not in names[1]:
            names.insert(1, "public")
    elif table:
        names = [table] if "." in table else [*names[:1], table]
    kind = _SCHEMES.get(scheme, scheme)
    return f"{kind}://{where}", ".".join(names)


def _scheme(address: str) -> str:
    return address.partition("://")[0].rpartition("+")[2].lower() if "://" in address else ""
