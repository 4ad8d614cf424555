"""Loads of some rows of a source (``--limit``, ``--sample``), and what is on record of them.

The id of a split tells which of its rows are loaded, so what such a load has loaded counts for no
other one. That the table holds some rows of a file is on record as a mark of the file: a load of
the others would store these once more, so it asks before it reads anything.
"""

from __future__ import annotations

from rowfall.contracts.destination import LoadRun, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core import units
from rowfall.core.errors import LedgerError
from rowfall.core.listing import MARK, Split, partial_mark, range_of, split_id
from rowfall.core.options import ERROR, LOAD, projection_of
from rowfall.destinations.questions import about_load, command_of
from rowfall.run.adopt import record_splits


def partial_question(session: Session, facts: LoadFacts) -> LedgerError | None:
    """Return the question of a load that would store rows of the table once more; None for none.

    They came by a load of some rows of its files; or it is one, and all of them are there.
    """
    options = session.options
    if (
        options.force or options.force_append or options.gathers_anew or not facts.known
        or options.on_conflict != ERROR or not session.destination.adopts(session.target)
    ):  # fmt: skip
        return None
    found = _loaded_whole(session, facts) if options.partial else {}
    how = "with all of their rows" if found else "with some of their rows, by --limit or --sample"
    found = found or _loaded_in_part(session, facts)
    if not found:
        return None
    names = list(dict.fromkeys(found.values()))
    some = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    ledger = session.ledger
    by = ledger.loaded_by_load(session.target_key, found) if ledger is not None else {}
    commands = [about_load(session, "undo", load_id[:8], "--yes") for load_id in by]
    undo = "".join(f"Take them out again first: {command}\n" for command in commands)
    return LedgerError(
        f"{session.table_text} would get rows twice: of {units.counted(len(names), 'file')} of "
        f"this load it holds rows already, {how} ({some})",
        hint=f"{undo}In place of all rows of the table: {command_of(session, LOAD, '--replace')}\n"
        "Into a table of its own: --table NAME.\n"
        f"To be there twice: {command_of(session, LOAD, '--force-append')}",
    )


def mark_partial(load: LoadRun, facts: LoadFacts) -> None:
    """Record that the table holds, or is going to hold, some rows of the files of a load."""
    session = load.session
    if not session.options.partial or not session.destination.adopts(session.target):
        return
    new: dict[str, Split] = {}
    for index in facts.todo:
        whole, own = _ids(session, facts, index)
        uri, version = facts.listing.name_and_version(index)
        name = f"{uri} ({session.options.partial})"
        for id_ in (partial_mark(whole), partial_mark(own)):
            if id_ not in facts.known:
                new[id_] = Split(id_, name, version, None)
    if new:
        record_splits(session, load.ledger, load.id, f"{load.id}_0", list(new.values()))


def _ids(session: Session, facts: LoadFacts, index: int) -> tuple[str, str]:
    """Return the ids of a file or stream with all of its rows, and with those of this load."""
    split = facts.listing.split(index, session.target_key)
    ends = (None, None) if split.continued else (split.start, split.stop)
    whole = projection_of(session.options, partial=False)
    named = facts.listing.name_and_version(index)
    return split_id(*named, *ends, session.target_key, whole), split.whole or split.id


def _loaded_in_part(session: Session, facts: LoadFacts) -> dict[str, str]:
    """Return files of which loads of another kind have loaded some rows, by their marks."""
    found = {}
    for index in facts.todo:
        whole, own = map(partial_mark, _ids(session, facts, index))
        if whole in facts.known and (whole == own or own not in facts.known):
            found[whole] = facts.listing.uri(index)
    return found


def _loaded_whole(session: Session, facts: LoadFacts) -> dict[str, str]:
    """Return files that are loaded with all of their rows, by an id that says so."""
    found = {}
    ranges = {one[0]: id_ for id_ in facts.known if (one := range_of(id_)) is not None}
    for index in facts.todo:
        id_, _ = _ids(session, facts, index)
        for there in (id_, f"{MARK}{id_}", ranges.get(id_)):
            if there in facts.known:
                found[str(there)] = facts.listing.uri(index)
    return found
