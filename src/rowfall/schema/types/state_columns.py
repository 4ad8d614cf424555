"""Columns of aggregate states: no value of a file is one, and ``--select`` makes one of it.

Eight digits of a CSV are the eight bytes of a sum, too: 20240101 was stored as 3544386989844475954.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowfall.core import sql
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import arguments, parse_type
from rowfall.schema.bad_rows.data_errors import plain_name, shell_word, type_options
from rowfall.schema.column_facts import ColumnFacts, RunSelect

_STATE = "AggregateFunction"


def check_states(
    columns: Sequence[Column], found: Sequence[ColumnFacts], encoding: Encoding, ask: RunSelect
) -> None:
    """Check that columns of states are read from states.

    Raises:
        TargetError: what is read are values; the hint has been tried with their types.
    """
    typed = encoding.kind in (Kind.TYPED, Kind.MADE)
    declared = {facts.source: facts.declared.read for facts in found}
    states = [
        column
        for column in columns
        if parse_type(column.type).base == _STATE
        and not (typed and parse_type(declared.get(column.source, "")).base in (_STATE, ""))
    ]
    if not states:
        return
    listed = ", ".join(f"{column.name} {column.type}" for column in states)
    made = _selected(states, [column.source or column.name for column in columns], ask)
    raise TargetError(
        f"the table keeps aggregate states, and files hold values: {listed}",
        hint=f"Make states of the values: {made}"
        if made
        else "Load the rows into a table of their own with --table NAME, and let INSERT SELECT "
        "with the -State functions make states of them.",
    )


def _selected(states: Sequence[Column], names: Sequence[str], ask: RunSelect) -> str | None:
    """Return the options that make states of values; None where one value makes none."""
    taken = {column.source: parse_type(column.type).args for column in states}
    values: dict[str, str] = {}
    for source, args in taken.items():
        _, *held = arguments(args)
        if len(held) != 1:  # versions, count(), argMax(a, b)
            return None
        values[source] = held[0]
    wanted = {column.name: column.type for column in states}
    types = [(name, values.get(name, "String")) for name in names]
    select = tried_select(
        list(values), lambda named: [
            f"initializeAggregation({_function(taken[column.source])}, {named(column.source)}) AS "
            f"{named(column.name)}"
            for column in states
        ], types, wanted, ask,
    )  # fmt: skip
    return None if select is None else f"{type_options(list(values.items()))} {select}"


def _function(args: str) -> str:
    """Return the name of the function that makes a state, with its parameters, as a string."""
    name, mark, parameters = arguments(args)[0].partition("(")
    return quote(f"{name}State{mark}{parameters}")


def tried_select(
    without: Sequence[str], expressions: Callable[[Callable[[str], str]], Sequence[str]],
    types: Sequence[tuple[str, str]], wanted: Mapping[str, str], ask: RunSelect,
) -> str | None:  # fmt: skip
    """Return a ``--select`` that the engine accepts, with expressions instead of some columns.

    Args:
        expressions: returns them, given what writes a name.
        types: of the columns of the source.
        wanted: types of some that it has to give.
    """
    rows = quote(sql.structure(types))
    for named in (plain_name, sql.name):  # a word of SQL needs quotes, too
        text = ", ".join((f"* EXCEPT ({', '.join(map(named, without))})", *expressions(named)))
        try:
            found = ask(SqlText.of(f"DESCRIBE TABLE (SELECT {text} FROM null({rows}))"), _NAMES)
        except RowfallError:
            continue
        given = {str(row[0]): str(row[1]).replace(" ", "") for row in found}
        if all(given.get(name) == type_.replace(" ", "") for name, type_ in wanted.items()):
            return f"--select {shell_word(text)}"
    return None


_NAMES = {"print_pretty_type_names": 0}
