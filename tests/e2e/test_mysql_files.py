"""A server of MySQL's protocol that asks for files of the client's machine gets none.

It may ask in answer to any statement, and names the file: that of LOAD DATA LOCAL is a suggestion.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.tools import Shell
from lab.mysql_sink import Loads, MySQLSink, Script
from rowfall.core.errors import Exit

_SECRET = "a secret that stays here\n"
_ROWS = len("1\ta\n2\tb\n")
"""Bytes that a load sends on purpose."""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(_SECRET)
    return path


ANSWERED = ["SHOW VARIABLES", "SET SESSION", "SELECT", "INSERT", "COMMIT"]


@pytest.mark.parametrize("statement", ANSWERED)
def test_no_answer_to_a_statement_is_a_file(shell: Shell, secret: Path, statement: str) -> None:
    with MySQLSink(Script({statement: Loads(str(secret))})) as server:
        shell.write("t.csv", "id,name\n1,a\n2,b\n")
        done = shell.run("load", "t.csv", "--to", server.uri(), "--table", "t")
        assert server.bytes in (0, _ROWS)
        assert done.code in (Exit.TARGET, Exit.PARTIAL), done.talk
        assert "the server asks for a file of this machine" in done.talk
        assert "Traceback" not in done.talk


def test_load_data_sends_its_rows_whatever_name_the_server_gives(
    shell: Shell, secret: Path
) -> None:
    with MySQLSink(Script({"LOAD DATA": Loads(str(secret))})) as server:
        shell.write("t.csv", "id,name\n1,a\n2,b\n")
        shell.run("load", "t.csv", "--to", server.uri(), "--table", "t")
        assert (server.rows, server.bytes) == (2, _ROWS)


def test_a_query_sends_no_file(shell: Shell, secret: Path) -> None:
    with MySQLSink(Script({"SELECT 7": Loads(str(secret))})) as server:
        done = shell.run("query", "SELECT 7", "--to", server.uri())
        assert server.bytes == 0
        assert done.code == Exit.TARGET
        assert "the server asks for a file of this machine" in done.talk
