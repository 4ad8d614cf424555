"""Tables of MySQL in the words of SHOW CREATE TABLE."""

from __future__ import annotations

from dataclasses import replace

from rowfall.core.model import Column, Schema, TableLayout
from rowfall.core.options import Options
from rowfall.systems.mysql.catalogue import MySQLColumn
from rowfall.systems.mysql.native import native_table
from rowfall.targets import open_target

_COLUMNS = [MySQLColumn("id", "int", "int(11)", nullable=False)]


def shown(*lines: str) -> str:
    listed = ",\n".join(f"  {line}" for line in lines)
    return f"CREATE TABLE `t` (\n{listed}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"


def test_names_of_checks_are_of_a_whole_schema_in_mysql() -> None:
    """A second table with one of its name could not be made there."""
    text = shown("`id` int(11) NOT NULL", "CONSTRAINT `t_chk_1` CHECK ((`id` > 0))")
    assert [k.text for k in native_table("8.0.36", _COLUMNS, text).keys] == ["CHECK ((`id` > 0))"]
    (there,) = native_table("5.5.5-10.11.6-MariaDB", _COLUMNS, text).keys
    assert there.text == "CONSTRAINT `t_chk_1` CHECK ((`id` > 0))"


def test_lines_that_are_not_known_leave_the_types_to_rowfall() -> None:
    foreign = "CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `other` (`id`)"
    for line, types in (
        (foreign, {"id"}), ("PERIOD FOR `p` (`a`, `b`)", set()), ("VECTOR KEY `v` (`v`)", set()),
    ):  # fmt: skip
        text = shown("`id` int(11) NOT NULL", line)
        assert set(native_table("10.11.6-MariaDB", _COLUMNS, text).types) == types


def test_a_check_is_no_key_of_a_column_that_counts() -> None:
    text = shown(
        "`id` int(11) NOT NULL AUTO_INCREMENT", "KEY `by_id` (`id`)",
        "CONSTRAINT `small` CHECK (`id` < 9)",
    )  # fmt: skip
    native = native_table("10.11.6-MariaDB", _COLUMNS, text)
    target = open_target("mysql://u@127.0.0.1/d", "t", Options())
    for keys, counts in ((native.keys, True), (native.keys[1:], False)):
        schema = Schema((Column("id", "Int32"),), TableLayout(native=replace(native, keys=keys)))
        (made,) = target.create(schema)
        assert ("AUTO_INCREMENT" in str(made)) is counts
