"""Find what has landed under another name of the same object: older names, other tokens.

The name of an object behind HTTP holds a digest of the secrets in its address
(:func:`rowfall.core.uri.object_name`). Names of older ledgers hold none, and signatures in full.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from rowfall.core import uri
from rowfall.core.errors import LedgerError
from rowfall.core.events import Note
from rowfall.core.listing import MARK, Split, split_id
from rowfall.plan.session import Session
from rowfall.sources.http import has_validator

_RANGE = re.compile(r"(.*)\[(\d+):(\d+)\]")


def landed_under_other_names(session: Session, known: Collection[str]) -> set[str]:
    """Return the ids of listed objects, and of ranges of them, that have landed by another name.

    Args:
        known: ids that have landed.

    Raises:
        LedgerError: a name of an older ledger may be that of several objects.
    """
    listing, key = session.listing, session.target_key
    if not known or uri.scheme_of(listing.uri(0)) not in ("http", "https"):
        return set()
    listed: dict[tuple[str, str], list[Split]] = defaultdict(list)
    for split in listing.splits(key):
        listed[uri.without_secrets(split.uri), split.version].append(split)
    names = _names(session)
    found: dict[str, Split] = {}
    ids: set[str] = set()
    for (shared, version), splits in listed.items():
        by_name: dict[str, set[str]] = {}
        for name, start, stop in names.get(shared, _without_digest(splits)):
            old = split_id(name, version, start, stop, key)
            whole = split_id(name, version, None, None, key)
            if old not in known or name == splits[0].uri:
                continue
            new = by_name.setdefault(name, set())
            new.add(split_id(splits[0].uri, version, start, stop, key))
            if f"{MARK}{whole}" in known:
                new.add(f"{MARK}{splits[0].id}")
        if not by_name or all(split.id in known for split in splits):
            continue
        older = any("#" not in name for name in by_name)
        if len(splits) > 1 and older and "#" in splits[0].uri:
            raise _ambiguous(shared, len(splits))
        # Equal validators of several addresses tell nothing: none of them counts for another.
        if len(splits) == 1 and (older or (len(by_name) == 1 and has_validator(version))):
            ids |= set().union(*by_name.values())
            found[shared] = splits[0]
    if found:
        session.emit(Note("warning", _counted(list(found))))
    return ids


def _names(session: Session) -> dict[str, list[tuple[str, int | None, int | None]]]:
    """Return names and ranges of what has landed, by what :func:`uri.without_secrets` leaves."""
    names = defaultdict(list)
    if session.ledger is not None:
        for text in session.ledger.landed_uris(session.target_key):
            cut = _RANGE.fullmatch(text)
            name = cut[1] if cut else text
            start, stop = (int(cut[2]), int(cut[3])) if cut else (None, None)
            names[uri.without_secrets(name)].append((name, start, stop))
    return names


def _without_digest(splits: Sequence[Split]) -> list[tuple[str, int | None, int | None]]:
    """Return the name that an older rowfall gave: the journal of another machine has ids only."""
    return [(splits[0].uri.partition("#")[0], None, None)]


def _counted(names: Sequence[str]) -> str:
    some = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    return (
        f"{some}: loaded before from an address that differs in its secrets or signature only, "
        "with the same ETag or size and time; counts as loaded"
    )


def _ambiguous(name: str, count: int) -> LedgerError:
    return LedgerError(
        f"one of {count} addresses {name} was loaded by an older rowfall, which did not tell apart "
        "what differs in secrets only",
        hint="Look at the table which one it was. Then load the others one by one with --force, or "
        "rowfall forget that load, delete its rows, and load all.",
    )
