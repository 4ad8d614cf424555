"""Rules for keys of tables that are more than plain columns. Pure.

rowfall-decode asks the engine for the values of a partition key, once for each class of rows: those
with the same values of the columns that the key uses, or such as the key does not tell apart
(crates/rowfall-decode/src/partition). A key by months of a time has a class for each quarter of an
hour then, and not one for each second.

Expressions of a sorting key are asked for in the same way, or for all rows of a block at once
(crates/rowfall-decode/src/computed.rs).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column, Kind
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import parse_type
from rowfall.decoder.documents import ComputedKeys, KeyColumn, KeyExpression
from rowfall.decoder.installed import PROGRAM
from rowfall.schema.types.strict_reading import strict_column

# All zones that the decoder knows have had offsets of whole quarters of an hour since 1970.
QUARTER = 900
# Functions of one point in time that are the same for each quarter of an hour.
_TIME_FUNCTIONS = frozenset((
    "toDate", "toDate32", "toYear", "toQuarter", "toMonth", "toDayOfYear", "toDayOfMonth",
    "toDayOfWeek", "toHour", "toStartOfYear", "toStartOfISOYear", "toStartOfQuarter",
    "toStartOfMonth", "toStartOfWeek", "toMonday", "toStartOfDay", "toStartOfHour",
    "toStartOfFifteenMinutes", "toLastDayOfMonth", "toYYYYMM", "toYYYYMMDD", "toISOYear",
    "toISOWeek", "toWeek", "toYearWeek",
))  # fmt: skip
# Seconds in which others are the same: not each quarter begins with ten minutes.
_MINUTE_FUNCTIONS = {
    "toStartOfTenMinutes": 300, "toStartOfFiveMinutes": 300, "toStartOfFiveMinute": 300,
    "toStartOfMinute": 60, "toMinute": 60,
}  # fmt: skip
_INTERVAL = regex(
    r"(toStartOfInterval)\((`[^`\\]+`|\w+), "
    r"toInterval(Minute|Hour|Day|Week|Month|Quarter|Year)\((\d+)\)\)"
)
_CALL = regex(r"(\w+)\((`[^`\\]+`|\w+)(?:, (\d+))?\)")
_MODULO = regex(r"(`[^`\\]+`|\w+) % (\d+)")
# The engine computes partition keys with a modulo of its own, whose results have other types.
_ANY_MODULO = frozenset({"%", "mod", "modulo", "positiveModulo", "MOD"})
# Which give another value for the same row, or look elsewhere.
_UNSTEADY = regex(
    r"(now|today|yesterday|rand|generate|dictGet|joinGet|getSetting|getMacro|rowNumber|hostName|"
    r"currentDatabase|serverUUID|timeZone|timezone|uptime|version|lambda|arrayMap|IN$|in$)"
)
_NULLS = frozenset({"ifNull", "coalesce", "isNull", "isNotNull", "assumeNotNull"})
_DIRECTIONS = frozenset({"ASC", "DESC"})
_DIVISOR = 1 << 62


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition key that the decoder can follow.

    Attributes:
        elements: the expressions, as the engine computes them for parts.
        nullable: one of them may be NULL.
    """

    elements: tuple[str, ...]
    used: tuple[KeyColumn, ...]
    nullable: bool = False

    def question_of_types(self, rows: SqlText) -> SqlText:
        """Return a DESCRIBE that gives a row for each element, its type second.

        Args:
            rows: a query of values of the columns.
        """
        values = ", ".join(self.elements)
        return SqlText.of(f"DESCRIBE TABLE (SELECT {values} FROM (", rows, "))")

    def identifier(self, types: Sequence[str] = ()) -> str | None:
        """Return the expression for the name of a partition; None where nobody else computes it.

        ``partitionId`` gives NULL where an element is NULL, so the engine's own hash of the key is
        made of its bytes.

        Args:
            types: of the elements, if one may be NULL.
        """
        if not self.nullable:
            return f"partitionId({', '.join(self.elements)})"
        values, hashed = [], []
        for element, type_ in zip(self.elements, types, strict=True):
            field = _field(type_)
            if field is None:
                return None
            function = field[1]
            # The type, too: the name of a Date that may be NULL is the number of its day.
            nullable = "Nullable(" in type_
            values.append(f"{function}({element})" if nullable and function else element)
            bytes_ = _hashed(element, *field)
            hashed.append(f"if(isNull({element}), char(0), {bytes_})" if nullable else bytes_)
        # The empty string is there because one argument is not enough for concat.
        together = f"concat('', {', '.join(hashed)})"
        return f"ifNull(partitionId({', '.join(values)}), lower(hex(sipHash128({together}))))"


