"""``--table-per-file``: each file is a table, named after it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from e2e.tools import Shell


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_each_file_is_a_table(shell: Shell) -> None:
    """Names that stand in two folders get that of their folder, too; a later run loads new ones."""
    _write(shell.folder / "in/orders.csv", "id,n\n1,2\n")
    _write(shell.folder / "in/2024-days.csv", "day\n2024-01-31\n2024-02-01\n")
    done = shell.ok("load", "in", "--table-per-file", "--json")
    assert {t["table"]: t["rows"] for t in done.document["tables"]} == {
        "orders": 1, "t_2024_days": 2}  # fmt: skip
    _write(shell.folder / "in/later.csv", "x\n1\n")
    done = shell.ok("load", "in", "--table-per-file", "--exclude", "t_*", "--json")
    assert {t["table"]: t["rows"] for t in done.document["tables"]} == {"orders": 0, "later": 1}
    assert shell.rows("SELECT id, n FROM orders") == [[1, 2]]


@pytest.mark.long
def test_names_that_meet(shell: Shell) -> None:
    _write(shell.folder / "a/x.csv", "id\n1\n")
    _write(shell.folder / "b/x.csv", "id\n2\n")
    shell.ok("load", "*/x.csv", "--table-per-file", "--to", "o.duckdb", "--table", "in_{table}")
    got = shell.ok("query", "SELECT id FROM in_b_x", "--to", "o.duckdb", "--format", "TSV").out
    assert got.strip() == "2"
    _write(shell.folder / "b/x.tsv", "id\tn\n2\t3\n")
    done = shell.ends(2, "load", "b/*", "--table-per-file")
    assert "would both be the table b_x" in done.talk
    shell.ok("load", "b/x.tsv", "--table", "NAME")
    with zipfile.ZipFile(shell.folder / "c.zip", "w") as made:
        made.writestr("p.csv", "id\n7\n")
        made.writestr("q.csv", "id,name\n3,z\n")
    shell.ok("load", "c.zip", "--table-per-file")
    assert shell.rows("SELECT id FROM p") == [[7]]
    assert shell.rows("SELECT name FROM q") == [["z"]]
    done = shell.ends(2, "load", "generate://random?rows=5", "--table-per-file")
    assert "--table-per-file is for files" in done.talk
