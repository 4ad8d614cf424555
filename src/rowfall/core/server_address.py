"""The address of a server, as targets name it and engines connect to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rowfall.core.dataclass import dataclass
from rowfall.core.masked import Secret


@dataclass(frozen=True, slots=True)
class ServerAt:
    """Address and user of a server.

    Attributes:
        options: settings for every statement.
        cluster: name of the cluster whose shards are the target, "" for this server alone.
        sharing: servers of the cluster that load at the same time on its machine.
        kind: of the engine that opens it, as the registries of :mod:`rowfall.engines` name it.
    """

    host: str
    port: int
    tls: bool
    user: str
    password: Secret | None
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    sharing: int = 1
    kind: str = "clickhouse"
