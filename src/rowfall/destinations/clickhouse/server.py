"""Tables of ClickHouse on a server, or on the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rowfall.contracts.destination import Opened, OpenRequest, Query
from rowfall.core.errors import TargetError
from rowfall.core.options import Options
from rowfall.core.results import Link
from rowfall.core.server_address import ServerAt
from rowfall.destinations.clickhouse.tables import ClickHouseTables
from rowfall.destinations.options_check import CLUSTER, SERVER, TABLES, check_options
from rowfall.engines.base import table_uuid
from rowfall.targets.base import Target

# What follows is imported where it is used: http.client takes 20 ms.
if TYPE_CHECKING:
    from rowfall.contracts.destination import Session
    from rowfall.destinations.clickhouse.clean import OpenedTables
    from rowfall.engines.small_tables import SmallTables
    from rowfall.ledger.journal import Journal


class ServerTables(ClickHouseTables):
    """Tables of servers, which others use, too."""

    shares_loads = True

    def check(self, target: Target, options: Options) -> None:
        cluster = {CLUSTER} if server_of(target).cluster else set[str]()
        check_options(target, options, {TABLES, SERVER} | cluster)

    def open(self, request: OpenRequest) -> Opened:
        """Connect to the server, and to the nodes of its cluster."""
        from rowfall.destinations.clickhouse.opening import open_servers

        return open_servers(request, server_of(request.target))

    def refusal(self, session: Session) -> TargetError | None:
        from rowfall.destinations.clickhouse.opening import refusal

        return refusal(session)

    def network(self, session: Session) -> Sequence[Link]:
        from rowfall.destinations.clickhouse.scratch import network

        return network(session.engine, server_of(session.target).host)

    def record_place(self, session: Session) -> int:
        return _journal(session).place()

    def loaded_by(
        self, session: Session, loads: Sequence[str], behind: int
    ) -> Mapping[str, tuple[int, int]]:
        return _journal(session).loaded_by(loads, behind)

    def query(self, target: Target, query: Query) -> None:
        from rowfall.destinations.query import query_server

        query_server(target, server_of(target), query)

    @contextmanager
    def beside(self, target: Target) -> Iterator[SmallTables]:
        from rowfall.destinations.beside import of_engine

        with self.opened(target) as opened:
            yield of_engine(opened.engine, target.database)

    def opened(self, target: Target) -> AbstractContextManager[OpenedTables]:
        from rowfall.destinations.clickhouse.clean import open_servers

        return open_servers(target, server_of(target))


def _journal(session: Session) -> Journal:
    """Return the journal of a load that is prepared."""
    from rowfall.ledger.journal import Journal  # only loads that several machines share

    first = session.first_target
    uuid = table_uuid(session.engine, first.database, first.table)
    return Journal(session.engine, first.database, uuid)


def server_of(target: Target) -> ServerAt:
    """Return the address of the server of a target of this kind."""
    at = target.server
    assert at is not None  # noqa: S101 - by its kind
    return at
