"""Find what is loaded under another name of the same object: older names, other tokens, links.

The name of an object behind HTTP holds a digest of the secrets in its address
(:func:`rowfall.core.uri.object_name`). Names of older ledgers hold none, and signatures in full, or
show all parameters that do not sound like secrets (:func:`rowfall.core.uri.former_name`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from rowfall.contracts.destination import Session
from rowfall.core import units, uri
from rowfall.core.errors import LedgerError
from rowfall.core.events import Note
from rowfall.core.listing import MARK, Listing, Split, split_id
from rowfall.core.patterns import regex
from rowfall.sources.base import Renamed
from rowfall.stores.files import LocalFiles

_RANGE = regex(r"(.*)\[(\d+):(\d+)\]")


def loaded_under_other_names(
    session: Session, listing: Listing, known: Collection[str]
) -> set[str]:  # fmt: skip
    """Return the ids of listed objects, and of ranges of them, that are loaded by another name.

    Args:
        known: ids that are loaded.

    Raises:
        LedgerError: a name of an older ledger may be that of several objects.
    """
    key = session.target_key
    if isinstance(session.source, LocalFiles):
        return _by_other_paths(session, listing, known)
    if not len(listing) or uri.scheme_of(listing.uri(0)) not in ("http", "https"):
        return set()
    from rowfall.stores.http import has_validator  # 15 ms that others save

    _warn_of_sizes(session, listing)
    if not known:
        return set()
    listed: dict[tuple[str, str], list[Split]] = defaultdict(list)
    for split in listing.splits(key):
        listed[uri.without_secrets(split.uri), split.version].append(split)
    names = _names(session)
    former = session.source.former_name if isinstance(session.source, Renamed) else str
    found: dict[str, Split] = {}
    ids: set[str] = set()

    def loaded(split: Split, name: str, start: int | None, stop: int | None) -> set[str]:
        """Return the ids of a split, or of a range of it, where that is loaded by a name."""
        version, more = split.version, listing.projection
        if split_id(name, version, start, stop, key, more) not in known or name == split.uri:
            return set()
        whole = split_id(name, version, None, None, key, more)
        marked = {f"{MARK}{split.id}"} if f"{MARK}{whole}" in known else set()
        return {split_id(split.uri, version, start, stop, key, more), *marked}

    for (shared, version), splits in listed.items():
        for split in splits:
            # That is this object and no other: the parameters that are hidden now were in clear.
            exact = former(split.uri)
            ranges = names.get(uri.without_secrets(exact), ())
            spans = {(start, stop) for name, start, stop in ranges if name == exact}
            for start, stop in spans | {(None, None)}:
                ids |= loaded(split, exact, start, stop)
        first = former(splits[0].uri)
        before = uri.without_secrets(first)
        by_name: dict[str, set[str]] = {}
        others = names.get(shared, []) if shared != before else []
        others = others + names.get(before, [(first.partition("#")[0], None, None)])
        for name, start, stop in others:
            if name != first and (own := loaded(splits[0], name, start, stop)):
                by_name.setdefault(name, set()).update(own)
        if not by_name or all(s.id in known or s.id in ids for s in splits):
            continue
        older = any("#" not in name for name in by_name)
        if len(splits) > 1 and older and "#" in first:
            raise _ambiguous(shared, len(splits))
        # Equal validators of several addresses tell nothing: none of them counts for another.
        if len(splits) == 1 and (older or (len(by_name) == 1 and has_validator(version))):
            ids |= set().union(*by_name.values())
            found[shared] = splits[0]
    if found:
        session.emit(Note("warning", _counted(list(found))))
    return ids


def _names(session: Session) -> dict[str, list[tuple[str, int | None, int | None]]]:
    """Return names and ranges of what is loaded, by what :func:`uri.without_secrets` leaves."""
    names = defaultdict(list)
    if session.ledger is not None:
        for text in session.ledger.loaded_uris(session.target_key):
            cut = _RANGE.fullmatch(text)
            name = cut[1] if cut else text
            start, stop = (int(cut[2]), int(cut[3])) if cut else (None, None)
            names[uri.without_secrets(name)].append((name, start, stop))
    return names


def _warn_of_sizes(session: Session, listing: Listing) -> None:
    """Warn of objects that their server tells nothing about but a size."""
    from rowfall.stores.http import has_validator

    count = sum(not has_validator(s.version) for s in listing.splits(""))
    if count:
        session.emit(Note(
            "warning",
            "the web server sends neither ETag nor Last-Modified for "
            f"{units.counted(count, 'file')}: one that changes and keeps its size counts as "
            "loaded, and a change while it is read is not noticed",
        ))  # fmt: skip


def _by_other_paths(session: Session, listing: Listing, known: Collection[str]) -> set[str]:
    """Return the ids of local files that are listed twice, or are loaded, by another path.

    Only symbolic links are followed; with the same size and time they are the same rows.
    """
    key = session.target_key
    more = listing.projection
    folder = lru_cache(maxsize=None)(os.path.realpath)  # one question for each folder

    def real(path: str) -> str:
        if os.path.islink(path):
            return os.path.realpath(path)
        return os.path.join(folder(os.path.dirname(path)), os.path.basename(path))

    # By index: a million files must not be held as splits.
    links = {i: path for i in range(len(listing)) if (path := real(name := listing.uri(i))) != name}
    loaded = _loaded_paths(session, real) if known else {}
    wanted = {*links.values(), *loaded}
    if not wanted:
        return set()
    found: dict[str, str] = {}
    ids: set[str] = set()
    first: dict[str, str] = {}
    # A file by its own path comes before links to it.
    for index in sorted(range(len(listing)), key=lambda i: i in links):
        path = links.get(index) or listing.uri(index)
        if path not in wanted:
            continue
        split = listing.split(index, key)
        others = [n for n in dict.fromkeys((path, *loaded.get(path, ()))) if n != split.uri]
        twin = next(
            (n for n in others if split_id(n, split.version, None, None, key, more) in known), None
        ) or first.get(path)
        if split.id not in known and twin is not None:
            found[split.uri] = twin
            ids.add(split.id)
        first.setdefault(path, split.uri)
    if found:
        session.emit(Note("warning", "; ".join(
            f"{name} is the same file as {twin}, which is loaded by that path"
            for name, twin in list(found.items())[:3]
        ) + (f"; and {len(found) - 3:,} more" if len(found) > 3 else "")))  # fmt: skip
    return ids


def _loaded_paths(session: Session, real: Callable[[str], str]) -> dict[str, list[str]]:
    """Return the paths that this ledger has loaded which are not those of the files themselves."""
    paths: dict[str, list[str]] = defaultdict(list)
    if session.ledger is not None:
        for name in session.ledger.loaded_uris(session.target_key):
            path = real(name)
            if path != name:
                paths[path].append(name)
    return paths


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
