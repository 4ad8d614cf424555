"""Rules for keys of tables that are more than plain columns. Pure.

rowfall-decode asks the engine for the values of a partition key, once for each class of rows: those
with the same values of the columns that the key uses, or such as the key does not tell apart
(crates/rowfall-decode/src/partition). A key by months of a time has a class for each quarter of an
hour then, and not one for each second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column
from rowfall.core.type_names import parse_type

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
_CALL = re.compile(r"(\w+)\((`[^`\\]+`|\w+)(?:, (\d+))?\)")
_MODULO = re.compile(r"(`[^`\\]+`|\w+) % (\d+)")
# The engine computes partition keys with a modulo of its own, whose results have other types.
_ANY_MODULO = frozenset({"%", "mod", "modulo", "positiveModulo", "MOD"})
# Which give another value for the same row, or look elsewhere.
_UNSTEADY = re.compile(
    r"(now|today|yesterday|rand|generate|dictGet|joinGet|getSetting|getMacro|rowNumber|hostName|"
    r"currentDatabase|serverUUID|timeZone|timezone|uptime|version|lambda|arrayMap|IN$|in$)"
)
_NULLS = frozenset({"ifNull", "coalesce", "isNull", "isNotNull", "assumeNotNull"})
_DIVISOR = 1 << 62


@dataclass(frozen=True, slots=True)
class Used:
    """A column that an expression uses.

    Attributes:
        floor, modulo, divide: what the expression does not tell apart; see ``KeyColumn`` in
            ``crates/rowfall-decode/src/spec.rs``.
    """

    index: int
    floor: int = 0
    modulo: int = 0
    divide: int = 0

    def document(self) -> dict[str, int]:
        steps = {"floor": self.floor, "modulo": self.modulo, "divide": self.divide}
        return {"index": self.index, **{name: by for name, by in steps.items() if by}}


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition key that the decoder can follow.

    Attributes:
        elements: the expressions, as the engine computes them for parts.
    """

    elements: tuple[str, ...]
    used: tuple[Used, ...]


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
    """Return how rows find their partitions, or why only the engine can tell, as half a sentence.

    Args:
        key: as the engine has it.
        columns: of the load; ``others``: names of the table's, these among them.
    """
    found: dict[str, list[Used]] = {}
    computed = []
    by_name = {column.name: n for n, column in enumerate(columns)}
    for element in elements(key):
        words = sql.tokens(element)
        names = [sql.identifier(word) for word in words]
        calls = {names[i] for i in range(len(words) - 1) if words[i + 1] == "("}
        own = [n for i, n in enumerate(names) if n in by_name and words[i + 1 : i + 2] != ["("]]
        if missing := sorted({*others} & {*names} - {*by_name}):
            return f"the partition key uses {missing[0]}, which the load does not fill"
        unsteady = [name for name in calls if name and _UNSTEADY.match(name)]
        if unsteady or "->" in element:
            return f"the partition key uses {unsteady[0] if unsteady else 'a lambda'}"
        use, text = _use(element, by_name, columns)
        if use is None and _ANY_MODULO & {*words}:
            return f"the engine computes {element} of a partition key by a rule of its own"
        computed.append(text)
        for name in own:
            column = columns[by_name[name or ""]]
            type_ = parse_type(column.type)
            if type_.base.startswith(("Float", "BFloat")):
                return f"the partition key uses floats ({column.name})"
            if type_.nested:
                return f"the partition key uses nested values ({column.name})"
            if "Nullable" in column.type and not calls & _NULLS:
                return f"the partition key may be NULL ({column.name})"
            found.setdefault(column.name, []).append(use or Used(by_name[column.name]))
    used = [ways[0] if len(set(ways)) == 1 else Used(ways[0].index) for ways in found.values()]
    if not used:
        return "the partition key uses no column of the load"
    return PartitionKey(tuple(computed), tuple(used))


def _use(
    element: str, by_name: dict[str, int], columns: Sequence[Column]
) -> tuple[Used | None, str]:
    """Return what an expression does not tell apart, None for any; and as it is computed."""
    call, modulo = _CALL.fullmatch(element), _MODULO.fullmatch(element)
    if modulo is None and call is not None and call[1] in ("modulo", "mod") and call[3]:
        modulo = re.fullmatch(r"(.*) % (.*)", f"{call[2]} % {call[3]}")
    match = modulo or call
    name = sql.identifier(match[1 if modulo else 2]) if match else None
    if match is None or name not in by_name:
        return None, element
    used, base = Used(by_name[name]), parse_type(columns[by_name[name]].type).base
    whole = re.fullmatch(r"U?Int(8|16|32|64)", base) is not None
    if modulo is not None:
        by = int(modulo[2])
        if not whole or not 0 < by < _DIVISOR:
            return None, element
        return replace(used, modulo=by), f"moduloLegacy({modulo[1]}, {by})"
    assert call is not None  # noqa: S101 - one of both has matched
    if call[1] == "intDiv" and call[3] and whole and 0 < int(call[3]) < _DIVISOR:
        return replace(used, divide=int(call[3])), element
    if call[1] in _TIME_FUNCTIONS and base in ("DateTime", "DateTime64"):
        scale = (
            re.match(r"\d+", parse_type(columns[used.index].type).args) if "64" in base else None
        )
        return replace(used, floor=QUARTER * 10 ** int(scale[0] if scale else 0)), element
    return None, element
