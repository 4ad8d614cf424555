"""CREATE TABLE of MySQL, MariaDB and SingleStore for columns of ClickHouse."""

from __future__ import annotations

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.model import Column, Schema
from rowfall.core.options import Options
from rowfall.targets import open_target


def ddl(scheme: str, columns: dict[str, str], **options: str) -> str:
    schema = Schema(tuple(Column(name, type_) for name, type_ in columns.items()))
    target = open_target(f"{scheme}://u@h/d", "t", Options(**options))
    (text,) = target.create(schema)
    return str(text)


def type_in(scheme: str, type_: str, **options: str) -> str:
    (line,) = [one for one in ddl(scheme, {"c": type_}, **options).split("\n") if "`c`" in one]
    return line.strip().removeprefix("`c` ").rstrip(",")


@pytest.mark.parametrize(
    ("type_", "found"),
    [
        ("UInt8", "TINYINT UNSIGNED NOT NULL"),
        ("Nullable(Int64)", "BIGINT NULL"),
        ("Int128", "DECIMAL(39, 0) NOT NULL"),
        ("UInt256", "VARCHAR(78) NOT NULL"),
        ("Float32", "FLOAT NOT NULL"),
        ("Bool", "BOOLEAN NOT NULL"),
        ("Decimal(65, 30)", "DECIMAL(65, 30) NOT NULL"),
        ("Decimal(76, 10)", "VARCHAR(79) NOT NULL"),
        ("LowCardinality(Nullable(String))", "LONGTEXT NULL"),
        ("FixedString(16)", "BINARY(16) NOT NULL"),
        ("FixedString(300)", "VARBINARY(300) NOT NULL"),
        ("Date32", "DATE NOT NULL"),
        ("DateTime('Europe/Berlin')", "DATETIME NOT NULL"),
        ("DateTime64(3, 'UTC')", "DATETIME(3) NOT NULL"),
        ("DateTime64(9)", "VARCHAR(32) NOT NULL"),
        ("Enum8('a' = 1, 'it\\'s' = 2)", "ENUM('a', 'it''s') NOT NULL"),
        ("Enum8('a' = 1, 'a ' = 2)", "VARCHAR(2) NOT NULL"),
        ("UUID", "CHAR(36) NOT NULL"),
        ("Array(UInt8)", "JSON NOT NULL"),
        ("Map(String, UInt8)", "JSON NOT NULL"),
    ],
)
def test_types(type_: str, found: str) -> None:
    assert type_in("mysql", type_) == found


def test_types_of_one_of_them() -> None:
    assert type_in("mariadb", "UUID") == "UUID NOT NULL"
    assert type_in("mariadb", "Nullable(IPv6)") == "INET6 NULL"
    assert type_in("singlestore", "DateTime64(3)") == "DATETIME(6) NOT NULL"
    assert type_in("singlestore", "DateTime64(0)") == "DATETIME NOT NULL"


def test_a_text_in_a_key_has_a_length() -> None:
    text = ddl("mysql", {"id": "String", "name": "String"}, order_by="(id)", engine="InnoDB",
               partition_by="KEY (id) PARTITIONS 4")  # fmt: skip
    assert text == (
        "CREATE TABLE IF NOT EXISTS `d`.`t`\n(\n"
        "    `id`   VARCHAR(255) NOT NULL,\n"
        "    `name` LONGTEXT NOT NULL,\n"
        "    PRIMARY KEY (id)\n)\nENGINE=InnoDB\n"
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin\nPARTITION BY KEY (id) PARTITIONS 4"
    )


def test_singlestore_has_its_keys() -> None:
    text = ddl("singlestore", {"a": "UInt8", "b": "Date"}, shard_key="a", order_by="(b, a)")
    assert "SHARD KEY (a),\n    SORT KEY (b, a)\n)" in text
    assert "PRIMARY" not in text
    assert "SORT KEY" not in ddl("singlestore", {"a": "UInt8"})


def test_what_has_no_type_is_refused() -> None:
    with pytest.raises(UsageError, match="has no type in mysql://"):
        ddl("mysql", {"a": "AggregateFunction(sum, UInt8)"})


def test_options_of_others_are_refused() -> None:
    with pytest.raises(UsageError, match="--shard-key is not for tables of mysql://"):
        open_target("mysql://u@h/d", "t", Options(shard_key="a"))
    with pytest.raises(UsageError, match="has no parameter 'ssl'"):
        open_target("mysql://u@h/d?ssl=1", "t", Options())


@pytest.mark.parametrize(
    ("type_", "written"),
    [
        ("Bool", "UInt8"),
        ("Nullable(Bool)", "Nullable(UInt8)"),
        ("DateTime('Asia/Tokyo')", "DateTime('UTC')"),
        ("DateTime", "DateTime"),
        ("Nullable(DateTime64(3, 'Asia/Tokyo'))", "Nullable(DateTime64(3, 'UTC'))"),
    ],
)
def test_text_that_is_sent(type_: str, written: str) -> None:
    target = open_target("mysql://u@h/d", "t", Options())
    into = str(target.into("/p", Schema((Column("c", type_),)))).replace("\\'", "'")
    assert f"'`c` {written}'" in into
