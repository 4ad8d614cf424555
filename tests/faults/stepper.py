"""Runs ``rowfall``, and does something to it at one of its steps.

A step is a statement of the embedded engine or of a server that changes something, a transaction
of the ledger, what a transaction of another database does, a question of rowfall-decode, a part
of its on the way to staging, or a file that a table of Iceberg gets or loses.
Every step is written to a file with its number, so that a run without a fault lists them.

    python stepper.py STEPS NUMBER before|after KIND load ...
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kills import CHANGES, children  # beside this script

from rowfall.cli import main
from rowfall.deliver import build
from rowfall.engines.file_database import FileDatabase, FileTransaction
from rowfall.ledger.store import LedgerStore
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.duckdb.database import DuckDBDatabase
from rowfall.systems.mysql import replacing
from rowfall.systems.mysql.database import MySQLDatabase
from rowfall.systems.mysql.transaction import MySQLTransaction
from rowfall.systems.postgresql import database
from rowfall.systems.postgresql.database import PostgresDatabase
from rowfall.systems.postgresql.transaction import PostgresTransaction

TRANSACTIONS = (PostgresTransaction, FileTransaction, MySQLTransaction)


def kill_engine() -> None:
    for child in children(os.getpid()):
        os.kill(child, signal.SIGKILL)


def hurt(kind: str) -> None:
    if kind in ("kill -9 engine child", "kill -9 both"):
        kill_engine()
    if kind in ("kill -9 rowfall", "kill -9 both"):
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "Ctrl-C":
        os.kill(os.getpid(), signal.SIGINT)


class Steps:
    """Counts the steps of this process."""

    def __init__(self, path: Path, number: int, side: str, kind: str) -> None:
        self._path, self._hurt_at, self._side, self._kind = path, number, side, kind
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()

    def begin(self, text: str) -> int:
        with self._guard:
            number = next(self._numbers)
            with self._path.open("a") as file:
                file.write(f"{number} {' '.join(text.split())[:160]}\n")
        return number

    def at(self, number: int, side: str) -> None:
        if (number, side) == (self._hurt_at, self._side):
            self._path.with_suffix(".met").touch()
            hurt(self._kind)


def patch(steps: Steps) -> None:
    change = LedgerStore.change

    def stepping(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_step(self: Embedded | Server, statement: Any, **options: Any) -> Any:
            text = statement.sql.reveal()
            if not text.lstrip().startswith(CHANGES):
                return run(self, statement, **options)
            number = steps.begin(text)
            steps.at(number, "before")
            outcome = run(self, statement, **options)
            steps.at(number, "after")
            return outcome

        return run_step

    def calling(of: str, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_step(*args: Any, **more: Any) -> Any:
            number = steps.begin(f"{of}: {name}")
            steps.at(number, "before")
            found = call(*args, **more)
            steps.at(number, "after")
            return found

        return call_step

    @contextmanager
    def change_step(self: LedgerStore) -> Iterator[Any]:
        # The caller of the context manager: what is written down.
        number = steps.begin(f"ledger: {sys._getframe(2).f_code.co_name}")
        with change(self) as db:
            yield db
            steps.at(number, "before")
        steps.at(number, "after")

    Embedded.run, Server.run = stepping(Embedded.run), stepping(Server.run)  # type: ignore[method-assign]
    LedgerStore.change = change_step  # type: ignore[method-assign]
    for transaction in TRANSACTIONS:
        for name in ("lease", "write", "write_binary", "finish", "commit"):
            if hasattr(transaction, name):
                setattr(transaction, name, calling("database", name, getattr(transaction, name)))
    for owner, name in (
        (FileDatabase, "prepare"), (FileDatabase, "publish_gathered"), (FileDatabase, "_add"),
        (DuckDBDatabase, "take_place"), (PostgresDatabase, "prepare"),
        (PostgresDatabase, "publish_gathered"), (database, "take_place"),
        (MySQLDatabase, "prepare"), (MySQLDatabase, "publish_gathered"),
    ):  # fmt: skip
        setattr(owner, name, calling("file", name, getattr(owner, name)))
    ask = replacing.run

    def run_statement(session: Any, text: str) -> Any:
        if text.startswith(("SELECT", "SET", "SHOW")):
            return ask(session, text)
        return calling("replace", text[:60], ask)(session, text)

    replacing.run = run_statement
    # A question of rowfall-decode about partitions, and each of its parts on the way to staging.
    for name in ("partitions", "move"):
        setattr(build, name, calling("decoder", name, getattr(build, name)))
    if any("iceberg+" in argument for argument in sys.argv):
        from rowfall.systems.lakes.files import DiskFiles, S3Files

        for store in (DiskFiles, S3Files):
            for name in ("create", "write", "put", "remove"):
                setattr(store, name, calling("iceberg", name, getattr(store, name)))


if __name__ == "__main__":
    path, number, side, kind, *arguments = sys.argv[1:]
    patch(Steps(Path(path), int(number), side, kind))
    sys.argv[1:] = arguments
    sys.exit(main())
