"""Tables of databases that take rows as a stream of Arrow."""

from __future__ import annotations

from rowfall.core import sql
from rowfall.core.model import Column, Schema
from rowfall.core.sqltext import SqlText, identifier, qualified
from rowfall.core.type_names import SECOND_DIGITS, Type, in_other_words, parse_type
from rowfall.targets.transactional import RowFormat, TableInFile

# Sent as text: Arrow has no type for them, or the engine writes other bytes.
_AS_TEXT = frozenset((
    "Int128", "Int256", "UInt128", "UInt256", "UUID", "IPv4", "IPv6", "Enum8", "Enum16", "JSON",
    "Variant", "Dynamic", "Time", "Time64",
))  # fmt: skip
# Of a decimal in 16 bytes.
_MOST_DIGITS = 38


def arrow_type(type_: str) -> str:
    """Return the type of ClickHouse as which the engine writes values into Arrow."""

    def leaf(found: Type) -> str:
        wide = found.base == "Decimal" and int(found.args.partition(",")[0]) > _MOST_DIGITS
        sent = found.bare
        if wide or found.base in _AS_TEXT:
            sent = "String"
        elif found.base.startswith("DateTime"):
            sent = f"DateTime64({found.digits}, 'UTC')"
        elif found.base == "BFloat16":
            sent = "Float32"
        return f"Nullable({sent})" if found.nullable else sent

    return in_other_words(type_, leaf, sql.NESTED)


class ArrowFileTable(TableInFile):
    """One table in a file of a database that takes Arrow."""

    # Days as days, and texts as texts.
    rows: RowFormat = RowFormat("ArrowStream", "ArrowStream", "Arrow", {
        "output_format_arrow_date_as_uint16": "0", "output_format_arrow_string_as_string": "1",
        "output_format_arrow_low_cardinality_as_dictionary": "0",
    })  # fmt: skip

    def written_type(self, column: Column) -> str:
        return arrow_type(column.type)

    def only_engine_writes(self, column: Column) -> bool:
        # Arrow counts no such parts of a second; the engine makes smaller ones of them.
        between = SECOND_DIGITS < parse_type(column.type).digits < 9
        return super().only_engine_writes(column) or between

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        columns = self.column_lines(schema, identifier)
        at = qualified(self.database, table or self.table)
        return (SqlText.of(f"CREATE TABLE IF NOT EXISTS {at} (\n{columns}\n)"),)

    def command(self, schema: Schema) -> str:
        names = ", ".join(identifier(c.name) for c in schema.columns)
        return f"INSERT INTO {qualified(self.database, self.table)} ({names}) FROM _rowfall_rows"
