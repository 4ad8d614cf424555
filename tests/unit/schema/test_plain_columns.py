"""Column lists of plain types, which are read here as the engine reads them."""

from __future__ import annotations

import pytest

from rowfall.core.sqltext import SqlText, quote
from rowfall.schema.table_options import plain_columns
from rowfall.systems.clickhouse.embedded import Embedded

LISTS = (
    "id Int32",
    "`a b` Nullable(String), c LowCardinality(String)",
    "d Decimal(10,2), e DateTime64(3,'UTC'), f FixedString(5)",
    "y Array(Decimal(3, 1)), z LowCardinality(Nullable(String))",
    "key UInt256, order Bool, a Date32, b UUID, c IPv6, d DateTime, e DateTime('UTC')",
    "d Decimal(76, 76), e Decimal(1, 0), g Float32",
)
LEFT = (
    "d Decimal(3,5)", "d Decimal(0, 0)", "d Decimal(77, 1)", "a Int32, a Int8", "a INT", "a.b Int8",
    "x LowCardinality(Nullable(String)", "x Int8 DEFAULT 1", "x Array(Nullable(Int8))",
    "INDEX Int32", "x", "é Int8", "",
)  # fmt: skip


def test_plain_columns_are_read_as_the_engine_reads_them() -> None:
    engine = Embedded(None)
    for text in LISTS:
        asked = SqlText.of(f"DESCRIBE TABLE null({quote(text)})")
        wanted = tuple(
            (row[0], row[1]) for row in engine.ask(asked, {"print_pretty_type_names": 0})
        )
        assert plain_columns(text) == wanted
    engine.close()


@pytest.mark.parametrize("text", LEFT)
def test_the_others_are_the_engines(text: str) -> None:
    assert plain_columns(text) == ()
