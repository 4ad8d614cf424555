"""What the engine contracts share: a guarded server, statements, and watching them run."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from lab.clickhouse import ClickHouse
from lab.process import wait_until
from lab.proxy import Proxy
from rowfall.core.masked import Secret
from rowfall.core.model import Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server

_numbers = itertools.count()


class Guarded(ClickHouse):
    """The lab's server with users made by SQL, who need a grant for each system table.

    That is what the stock configuration of a packaged server asks for.
    """

    name = "clickhouse-guarded"

    def __init__(self) -> None:
        super().__init__()
        directories = (
            f"<user_directories><users_xml><path>{self._config}</path></users_xml>"
            "<memory/></user_directories><access_control_improvements>"
            "<select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>"
            "</access_control_improvements></clickhouse>"
        )
        text = self._config.read_text().replace("</clickhouse>", directories)
        self._config.write_text(text)


def connect(service: ClickHouse, *, port: int | None = None, **other: object) -> Server:
    """A Server engine as the lab's own user, unless told otherwise."""
    arguments = {"user": service.user, "password": Secret(service.password), **other}
    return Server("127.0.0.1", port or service.http_port, **arguments)  # type: ignore[arg-type]


def run(
    engine: Embedded | Server, *parts: str | Secret, format: str | None = None, **other: object
) -> Outcome:
    settings = other.pop("settings", {})
    query_id, texts = other.pop("query_id", ""), other.pop("texts", {})
    statement = Statement(SqlText.of(*parts), settings, query_id, format, texts=texts)  # type: ignore[arg-type]
    return engine.run(statement, **other)  # type: ignore[arg-type]


def text(engine: Embedded | Server, sql: str, **other: object) -> str:
    return run(engine, sql, format="TabSeparatedRaw", **other).data.decode().strip()


def new_table(engine: Embedded | Server, columns: str = "a UInt64") -> str:
    name = f"contract.t{os.getpid()}_{next(_numbers)}"
    run(engine, "CREATE DATABASE IF NOT EXISTS contract")
    run(engine, f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
    return name


def new_id() -> str:
    return f"contract-{os.getpid()}-{next(_numbers)}"


def running(engine: Embedded | Server, query_id: str) -> bool:
    """Whether ``system.processes`` shows it: by its id, or by the comment in front of it."""
    condition = f"query_id = '{query_id}' OR position(query, '/* {query_id} */') = 1"
    return text(engine, f"SELECT count() FROM system.processes WHERE {condition}", lane=90) == "1"


def slow(table: str, seconds: float) -> tuple[str, dict[str, int]]:
    """An INSERT SELECT that writes ten rows a second, one block each."""
    settings = {"max_block_size": 1, "max_threads": 1, "max_insert_threads": 1}
    sql = f"INSERT INTO {table} SELECT sleepEachRow(0.1) + number FROM numbers({seconds * 10:.0f})"
    return sql, settings


@dataclass
class Wire:
    """A server reached through a proxy, and another way around it."""

    proxy: Proxy
    server: Server
    direct: Server

    def while_running(self, query_id: str, act: Callable[[], None]) -> threading.Thread:
        """Do something once the statement can be seen; join the thread."""

        def wait() -> None:
            wait_until(lambda: running(self.direct, query_id), 10, "the statement to run")
            act()

        thread = threading.Thread(target=wait)
        thread.start()
        return thread
