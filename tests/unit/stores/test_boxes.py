"""Tables that were drawn for a terminal are refused, with the command that writes rows."""

from __future__ import annotations

import pytest

from rowfall.core.errors import RowfallError
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.stores.boxes import box_in
from rowfall.stores.first_bytes import FirstBytes, examine
from rowfall.stores.unnamed import format_of

MYSQL = """+----+------+
| id | name |
+----+------+
|  1 | Oslo |
|  2 | NULL |
+----+------+
2 rows in set (0.00 sec)
"""
BOXES = {
    "mysql with a text of two lines": (MYSQL.replace("Oslo |", "Os|lo |"), "mysql --batch"),
    "mysql with \\G": ("*************************** 1. row ***************************\n"
                       "  id: 1\nname: Oslo\n", "mysql --batch"),
    "psql with a text of two lines": (
        " id | name \n----+------\n  1 | Os  +\n    | lo\n(1 row)\n\n", "psql --csv",
    ),
    "psql of one column": (" id \n----\n  1\n  2\n(2 rows)\n\n", "psql --csv"),
    "psql with \\x": ("-[ RECORD 1 ]\nid   | 1\nname | Oslo\n", "psql --csv"),
    "ClickHouse": ("┌─id─┬─name─┐\n│  1 │ Oslo │\n└────┴──────┘\n", "--format CSVWithNames"),
    "DuckDB": ("┌───────┐\n│  id   │\n│ int32 │\n├───────┤\n│     1 │\n└───────┘\n", "duckdb -csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOXES)
def test_boxes(name: str) -> None:
    """mysql's were loaded as lines where the name said CSV, exit 0."""
    text, command = BOXES[name]
    csv = Encoding("CSV", "none", Kind.TEXT)
    with pytest.raises(RowfallError, match="not a table that can be read") as named:
        examine([FirstBytes("a.csv", text.encode())], csv, Options())
    with pytest.raises(RowfallError, match="not a table that can be read") as unnamed:
        format_of("-", text.encode(), whole=True)
    for error in (named.value, unnamed.value):
        assert command in (error.hint or "")
    # Who names a format gets what it makes of it.
    assert examine([FirstBytes("a.csv", text.encode())], csv, Options(format="CSV")).encoding == csv


@pytest.mark.parametrize(
    "text",
    ["id|name\n1|Oslo\n", "a\n---\n1\n", "+1,2\n-3,4\n", "id | name\n1 | Oslo\n--- | ---\n",
     "| id | name |\n|----|------|\n| 1 | Oslo |\n", "name\n----\nAnn (2 rows)\n",
     MYSQL, MYSQL.replace("\n", "\r\n"), f"\n{MYSQL}",
     " id | name \n----+------\n  1 | Oslo\n  2 | \n(2 rows)\n\n", "x-[ RECORD 1 ]\n",
     "-----BEGIN\n", "", "a|b\n-|-\n"],
)  # fmt: skip
def test_what_is_no_box(text: str) -> None:
    assert box_in(text.encode()) is None
