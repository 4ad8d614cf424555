"""Settings in the profile of a server's user that statements of a load must not be run with.

A profile holds for every statement of its user. A limit that cuts an answer short, or an answer out
of a cache, would let a load decide by half of the journal or store half of a file; others make an
ATTACH fail as long as a replica is away. Such a setting is sent with the value that is needed.
Where it may not be changed, the load is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.model import Constraint
from rowfall.systems.clickhouse.codes import READONLY, SETTING_CONSTRAINT_VIOLATION

Value = str | int

SETTINGS = "SELECT name, readonly, min, max, value FROM system.settings"
"""The question for the profile."""

# By these even the list of settings would be cut or refused, so they are always sent. They are
# older than any server that is supported.
UNCUT: Mapping[str, Value] = {
    "limit": 0,
    "offset": 0,
    "max_result_rows": 0,
    "max_result_bytes": 0,
    "result_overflow_mode": "throw",
    "use_query_cache": 0,
}
# With every statement of a load.
_ALWAYS: Mapping[str, Value] = {
    "limit": 0,
    "offset": 0,
    # Where there are limits, what exceeds them is an error and not a shorter answer.
    "read_overflow_mode": "throw",
    "read_overflow_mode_leaf": "throw",
    "result_overflow_mode": "throw",
    "timeout_overflow_mode": "throw",
    "timeout_overflow_mode_leaf": "throw",
    "allow_ddl": 1,
    # 2 waits for replicas that are away and fails then: an attempt is published all the same, and
    # each further one fails, too. With 0 a DROP PART may not have happened when it returns.
    "alter_sync": 1,
    "use_query_cache": 0,
    # All lines of the journal would be repetitions of the first.
    "insert_deduplication_token": "",
    # Staging and journal would get other columns than their statements say.
    "data_type_default_nullable": 0,
}
# With our own questions only: an INSERT fires views, whose SELECTs mean what the profile says.
_QUESTIONS: Mapping[str, Value] = {
    "join_use_nulls": 0,
    "final": 0,
    "group_by_overflow_mode": "throw",
    "distinct_overflow_mode": "throw",
    "set_overflow_mode": "throw",
    "join_overflow_mode": "throw",
    "sort_overflow_mode": "throw",
}
# With our own questions where it is allowed: journals grow, and these limits raise errors.
_WISHED: Mapping[str, Value] = {"max_result_rows": 0, "max_result_bytes": 0}


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """A setting that has another value than a load needs, and may not be changed.

    Attributes:
        value: "" where it is not known.
        given: with the address of the server, not by the profile.
    """

    name: str
    value: str
    needed: Value
    given: bool = False


@dataclass(frozen=True, slots=True)
class UserProfile:
    """The settings of a server's user.

    Attributes:
        changeable: names of those that may be changed.
        constraints: of those that may not be set to any value.
        statements: what has to be sent with every statement of a load; mostly next to nothing.
        questions: the same for our own questions.
        refused: what a load needs otherwise and cannot have.
    """

    changeable: frozenset[str] = frozenset()
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    statements: Mapping[str, Value] = field(default_factory=dict)
    questions: Mapping[str, Value] = field(default_factory=dict)
    refused: tuple[RefusedSetting, ...] = ()


def read_profile(ask: Callable[..., list[list[Any]]], options: Mapping[str, str]) -> UserProfile:
    """Ask a server what its user's settings are.

    Args:
        ask: takes further settings by name.
        options: settings that are to be sent with every statement.
    """
    try:
        rows = ask(SETTINGS, **as_texts(UNCUT))
    except RowfallError as error:
        if error.code not in (READONLY, SETTING_CONSTRAINT_VIOLATION):
            raise
        # The answer may be cut, so what cuts it is found one by one.
        uncut = {name: value for name, value in UNCUT.items() if _takes(ask, name, value)}
        rows = ask(SETTINGS, **as_texts(uncut))
        fixed = tuple(
            RefusedSetting(name, "", value)  # nor does getSetting() tell them
            for name, value in UNCUT.items()
            if name in _ALWAYS and name not in uncut
        )
    else:
        uncut, fixed = dict(UNCUT), ()
    found = judge(rows, options)
    never = {one.name for one in (*found.refused, *fixed)}
    uncut = {name: value for name, value in uncut.items() if name not in never}
    return replace(
        found,
        statements={**{k: v for k, v in uncut.items() if k in _ALWAYS}, **found.statements},
        questions={**uncut, **found.questions},
        refused=(*found.refused, *(one for one in fixed if one.name not in options)),
    )  # fmt: skip


def judge(rows: Sequence[Sequence[Any]], options: Mapping[str, str]) -> UserProfile:
    """Return the profile of a user.

    Args:
        rows: name, readonly, min, max and value of each setting.
        options: see :func:`read_profile`.
    """
    constraints: dict[str, Constraint] = {}
    values: dict[str, str] = {}
    for name, readonly, least, most, value in rows:
        values[name] = str(value)
        # It cannot be switched on again, whatever the table says.
        fixed = bool(int(readonly)) or (name == "allow_ddl" and str(value) == "0")
        if fixed or least is not None or most is not None:
            constraints[name] = Constraint(str(value), str(least or ""), str(most or ""), fixed)
    changeable = {name for name in values if name not in constraints or not constraints[name].fixed}
    values |= options

    def wrong(wanted: Mapping[str, Value]) -> dict[str, Value]:
        """Return the wanted settings that the server knows and has at another value."""
        return {
            name: value for name, value in wanted.items()
            if name in values and not Constraint(values[name], fixed=True).allows(value)
        }  # fmt: skip

    def may(name: str, value: Value) -> bool:
        return name not in constraints or constraints[name].allows(value)

    refused = tuple(
        RefusedSetting(name, values[name], value, name in options)
        for name, value in wrong({**_ALWAYS, **_QUESTIONS}).items()
        if name in options or not may(name, value)
    )
    never = {one.name for one in refused}
    statements = {k: v for k, v in wrong(_ALWAYS).items() if k not in never}
    questions = {k: v for k, v in wrong(_QUESTIONS).items() if k not in never}
    wished = {k: v for k, v in wrong(_WISHED).items() if may(k, v)}
    return UserProfile(
        frozenset(changeable), constraints, statements, {**statements, **questions, **wished},
        refused,
    )  # fmt: skip


def _takes(ask: Callable[..., list[list[Any]]], name: str, value: Value) -> bool:
    """Tell whether a statement may be run with a setting."""
    try:
        ask("SELECT 1", **as_texts({name: value}))
    except RowfallError as error:
        if error.code not in (READONLY, SETTING_CONSTRAINT_VIOLATION):
            raise
        return False
    return True


def as_texts(settings: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items()}
