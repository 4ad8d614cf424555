"""Partitions and order of a table of Iceberg: from options, and as SQL of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowfall.core import sql
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema

_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000}
_WORDS = {
    **{f"{word}s": word for word in ("year", "month", "day", "hour")},
    "toYear": "year", "toYYYYMM": "month", "toStartOfMonth": "month", "toDate": "day",
    "toYYYYMMDD": "day", "toStartOfDay": "day", "toStartOfHour": "hour",
}  # fmt: skip
_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")


def _items(text: str) -> list[str]:
    words = sql.tokens(text.strip())
    if words[:1] == ["("] and sql.closing(words, 0) == len(words) - 1:
        words = words[1:-1]
    return sql.items(words)


def _field_of(word: str, schema: Schema, flag: str) -> Any:
    name = sql.identifier(word)
    names = [each.name for each in schema.fields]
    if name not in names:
        raise UsageError(
            f"{flag} {word} is not a column of the table",
            hint=f"{did_you_mean(name or word, names)}Columns: {', '.join(names[:20])}.",
        )
    return schema.find_field(name)


def sort_order(options: Options, schema: Schema) -> Any:
    """Return the sort order that ``--order-by`` asks for.

    Raises:
        UsageError: it is more than columns.
    """
    from pyiceberg.table.sorting import (
        UNSORTED_SORT_ORDER,
        NullOrder,
        SortDirection,
        SortField,
        SortOrder,
    )
    from pyiceberg.transforms import IdentityTransform

    fields = []
    for item in _items(options.order_by or ""):
        words = [w for w in sql.tokens(item) if not w.isspace()]
        down = [w.upper() for w in words[1:]] == ["DESC"]
        if len(words) > 2 or (len(words) == 2 and not down and words[1].upper() != "ASC"):
            raise UsageError(
                f"--order-by {item}: the order of an Iceberg table is one of columns",
                hint="Name columns, each with ASC or DESC behind it if you want.",
            )
        found = _field_of(words[0], schema, "--order-by")
        fields.append(SortField(
            found.field_id, IdentityTransform(),
            SortDirection.DESC if down else SortDirection.ASC,
            NullOrder.NULLS_LAST if down else NullOrder.NULLS_FIRST,
        ))  # fmt: skip
    return SortOrder(*fields, order_id=1) if fields else UNSORTED_SORT_ORDER


def partition_spec(options: Options, schema: Schema) -> Any:
    """Return the partitions that ``--partition-by`` asks for.

    Raises:
        UsageError: Iceberg has no such transform, or none of this type.
    """
    from pyiceberg.partitioning import (
        UNPARTITIONED_PARTITION_SPEC,
        PartitionField,
        PartitionSpec,
    )
    from pyiceberg.transforms import parse_transform

    fields: list[PartitionField] = []
    for item in _items(options.partition_by or ""):
        words = [w for w in sql.tokens(item) if not w.isspace()]
        name, given = "identity", words
        if len(words) > 1:
            name = _WORDS.get(words[0], words[0].lower())
            given = [w for w in words[2:-1] if w != ","] if words[1] == "(" else words
        number = next((w for w in given if w.isdigit()), "")
        columns = [w for w in given if not w.isdigit()]
        sized = name in ("bucket", "truncate")
        if name not in _TRANSFORMS or len(columns) != 1 or bool(number) != sized:
            raise UsageError(
                f"--partition-by {item}: Iceberg has no such transform",
                hint="It has column, year(t), month(t), day(t), hour(t), bucket(16, column) and "
                "truncate(4, column).",
            )
        found = _field_of(columns[0], schema, "--partition-by")
        transform = parse_transform(f"{name}[{number}]" if sized else name)
        floating = str(found.field_type) in ("float", "double")
        if not transform.can_transform(found.field_type) or floating:
            raise UsageError(
                f"--partition-by {item}: {found.name} is a {found.field_type}, which {name} does "
                "not take",
                hint="Times take year, month, day and hour; whole numbers and text bucket and "
                "truncate.",
            )
        end = "" if name == "identity" else f"_{'trunc' if name == 'truncate' else name}"
        fields.append(PartitionField(
            source_id=found.field_id, field_id=1000 + len(fields), transform=transform,
            name=f"{found.name}{end}",
        ))  # fmt: skip
    return PartitionSpec(*fields, spec_id=0) if fields else UNPARTITIONED_PARTITION_SPEC


def partition_sql(each: PartitionField, schema: Schema, table: str) -> str:
    """Return SQL of the engine that is the same for rows of one partition, and only for them.

    Raises:
        TargetError: the engine has no such transform.
    """
    found = schema.find_field(each.source_id)
    x = sql.name(schema.find_column_name(each.source_id) or "")
    text = str(each.transform)
    word, _, number = text.rstrip("]").partition("[")
    if word == "void":
        return "1"
    if word == "identity":
        return x
    if word == "bucket":
        return f"icebergBucket({int(number)}, {x})"
    if word == "truncate":
        return f"icebergTruncate({int(number)}, {x})"
    if word == "year":
        return f"toYear({x})"
    if word == "month":
        return f"toYear({x}) * 12 + toMonth({x})"
    if word == "day" and str(found.field_type) == "date":
        return x
    if word in _MICROSECONDS:
        # Rounded down, also before 1970: functions of the engine clip what is far from today.
        moment, step = f"toUnixTimestamp64Micro({x})", _MICROSECONDS[word]
        return f"{moment} - positiveModulo({moment}, {step})"
    raise TargetError(
        f"{table} is partitioned by {text}({x}), which rowfall does not know",
        hint="Load into a table with other partitions.",
    )
