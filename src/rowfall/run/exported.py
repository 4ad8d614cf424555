"""Find the table that ``rowfall export`` names: the SOURCE argument that loads it alone."""

from __future__ import annotations

from contextlib import closing

from rowfall.core import tables as many
from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.sources.many import FolderOfTables, open_tables


def address_of(table: str, place: str, options: Options) -> str:
    """Return the address of one table of a source with tables.

    Args:
        table: its name, perhaps with its schema in front. ``place``: the source.

    Raises:
        UsageError: there is none of that name, or several. SourceError: it cannot be reached.
    """
    with closing(open_tables(place, options)) as tables:
        if isinstance(tables, FolderOfTables):
            return tables.address_by_name(table)
        found = many.choose(tables.list_tables(), [table], [], tables.text).tables
        if len(found) > 1:
            names = ", ".join(each.full for each in found)
            raise UsageError(
                f"{uri.mask(place)} has {len(found)} tables {table}: {names}",
                hint=f"Name one with its schema, as in {found[0].full}.",
            )
        return tables.address(found[0])
