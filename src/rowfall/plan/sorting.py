"""Decides whether blocks are sorted before they are sent, and by what. Pure."""

from __future__ import annotations

import re

from rowfall.contracts.facts import LoadFacts
from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.model import (
    ENGINE,
    Choice,
    Schema,
    Sorting,
)
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.engines.base import ExistingTable
from rowfall.plan import decoding, keys

_TUPLE = regex(r"(?:tuple)?\((.*)\)", re.S)


def sorting_key(schema: Schema, existing: ExistingTable | None) -> str:
    """Return ``a, b``: the key of the table that is there, or of the one that will be made."""
    if schema.exists:
        return existing.sorting_key if existing else ""
    order = schema.layout.order_by
    found = _TUPLE.fullmatch(order.strip())
    return found[1] if found else order


def sorted_elements(facts: LoadFacts) -> tuple[str, ...]:
    """Return the elements of the key by which rowfall-decode sorts the rows of parts."""
    names = {column.name for column in facts.schema.columns}
    listed = keys.sorting_elements(sorting_key(facts.schema, facts.table.existing))
    named = ((sql.identifier(element), element) for element in listed)
    return tuple(name if name in names else element for name, element in named)


def choose_sorting(facts: LoadFacts, options: Options, parser: Choice) -> Sorting:
    """Decide which columns rowfall-decode sorts blocks by, before they are sent.

    ``auto`` sorts wherever it can: that took less CPU in all that was measured
    (:func:`rowfall.plan.decoding.sort_columns`).

    Raises:
        UsageError: ``--presort on``, and it cannot.
    """
    wish = options.presort
    if wish == "off":
        return Sorting("unsorted", "--presort off")
    found: tuple[int, ...] = ()
    if parser.value == ENGINE:
        why = f"the engine parses: {parser.reason}"
    elif not facts.destination.makes_parts:
        why = "rows go into no table"
    else:
        key = sorting_key(facts.schema, facts.table.existing)
        found = decoding.sort_columns(key, facts.schema)
        if facts.schema.projection is not None:
            found = ()
        why = f"the table's key is ({key}), not just flat columns of the load" if key else ""
        why = why or "the table has no key"
        if facts.schema.projection is not None:
            why = "the engine selects the columns"
    if found:
        names = tuple(facts.schema.columns[n].name for n in found)
        return Sorting("sorted", "the engine would spend more CPU on its own sort", names)
    if wish == "auto":
        return Sorting("unsorted", why)
    raise UsageError(f"blocks cannot be sorted: {why}", hint="Leave out --presort on.")
