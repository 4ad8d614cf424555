"""Find what a column holds: SQLite keeps any value in any column, whatever its type says.

The declared type is believed where SQLite itself makes values fit it (integers, texts, floats).
Dates, booleans, decimals and columns without a type are told by values from all over the table.
A value of another kind goes out as it is where no reader takes it for one of the column's, as a
word in a column of numbers: then it is a bad row. Where one might (bytes for a text, a number for a
date), there is no text of the row at all, and the load fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.core.sqltext import identifier
from rowfall.sources.databases import or_null
from rowfall.sources.key_ranges import SourceColumn

INTEGER, REAL, TEXT, BLOB = "integer", "real", "text", "blob"
_TEXT_BYTES = 24.0
_DIGITS = regex(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_MOST_DIGITS = 38
_DAY = regex(r"\d{4}-\d\d-\d\d\Z")
_MOMENT = regex(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?\Z"
)  # fmt: skip
# Above this, seconds since 1970 are years of five digits, so they are milliseconds; and so on.
_SECONDS, _MILLISECONDS = 10**11, 10**14


def _escaped(text: str) -> str:
    """Return SQL of a text as a field of TSV."""
    found: list[str] = []
    escaped = text
    for byte, letter in (("\\", "\\"), ("\t", "t"), ("\n", "n"), ("\r", "r")):
        escaped = f"replace({escaped}, '{byte}', '\\{letter}')"
        found.append(f"instr({text}, '{byte}')")
    # To look for a byte takes a third of the time of a copy.
    return f"CASE WHEN {' OR '.join(found)} THEN {escaped} ELSE {text} END"


def _word(text: str) -> str:
    """Return SQL of a text in a column of another type; NULL for '', which readers take for one."""
    return f"nullif({text}, '')"


def _case(**texts: str) -> str:
    """Return SQL of a value's text, by its storage class; NULL for one that has none here."""
    cases = "".join(f" WHEN '{kind}' THEN {text}" for kind, text in texts.items())
    return f"CASE typeof({{x}}) WHEN 'null' THEN '\\N'{cases} END"