@dataclass(frozen=True, slots=True)
class Expression:
    """An element of a sorting key that is not a column.

    Attributes:
        text: as the engine has it.
        type: of its values, without what means nothing for their order: ``LowCardinality`` and
            time zones.
        made: with another type than the engine would give it.
    """

    text: str
    used: tuple[KeyColumn, ...]
    type: str = ""
    made: bool = False

    @property
    def value(self) -> str:
        """Return the expression as it is asked for."""
        return f"CAST({self.text}, {sql.literal(self.type)})" if self.made else self.text


@dataclass(frozen=True, slots=True)
class SortingKey:
    """A sorting key that the decoder can follow.

    Attributes:
        elements: indexes of columns, and expressions of them.
    """

    elements: tuple[int | Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(e for e in self.elements if isinstance(e, Expression))

    def places(self, columns: int) -> tuple[int, ...] | None:
        """Return the numbers of the elements: expressions follow so many columns; None for none."""
        numbers = itertools.count(columns)
        return tuple(e if isinstance(e, int) else next(numbers) for e in self.elements) or None

    def computed(self, file: str) -> ComputedKeys | None:
        """Return the expressions for rowfall-decode; ``file`` begins the names of files."""
        if not self.expressions:
            return None
        return ComputedKeys(file, tuple(KeyExpression(e.type, e.used) for e in self.expressions))


def sorting_elements(key: str) -> list[str]:
    """Return the elements of a sorting key: ``a, f(b)``, with brackets around it or without."""
    found = elements(f"({key})")
    return elements(found[0]) if len(found) == 1 else found


def is_reversed(element: str) -> bool:
    """Tell whether an element of a sorting key says in which direction rows are sorted by it."""
    return sql.tokens(element)[-1].upper() in _DIRECTIONS


def elements(key: str) -> list[str]:
    """Return the expressions of a key: those of a tuple, or the one that it is."""
    words = sql.tokens(key.strip())
    start = 1 if words[:2] == ["tuple", "("] else 0
    if words and words[start : start + 1] == ["("] and sql.closing(words, start) == len(words) - 1:
        return sql.items(words[start + 1 : -1])
    return ["".join(words)] if words else []


def partition_key(
    key: str, columns: Sequence[Column], others: Collection[str] = ()
) -> PartitionKey | str:
    """Return a partition key that can be computed here, or a clause: why only the engine can.

    Args:
        key: as the engine has it.
        columns: of the load; ``others``: names of the table's, these among them.
    """
    found: dict[str, list[KeyColumn]] = {}
    computed = []
    nullable = False
    by_name = {column.name: n for n, column in enumerate(columns)}
    for element in elements(key):
        own, calls, why = _names(element, by_name, others)
        if why:
            return f"the partition key {why}"
        use, text = _use(element, by_name, columns)
        if use is None and _ANY_MODULO & {*sql.tokens(element)}:
            return f"the engine computes {element} of a partition key by a rule of its own"
        computed.append(text)
        for name in own:
            column = columns[by_name[name]]
            type_ = parse_type(column.type)
            if type_.base.startswith(("Float", "BFloat")):
                return f"the partition key uses floats ({column.name})"
            if type_.nested:
                return f"the partition key uses nested values ({column.name})"
            if "Nullable" in column.type and not calls & _NULLS:
                nullable = True
            found.setdefault(column.name, []).append(use or KeyColumn(by_name[column.name]))
    used = [ways[0] if len(set(ways)) == 1 else KeyColumn(ways[0].index) for ways in found.values()]
    if not used:
        return "the partition key uses no column of the load"
    if nullable:
        plain = [columns[by_name[n]] for n in map(sql.identifier, elements(key)) if n in by_name]
        for column in plain:
            if _field(column.type) is None:
                return f"a partition key of {column.type} may be NULL"
    return PartitionKey(tuple(computed), tuple(used), nullable)


@dataclass(frozen=True, slots=True)
class ShardUse:
    """How the shards of rows are found by a sharding key.

    Attributes:
        hash: function of the column that rowfall-decode computes, "" for its value; None where the
            engine computes the key, for each class of rows.
        column: index of that column; ``used``: of the engine's expression.
    """

    hash: str | None = None
    column: int = 0
    used: tuple[KeyColumn, ...] = ()


# What rowfall-decode computes as the engine does: of whole numbers, and of texts.
_NUMBER_HASHES = frozenset({"", "intHash32", "intHash64", "cityHash64", "sipHash64", "xxHash64"})
_TEXT_HASHES = frozenset({"cityHash64", "sipHash64", "xxHash64"})
_HASHED_NUMBER = regex(r"U?Int(8|16|32|64)|Bool|Date|DateTime")
# Of few values, so that the engine is asked for the shard of each.
_FEW = regex(r"U?Int(8|16)|Enum(8|16)|Bool|Date|Date32")


def shard_use(key: str, columns: Sequence[Column]) -> ShardUse | str:
    """Return how rowfall-decode finds the shards of rows, or a clause: why it cannot.

    Args:
        key: expression of a Distributed table, of which the remainder says the shard.
        columns: of the load.
    """
    by_name = {column.name: n for n, column in enumerate(columns)}
    found = elements(key)
    if len(found) != 1:
        return f"{PROGRAM} does not compute the sharding key {key}"
    element = found[0]
    call = _CALL.fullmatch(element)
    function, name = ("", sql.identifier(element))
    if call is not None and call[3] is None:
        function, name = call[1], sql.identifier(call[2])
    if name in by_name and function in _NUMBER_HASHES:
        type_ = parse_type(columns[by_name[name]].type)
        texts = type_.base == "String" and function in _TEXT_HASHES
        if not type_.nullable and (texts or _HASHED_NUMBER.fullmatch(type_.base)):
            return ShardUse(function, by_name[name])
    own, _, why = _names(element, by_name, ())
    if why:
        return f"the sharding key {why}"
    use, _ = _use(element, by_name, columns)
    if use is not None:
        return ShardUse(used=(use,))
    few = [n for n in own if _FEW.fullmatch(parse_type(columns[by_name[n]].type).base)]
    if len(own) == len(few) == 1:
        return ShardUse(used=(KeyColumn(by_name[own[0]]),))
    return f"{PROGRAM} does not compute the sharding key {key}"


_UNSIGNED = regex(r"UInt(8|16|32|64)|Bool|Date|DateTime")
_SIGNED = regex(r"Int(8|16|32|64)|Enum(8|16)|Date32")


def _field(type_: str) -> tuple[int, str] | None:
    """Return the engine's number of what it keeps values of a partition key in, and how to get it.

    The function is "" for texts. None for types whose hash is only made by the engine.
    """
    base = parse_type(type_).base
    if _UNSIGNED.fullmatch(base):
        return 1, "toUInt64"
    if _SIGNED.fullmatch(base):
        return 2, "toInt64"
    return (16, "") if base in ("String", "FixedString") else None


def _hashed(element: str, number: int, function: str) -> str:
    """Return the bytes that the engine hashes of an element of a partition key that is not NULL."""
    value = f"assumeNotNull({element})"
    if function:
        return f"formatRow('RowBinary', toUInt8({number}), {function}({value}))"
    length = f"formatRow('RowBinary', toUInt8({number}), toUInt64(length({value})))"
    return f"concat({length}, {value})"


def sorting_key(
    key: str, columns: Sequence[Column], others: Collection[str] = (), types: Sequence[str] = ()
) -> SortingKey | str:
    """Return a sorting key that rows can be sorted by here, or a clause: why only the engine can.

    Args:
        key: as the engine has it.
        columns: of the load; ``others``: names of the table's, these among them.
        types: of the key's elements; empty where the engine was not asked for them.
    """
    found: list[int | Expression] = []
    by_name = {column.name: n for n, column in enumerate(columns)}
    listed = sorting_elements(key)
    for number, element in enumerate(listed):
        if is_reversed(element):
            return f"its key is reversed ({element})"
        own, _, why = _names(element, by_name, others)
        if why:
            return f"its key {why}"
        nested = [n for n in own if parse_type(columns[by_name[n]].type).nested]
        if nested:
            return f"its key uses nested values ({nested[0]})"
        if own and sql.identifier(element) in by_name:
            found.append(by_name[own[0]])
            continue
        if not own:
            return f"its key uses no column of the load in {element}"
        if len(types) != len(listed):
            return f"the engine does not tell the type of {element} in its key"
        type_ = _sorted_type(types[number])
        if type_ is None:
            return f"only the engine sorts by {types[number]} ({element} in its key)"
        use, _ = _use(element, by_name, columns)
        used = [use] if use else [KeyColumn(by_name[name]) for name in dict.fromkeys(own)]
        found.append(Expression(element, tuple(used), type_, type_ != types[number]))
    return SortingKey(tuple(found))


def _sorted_type(type_: str) -> str | None:
    """Return the type by which values of another one are sorted; None where the engine sorts."""
    kind = parse_type(type_)
    bare = kind.bare
    if kind.base == "DateTime64":
        bare = f"DateTime64({kind.args.partition(',')[0]})"
    elif kind.base == "DateTime":
        bare = "DateTime"
    if kind.nested or strict_column("v", "v", bare, Kind.TEXT).notation is None:
        return None
    return f"Nullable({bare})" if kind.nullable else bare


def question_of_types(key: str, columns: Sequence[Column]) -> str | None:
    """Return a DESCRIBE that gives a row for each element of a sorting key, its type second.

    None where all elements are columns, whose types are known.
    """
    listed = sorting_elements(key)
    if {sql.identifier(element) for element in listed} <= {column.name for column in columns}:
        return None
    given = sql.literal(sql.structure([(column.name, column.type) for column in columns]))
    return f"DESCRIBE TABLE (SELECT {', '.join(listed)} FROM null({given}))"


def key_name(number: int) -> str:
    """Return the column name under which values of a key's expression reach the decoder."""
    return f"key {number}"


def _names(
    element: str, by_name: Collection[str], others: Collection[str]
) -> tuple[list[str], set[str], str]:
    """Return the columns of the load that an expression uses, what it calls, and why it is refused.

    Args:
        others: names of the table's columns.
    """
    words = sql.tokens(element)
    names = [sql.identifier(word) for word in words]
    calls = {names[i] or "" for i in range(len(words) - 1) if words[i + 1] == "("}
    own = [n for i, n in enumerate(names) if n in by_name and words[i + 1 : i + 2] != ["("]]
    why = ""
    unsteady = [name for name in calls if _UNSTEADY.match(name)]
    if missing := sorted(({*others} & {*names}) - {*by_name}):
        why = f"uses {missing[0]}, which the load does not fill"
    elif unsteady or "->" in element:
        why = f"uses {unsteady[0] if unsteady else 'a lambda'}"
    return [n for n in own if n], calls, why


def _use(
    element: str, by_name: dict[str, int], columns: Sequence[Column]
) -> tuple[KeyColumn | None, str]:
    """Return the rounding of a column that an expression does, and the expression to compute.

    None for the rounding where nothing is known of which values give the same key.
    """
    call = _CALL.fullmatch(element) or _INTERVAL.fullmatch(element)
    modulo = _MODULO.fullmatch(element)
    if modulo is None and call is not None and call[1] in ("modulo", "mod") and call[3]:
        modulo = re.fullmatch(r"(.*) % (.*)", f"{call[2]} % {call[3]}")
    match = modulo or call
    name = sql.identifier(match[1 if modulo else 2]) if match else None
    if match is None or name not in by_name:
        return None, element
    used, base = KeyColumn(by_name[name]), parse_type(columns[by_name[name]].type).base
    whole = re.fullmatch(r"U?Int(8|16|32|64)", base) is not None
    if modulo is not None:
        by = int(modulo[2])
        if not whole or not 0 < by < _DIVISOR:
            return None, element
        return replace(used, modulo=by), f"moduloLegacy({modulo[1]}, {by})"
    assert call is not None  # noqa: S101 - one of both has matched
    if call[1] == "intDiv" and call[3] and whole and 0 < int(call[3]) < _DIVISOR:
        return replace(used, divide=int(call[3])), element
    step = QUARTER if call[1] in _TIME_FUNCTIONS else _MINUTE_FUNCTIONS.get(call[1], 0)
    if call[1] == "toStartOfInterval" and call.re is _INTERVAL:
        step = math.gcd(QUARTER, 60 * int(call[4])) if call[3] == "Minute" else QUARTER
    if step and base in ("DateTime", "DateTime64"):
        scale = (
            re.match(r"\d+", parse_type(columns[used.index].type).args) if "64" in base else None
        )
        return replace(used, floor=step * 10 ** int(scale[0] if scale else 0)), element
    return None, element
