"""Types, names and SQL of tables in other databases."""

from __future__ import annotations

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.model import Column, Schema
from rowfall.core.options import Options
from rowfall.systems.postgresql.target import PostgresTarget
from rowfall.targets import open_target
from rowfall.targets.base import Publish, Target

URI = "postgresql://me:secret@host/shop"


def opened(table: str = "t", uri: str = URI, **options: object) -> PostgresTarget:
    found: Target = open_target(uri, table, Options(**options))  # type: ignore[arg-type]
    assert isinstance(found, PostgresTarget)
    return found


def test_the_parts_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    target = opened("sales.orders")
    assert (target.database, target.table) == ("sales", "orders")
    assert target.text == "postgresql://me@host/shop"
    assert target.caps.publish is Publish.TRANSACTION
    assert target.address is not None
    assert (target.address.host, target.address.port) == ("host", 5432)
    assert target.address.options == {"database": "shop"}
    assert opened().database == "public"
    assert opened(uri=f"{URI}?schema=s&sslmode=require").database == "s"
    assert opened().ledger_path != opened(uri="postgresql://me@host/other").ledger_path
    monkeypatch.setenv("PGPASSWORD", "other")
    assert opened(uri="postgresql://host/shop").secrets[0].reveal() == "other"


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("postgresql://host", {}),
        ("postgresql://host/shop/table", {}),
        ("postgresql://host/shop?nonsense=1", {}),
        (URI, {"order_by": "id"}),
        (URI, {"engine": "MergeTree"}),
    ],
)
def test_refusals(uri: str, options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        opened(uri=uri, **options)


@pytest.mark.parametrize(
    ("type_", "column", "written"),
    [
        ("UInt8", "smallint", "UInt8"),
        ("Nullable(UInt32)", "bigint", "Nullable(UInt32)"),
        ("UInt64", "numeric(20)", "UInt64"),
        ("LowCardinality(Nullable(String))", "text", "Nullable(String)"),
        ("DateTime", "timestamp(0)", "DateTime"),
        ("DateTime('Europe/Berlin')", "timestamptz(0)", "DateTime('UTC')"),
        ("Nullable(DateTime64(3, 'Asia/Tokyo'))", "timestamptz(3)",
         "Nullable(DateTime64(3, 'UTC'))"),
        ("DateTime64(9)", "timestamp(6)", "DateTime64(9)"),
        ("Decimal(10, 2)", "numeric(10, 2)", "Decimal(10, 2)"),
        ("Array(Nullable(Int32))", "integer[]", "Array(Nullable(Int32))"),
        ("Array(Array(Int32))", "jsonb", "Array(Array(Int32))"),
        ("Map(String, UInt8)", "jsonb", "Map(String, UInt8)"),
        ("Enum8('a' = 1)", "text", "Enum8('a' = 1)"),
    ],
)  # fmt: skip
def test_types(type_: str, column: str, written: str) -> None:
    target = opened()
    assert target.column_type(Column("x", type_)) == column
    assert target.written_type(Column("x", type_)) == written


def test_the_table_that_is_made() -> None:
    schema = Schema((Column('a"b', "Int32"), Column("c", "Nullable(Float64)")))
    (text,) = opened(unlogged=True).create(schema)
    assert str(text) == (
        'CREATE UNLOGGED TABLE IF NOT EXISTS "public"."t" (\n'
        '    "a""b" integer NOT NULL,\n'
        '    "c"    double precision\n)'
    )
    with pytest.raises(UsageError, match="63 bytes"):
        opened().create(Schema((Column("x" * 64, "Int32"),)))


def test_columns_that_need_a_text_of_their_own() -> None:
    plain = Schema((Column("a", "Int32"),))
    assert opened().sent(plain) is plain
    sent = opened().sent(Schema((Column("a", "Int32"), Column("m", "Map(String, String)"))))
    assert sent.projection is not None
    assert sent.projection.select == "`a` AS `a`, toJSONString(`m`) AS `m`"
    assert [c.type for c in sent.columns] == ["Int32", "Nullable(String)"]
