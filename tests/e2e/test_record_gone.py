"""The record beside a table of a database is gone: its rows are a question."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from e2e.test_adopt import answers
from e2e.tools import Shell
from lab.postgresql import PostgresqlServer

ROWS = "id,name\n1,a\n2,b\n"


@pytest.fixture
def schema(shell: Shell, postgresql: PostgresqlServer) -> Iterator[str]:
    name = f"gone{os.getpid()}"
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(f"CREATE SCHEMA {name}")
    yield name
    postgresql.run(f"DROP SCHEMA {name} CASCADE")


def test_postgresql(shell: Shell, postgresql: PostgresqlServer, schema: str) -> None:
    shell.write("a.csv", ROWS)
    to = ("--to", f"{postgresql.uri}?schema={schema}", "--table", "t")
    shell.ok("load", "a.csv", *to)
    postgresql.run(f"DROP TABLE {schema}._rowfall_loaded")
    done = shell.ends(3, "load", "a.csv", *to)
    assert "holds rows that nobody has on record" in done.err
    assert "It would fail" in shell.ok("plan", "a.csv", *to).out
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(2,)]
    for _ in range(2):
        shell.ok(*answers(done.err)["adopt"])
    shell.ok("load", "a.csv", *to)
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(2,)]
    # People insert, and a load of another file asks nothing.
    postgresql.run(f"INSERT INTO {schema}.t VALUES (9, 'own')")
    shell.write("b.csv", "id,name\n3,c\n")
    shell.ok("load", "b.csv", *to)
    # A table of one's own.
    postgresql.run(f"CREATE TABLE {schema}.u (id int, name text)",
                   f"INSERT INTO {schema}.u VALUES (1, 'own')")  # fmt: skip
    own = (*to[:-1], "u")
    done = shell.ends(3, "load", "b.csv", *own)
    shell.ok(*answers(done.err)["load"])
    shell.ok("load", "a.csv", *own)
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.u") == [(4,)]