# CAST writes 15 digits of a float, and two floats may have the same ones.
_REAL = (
    "CASE WHEN CAST(CAST({x} AS TEXT) AS REAL) = {x} THEN CAST({x} AS TEXT) "
    "ELSE printf('%!.17g', {x}) END"
)
# A reader takes 2024-01-31 10:00:00 in UTC; programs write a T, a zone, or no seconds.
_UTC = (
    "CASE WHEN substr({x}, -1) = 'Z' THEN substr({x}, 1, length({x}) - 1) "
    "WHEN substr({x}, -6) GLOB '[-+][0-9][0-9]:[0-9][0-9]' AND length({x}) > 16 THEN "
    # Without its fraction: strftime rounds 59.9996 up to the next minute.
    "strftime('%Y-%m-%d %H:%M:%S', substr({x}, 1, min(19, length({x}) - 6)) || substr({x}, -6)) "
    "|| CASE WHEN length({x}) > 25 THEN "
    "substr({x}, 20, length({x}) - 25) ELSE '' END ELSE {x} END"
)
_D = "[0-9]"
_ISO = (
    f"CASE WHEN {{x}} GLOB '{_D * 4}-{_D * 2}-{_D * 2} {_D * 2}:{_D * 2}:{_D * 2}' THEN {{x}} "
    f"WHEN {{x}} GLOB '*[^-0-9TZ :.+]*' THEN {_escaped('{x}')} "
    f"WHEN {{x}} GLOB '{_D * 4}-{_D}*' THEN replace({_UTC}, 'T', ' ') || "
    f"CASE length({_UTC}) WHEN 10 THEN ' 00:00:00' WHEN 16 THEN ':00' ELSE '' END ELSE {{x}} END"
)


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column as the catalogue has it.

    Attributes:
        type: as it was declared, in capitals; "" for none. ``nullable``: SQLite lets it be NULL.
        of_table: it is kept, and so SQLite has made numbers of texts where it was declared so.
    """

    name: str
    type: str
    nullable: bool
    of_table: bool

    @property
    def converts(self) -> bool:
        """True where no text looks like a number."""
        return self.of_table and self.type not in ("", "BLOB")


Values = Sequence[tuple[str, object]]
"""Values of a column, each with its storage class; NULLs are left out."""


@dataclass(frozen=True, slots=True)
class FoundType:
    """How a column is read.

    Attributes:
        type: of ClickHouse; ``why``: one clause.
        sql: of its text over {x}; "" where the driver gives the value, which is written here.
        bytes_each: of a value in memory.
    """

    type: str
    why: str
    sql: str = ""
    bytes_each: float = 8.0


def read_column(column: DeclaredColumn, values: Values, *, as_text: bool) -> SourceColumn:
    """Return a column with its type of ClickHouse, and the SQL of its text.

    Args:
        as_text: ``--type`` wants text of whatever it holds.
    """
    found = _found(column, values)
    if as_text and found.type not in ("String", BLOB):
        text = _case(integer="{x}", real=_REAL, text=_escaped("{x}"))
        found = FoundType("String", "as --type says", text, _width(values))
    own, blob = identifier(column.name), found.type == BLOB
    type_ = "String" if blob else found.type
    return SourceColumn(
        column.name, or_null(type_) if column.nullable else type_,
        f"{column.type or 'without a type'} in SQLite, {found.why}",
        found.sql.format(x=own), found.bytes_each + column.nullable, bytes=blob,
        wire=TEXT if column.converts else "",
    )  # fmt: skip


def written_here(column: SourceColumn) -> bool:
    """Tell whether the driver gives the values of a column, and not a text of the row."""
    return not column.select


def is_float(column: SourceColumn) -> bool:
    """Tell whether a column is read as Float64, which does not hold each integer above 2**53."""
    return "Float64" in column.type


def misfits(column: SourceColumn) -> str:
    """Return the condition on values for which there is no text."""
    own = identifier(column.name)
    if written_here(column):
        if column.bytes:
            return f"typeof({own}) NOT IN ('blob', 'text', 'null')"
        text = f"lower(CAST({own} AS TEXT))"
        like = f"{text} GLOB '*[0-9]*' OR {text} GLOB '*n*' OR {text} = ''"
        wrong = f"typeof({own}) IN ('blob', 'text')" + f" AND ({like})" * bool(column.wire)
        if is_float(column):
            wrong += f" OR (typeof({own}) = 'integer' AND CAST({own} AS REAL) <> {own})"
        return wrong
    return f"{own} IS NOT NULL AND ({column.select}) IS NULL"


# --- types ----------------------------------------------------------------------------------------


def _found(column: DeclaredColumn, values: Values) -> FoundType:
    kinds, declared = Counter(kind for kind, _ in values), column.type
    number = _integer(column)
    for begins, look in _BY_NAME.items():
        if declared.startswith(begins) and (found := look(column, values, kinds)) is not None:
            return found
    # The rules of SQLite, in their order: https://sqlite.org/datatype3.html
    if "INT" in declared:
        return FoundType("Int64", "as declared", number)
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return _text(values, "as declared")
    if declared == "BLOB":
        return FoundType(BLOB, "as declared", "", _width(values))
    if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
        return FoundType("Float64", "as declared")
    return _by_values(kinds, values, number)


def _integer(column: DeclaredColumn) -> str:
    text = {"text": _word(_escaped("{x}"))} if column.converts else {}
    return _case(integer="{x}", real=_REAL, **text)


def _by_values(kinds: Counter[str], values: Values, number: str) -> FoundType:
    """Return the type of what most values are."""
    why, most = "by its values", kinds.most_common(1)[0][0] if kinds else ""
    if set(kinds) == {INTEGER, REAL}:
        return FoundType("Float64", why)
    if len(kinds) > 1:
        why = f"as most of its values: {' and '.join(sorted(kinds))}"
    if most == INTEGER:
        return FoundType("Int64", why, number)
    if most == REAL:
        return FoundType("Float64", why)
    if most == BLOB:
        return FoundType(BLOB, why, "", _width(values))
    return _text(values, why if kinds else "it holds no values")


def _text(values: Values, why: str) -> FoundType:
    return FoundType("String", why, _case(text=_escaped("{x}")), _width(values))


def _width(values: Values) -> float:
    # An empty table says nothing of them.
    sizes = [len(value) for _, value in values if isinstance(value, str | bytes)]
    return 8 + (sum(sizes) / len(sizes) if sizes else _TEXT_BYTES)


def _boolean(column: DeclaredColumn, values: Values, kinds: Counter[str]) -> FoundType | None:
    if set(kinds) <= {INTEGER} and {value for _, value in values} <= {0, 1}:
        return FoundType("Bool", "as declared", _integer(column), 1.0)
    return None


def _decimal(column: DeclaredColumn, values: Values, kinds: Counter[str]) -> FoundType | None:
    digits = _DIGITS.search(column.type)
    if digits is None or not set(kinds) <= {INTEGER, REAL}:
        return None
    whole, scale = int(digits[1]), int(digits[2] or 0)
    if not 0 < whole <= _MOST_DIGITS or scale > whole:
        return None
    if all(_fits(repr(value), whole, scale) for _, value in values):
        return FoundType(f"Decimal({whole}, {scale})", "as declared", "", 16.0)
    return FoundType("Float64", "as some values have more digits")


def _fits(text: str, whole: int, scale: int) -> bool:
    left, _, right = text.lstrip("-").partition(".")
    return (left + right).isdigit() and len(left.lstrip("0")) <= whole - scale and (
        len(right) <= scale or right == "0"
    )  # fmt: skip


def _moment(column: DeclaredColumn, values: Values, kinds: Counter[str]) -> FoundType | None:
    texts = [str(value) for kind, value in values if kind == TEXT]
    days, moments = (sum(map(bool, map(form.match, texts))) for form in (_DAY, _MOMENT))
    numbers = [abs(int(str(value))) for kind, value in values if kind == INTEGER]
    most = len(values) / 2  # the others are bad rows
    if days > most and days == moments:
        return FoundType("Date32", "by its values", _case(text=_word(_escaped("{x}"))), 4.0)
    if moments > most:
        why = "by its values, in UTC where they name no zone"
        return FoundType("DateTime64(6, 'UTC')", why, _case(text=_word(_ISO)))
    if len(numbers) > most:
        highest = max(numbers)
        unit = 1 if highest < _SECONDS else 1000 if highest < _MILLISECONDS else 10**6
        name = {1: "seconds", 1000: "milliseconds", 10**6: "microseconds"}[unit]
        sql = _case(integer=_since_1970(unit), text=_word(_escaped("{x}")))
        return FoundType("DateTime64(6, 'UTC')", f"by its values: {name} since 1970", sql)
    return None


def _since_1970(unit: int) -> str:
    """Return SQL of the moment that is so many units behind 1970, {x}."""
    seconds = "'%Y-%m-%d %H:%M:%S'"
    if unit == 1:
        return f"strftime({seconds}, {{x}}, 'unixepoch')"
    rest = f"((({{x}} % {unit}) + {unit}) % {unit})"
    digits = len(str(unit)) - 1
    return (
        f"strftime({seconds}, ({{x}} - {rest}) / {unit}, 'unixepoch') "
        f"|| printf('.%0{digits}d', {rest})"
    )


_BY_NAME: dict[str, Callable[[DeclaredColumn, Values, Counter[str]], FoundType | None]] = {
    "BOOL": _boolean, "DATE": _moment, "TIMESTAMP": _moment, "DECIMAL": _decimal,
    "NUMERIC": _decimal,
}  # fmt: skip
