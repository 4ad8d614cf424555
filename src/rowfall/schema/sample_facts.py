"""Facts about the columns of a sample, and the SQL aggregates that find them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rowfall.core import sql
from rowfall.core.model import Encoding, Kind
from rowfall.schema.codec import Evidence, Type, parse_type
from rowfall.schema.records import BOM


@dataclass(frozen=True, slots=True)
class Found:
    """Facts about one column of the sample; counts are of rows.

    Attributes:
        name: in the source; ``declared`` its type there (formats with types and JSON).
        nested: an array, map, tuple or other type that is passed through.
        nulls: NULL or missing, unquoted empty CSV fields among them; ``marks`` are written \\N.
        blanks: the empty string; ``filled`` all the others.
        zeros: numbers with leading zeros.
        bom: the first column of a file that starts with a byte order mark.
        first, last: least and greatest text of dates and times; ``digits`` after the second.
    """

    name: str
    declared: str = ""
    nested: bool = False
    rows: int = 0
    nulls: int = 0
    blanks: int = 0
    marks: int = 0
    padded: int = 0
    breaks: int = 0
    swallowed: int = 0
    distinct: int = 0
    bytes_each: float = 16.0
    integers: int = -1
    zeros: int = 0
    low: int = 0
    high: int = 0
    floats: int = -1
    infinite: int = 0
    booleans: int = -1
    uuids: int = -1
    days: int = -1
    moments: int = -1
    with_t: int = 0
    with_z: int = 0
    digits: int = 0
    first: str = ""
    last: str = ""
    bom: bool = False

    @property
    def filled(self) -> int:
        return self.rows - self.nulls - self.blanks

    def evidence(self, encoding: Encoding) -> Evidence:
        """What the codec may rely on."""
        shape = "Z" if self.with_z else "T" if self.with_t else ""
        if self.filled and self.days == self.filled:
            shape = "date"
        elif self.filled and self.integers == self.filled:
            shape = "epoch"
        return Evidence(
            blank=self.blanks + (0 if encoding.null else self.marks) > 0
            and encoding.kind is not Kind.TYPED,
            padded=self.padded > 0 and encoding.kind is Kind.TEXT,
            shape=shape,
            infinite=self.infinite > 0,
            breaks=self.breaks > 0 and not self.swallowed,
            bom=self.bom,
            native=bool(encoding.null),
            nonzero=0 < self.filled == self.integers and (self.low > 0 or self.high < 0),
        )


Types = Callable[[Encoding, Sequence[str]], Mapping[str, str]]
"""The table's type for each column of the source, by its name there, as far as it is known; ""
for one that is not loaded."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be found out.

    Attributes:
        types: columns whose type is known already.
        layout: whether a sorting key will be chosen by what is found.
        names: of all columns of the load, where they are known and each has a type.
    """

    types: Types = lambda encoding, names: {}
    layout: bool = True
    names: frozenset[str] = frozenset()


Groups = dict[tuple[str, tuple[str, ...]], list[int]]
"""Columns, by their place, that are asked for the same facts; and by type, where they have one."""


def grouped(columns: Sequence[Found], encoding: Encoding, wanted: Wanted) -> Groups:
    types = wanted.types(encoding, [column.name for column in columns])
    groups: Groups = {}
    for number, column in enumerate(columns):
        facts = _facts_of(_group(column, encoding), column.nested, encoding)
        if column.name in types:
            type_ = types[column.name]
            needed = _needed(parse_type(type_), encoding, wanted.layout) if type_ else set()
            facts = [name for name in facts if name in needed]
        if facts:
            kind = column.declared if encoding.kind is Kind.TYPED else ""
            groups.setdefault((kind, tuple(facts)), []).append(number)
    return groups


def aggregates(groups: Groups, columns: Sequence[Found], encoding: Encoding) -> str:
    """The beginning of the query: rows, then each fact of each group as an array."""
    everything = _everything(len(columns), encoding)
    text = encoding.kind is Kind.TEXT
    inner, outer = [], ["count()"]
    for number, ((_, facts), members) in enumerate(groups.items()):
        x, t = f"x{number}", f"t{number}"
        inner.append(f"[{', '.join(_value(columns[m]) for m in members)}] AS {x}")
        bare = f"arrayMap(x -> trim(BOTH ' \\t' FROM x), {x})" if text else x
        inner.append(f"{bare} AS {t}")
        for fact in facts:
            aggregate, each = everything[fact]
            outer.append(f"{aggregate}ForEach(arrayMap((x, t) -> {each}, {x}, {t}))")
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM "


def _value(column: Found) -> str:
    x = sql.name(column.name)
    return f"if(startsWith({x}, '{BOM}'), substring({x}, 4), {x})" if column.bom else x


def _group(column: Found, encoding: Encoding) -> str:
    """Which facts are worth asking for."""
    if encoding.kind is Kind.TYPED:
        return "typed"
    if column.nested:
        return "nested"
    if encoding.kind is Kind.TEXT:
        return column.declared or "any"
    base = parse_type(column.declared)
    if base.base == "Bool":
        return "bool"
    # What is written in quotes stays text, even digits; only times and UUIDs have no type in JSON.
    return "number" if base.bits or base.base == "Float64" else "quoted"


def _facts_of(group: str, nested: bool, encoding: Encoding) -> list[str]:
    """Names of the facts that can be found out about a column."""
    if nested or group == "typed":
        return ["nulls", "bytes_each", *([] if nested else ["distinct"])]
    facts = ["nulls", "blanks", "distinct", "bytes_each"]
    if encoding.kind is Kind.TEXT:
        facts += ["marks", "padded"]
        if encoding.is_csv:
            facts += ["breaks", "swallowed"]
    if group in ("number", "any"):
        facts += ["integers", "zeros", "low", "high", "floats", "infinite"]
    if group in ("time", "any", "quoted"):
        facts += ["days", "moments", "with_t", "with_z", "digits", "first", "last"]
    facts += ["booleans"] if group in ("bool", "any") else []
    return facts + (["uuids"] if group in ("uuid", "any", "quoted") else [])


def _needed(target: Type, encoding: Encoding, layout: bool) -> set[str]:
    """Facts that the codec of a known type uses, see :meth:`Found.evidence`, and its width."""
    fixed = bool(target.bits) or target.base in _FIXED
    facts = set() if fixed else {"bytes_each"}
    facts |= {"distinct"} if layout else set()
    if encoding.kind is Kind.TYPED:
        return facts
    facts |= {"nulls", "blanks", "marks", "padded"}
    if target.text:
        facts |= {"breaks", "swallowed"}
    elif target.bits:
        facts |= {"integers", "low", "high", "infinite"}
    elif target.base.startswith("Float"):
        facts |= {"infinite"}
    elif target.base.startswith(("Date", "Time")):
        facts |= {"integers", "days", "with_t", "with_z"}
    return facts


_FIXED = ("Bool", "Date", "Date32", "DateTime", "DateTime64", "UUID", "IPv4", "IPv6", "Float32",
          "Float64", "Decimal", "Enum8")  # fmt: skip


def _everything(width: int, encoding: Encoding) -> dict[str, tuple[str, str]]:
    """Each fact of :class:`Found` as an aggregate of an expression over ``x``, trimmed ``t``."""
    text = encoding.kind is Kind.TEXT
    typed = encoding.kind is Kind.TYPED
    shape = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\\\\.[0-9]+)?Z?$"
    real = "toString(toDate32OrNull(substring(t, 1, 10))) = substring(t, 1, 10)"
    commas = f"countSubstrings(l, {sql.literal(encoding.delimiter)}) = {width - 1}"
    lines = f"arrayCount(l -> {commas}, splitByChar('\\n', ifNull(x, '')))"
    counted = {
        "nulls": "isNull(x) OR x = '\\\\N'" if text else "isNull(x)",
        "blanks": "x = ''",
        "marks": "x = '\\\\N'",
        "padded": "x != t",
        "breaks": "position(x, '\\n') > 0",
        "swallowed": f"position(x, '\\n') > 0 AND {lines} > 1" if width > 1 else "0",
        "integers": "match(t, '^[-+]?[0-9]{1,38}$')",
        "zeros": "match(t, '^[-+]?0[0-9]')",
        "floats": "isNotNull(accurateCastOrNull(t, 'Float64'))",
        # 1e400 is no infinity but a number too large.
        "infinite": "isInfinite(accurateCastOrNull(t, 'Float64')) AND match(t, '(?i)inf')",
        "days": f"length(t) = 10 AND {real}",
        "moments": f"match(t, '{shape}') AND {real}",
        "with_t": f"match(t, '{shape}') AND position(t, 'T') = 11",
        "with_z": f"match(t, '{shape}') AND endsWith(t, 'Z')",
        "booleans": "lower(t) IN ('true', 'false')",
        "uuids": "toString(toUUIDOrNull(t)) = lower(t)",
    }
    return {
        **{name: ("sum", f"toUInt64(ifNull({each}, 0))") for name, each in counted.items()},
        "distinct": ("uniq", "x"),
        "bytes_each": ("avg", "toFloat64(byteSize(x))" if typed else "length(ifNull(x, ''))"),
        "low": ("min", "accurateCastOrNull(t, 'Int128')"),
        "high": ("max", "accurateCastOrNull(t, 'Int128')"),
        "digits": ("max", "length(extract(t, '^.{19}\\\\.([0-9]+)'))"),
        "first": ("min", "nullIf(t, '')"),
        "last": ("max", "t"),
    }
