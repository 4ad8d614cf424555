"""Move, tag or delete files once their rows are in the target for good: ``--after``.

What is due is asked of the record and not remembered: a file of the listing whose every range is
recorded as loaded, and that is still where it was. So a run that was killed in the middle is
finished by the next one, whatever machine that runs on. Tags alone leave a file where it is; those
of a run that was killed are due as long as its load is unfinished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

from rowfall.contracts.destination import LoadRun, Session
from rowfall.contracts.load import Done, Finished
from rowfall.contracts.receiver import first_line
from rowfall.core import units, uri
from rowfall.core.after import MOVE, TAG, After, after_of
from rowfall.core.errors import ObjectChangedError, RowfallError, SourceError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Plan
from rowfall.core.results import ClearedFiles, Report
from rowfall.ledger import Ledger
from rowfall.run.session import Request
from rowfall.sources.base import ClearsFiles
from rowfall.stores.cleared import inside
from rowfall.targets import default_table, open_target

# Requests at a time, each about one file; as many as listings use.
_REQUESTS = 32
# Files that are asked for at once: their names take 1 MB.
_CHUNK = 10_000


def check_after(session: Session) -> After | None:
    """Check that the files of a source can get what ``--after`` asks for.

    Returns:
        The action; None for nothing.

    Raises:
        UsageError: they cannot; or moved files would be loaded again.
    """
    action = after_of(session.options)
    if action is None:
        return None
    source = session.source
    if not isinstance(source, ClearsFiles):
        raise UsageError(
            f"--after {action.kind} is for files on disks and in buckets, and {source.text} is "
            "none of these",
            hint="Leave it out.",
        )
    if not session.destination.keeps:
        raise UsageError(
            f"--after {action.kind} needs a target that keeps rows, and {session.target.text} "
            "drops them",
            hint="Load into a table with --to.",
        )
    if (session.options.where or session.options.select) and not session.options.follow:
        session.emit(Note("warning", f"whole files are {action.past}, of which a part is loaded"))
    source.check_after(action)
    if action.kind == MOVE:
        for name in _names(session.listing):
            if source.would_list(source.moved_name(name, action)):
                raise inside(action.prefix)
    return action


def clear_loaded(load: LoadRun, plan: Plan, done: Done, finished: Finished) -> ClearedFiles | None:
    """Give loaded files what ``--after`` asks for, once all of a file is recorded as loaded.

    What the store refuses is told and counted; it is no reason to load a row again.
    """
    session = load.session
    action = after_of(session.options)
    if action is None or finished.problem is not None:
        return None
    if (session.options.gathers or session.options.replace) and done.total.failures:
        return None  # nothing is visible
    found = _Counted(session, load.emit, action)
    found.clear_all(_due(load, plan, action))
    return found.said()


def clear_listed(session: Session, files: Sequence[tuple[str, str, int]]) -> None:
    """Move or delete files that a followed load finds and whose rows are in the target already.

    A process that was killed has left them. Tags are not given: that would be a request for each
    file that was ever loaded, each time that somebody begins to follow.

    Args:
        files: name, version and size of each.
    """
    action = after_of(session.options)
    if action is None or action.kind == TAG or not files:
        return
    found = _Counted(session, session.emit, action)
    found.clear_all(Split("", name, version, size) for name, version, size in files)
    found.said()


def nothing_left(request: Request) -> Report | None:
    """Return the report of a load that finds no file, because earlier ones have put all away.

    None where no load of these sources into this target is known: then a name is wrong.
    """
    action, texts = after_of(request.options), request.sources
    if action is None or not action.removes or callable(texts):
        return None
    texts = (texts,) if isinstance(texts, str) else tuple(texts)
    table = request.table if request.table is not None else default_table(texts)
    target = open_target(request.to, table, request.options, request.password)
    if not target.ledger_path.exists():
        return None
    # As sources call themselves, seen from the same folder.
    source, here = " ".join(map(uri.mask, texts)), os.getcwd()
    with closing(Ledger(target.ledger_path)) as ledger:
        known = any(
            row.source == source and row.target == target.text
            and json.loads(row.request).get("folder") == here
            for row in ledger.loads()
        )  # fmt: skip
    table_text = ".".join(filter(None, (target.database, target.table)))
    return Report("", "done", source, target.text, table_text, "") if known else None


class _Counted:
    """Clears files one by one, in several threads, and counts them."""

    def __init__(self, session: Session, emit: Listener, action: After) -> None:
        source = session.source
        assert isinstance(source, ClearsFiles)  # noqa: S101 - or check_after has refused it
        self._source, self._emit, self._action = source, emit, action
        self._remote = session.remote
        # Appending is safe in threads.
        self._files: list[bool] = []
        self._changed: list[str] = []
        self._failed: list[RowfallError] = []

    def clear_all(self, due: Iterable[Split]) -> None:
        """Clear files, those of a store some at a time."""
        if not self._remote:
            for split in due:
                self.clear(split)
            return
        from concurrent.futures import ThreadPoolExecutor  # 4 ms that files here save

        left = iter(due)
        with ThreadPoolExecutor(_REQUESTS) as pool:
            while chunk := list(islice(left, _CHUNK)):
                list(pool.map(self.clear, chunk))

    def clear(self, split: Split) -> None:
        """Clear one file; what goes wrong is kept."""
        try:
            if self._action.kind == MOVE:
                to = self._source.moved_name(split.uri, self._action)
                if self._source.would_list(to):  # of a pattern that was empty when it was checked
                    raise SourceError(inside(self._action.prefix).message)
            if self._source.clear(split, self._action):
                self._files.append(True)
        except ObjectChangedError as error:
            self._changed.append(split.uri)
            if len(self._changed) == 1:
                self._emit(Note("warning", error.message, error.hint or ""))
        except SourceError as error:
            self._failed.append(error)
            if len(self._failed) == 1:
                self._emit(Note("warning", error.message, error.hint or ""))

    def said(self) -> ClearedFiles:
        """Tell how many files there were, and return the counts."""
        action = self._action
        if self._files:
            to = f" to {action.prefix}" if action.kind == MOVE else ""
            count = units.counted(len(self._files), "loaded file")
            self._emit(Note("info", f"{action.past} {count}{to}"))
        return ClearedFiles(
            action.kind, len(self._files), len(self._changed), len(self._failed),
            first_line(self._failed[0]) if self._failed else "",
        )  # fmt: skip


def _due(load: LoadRun, plan: Plan, action: After) -> Iterator[Split]:
    """Give the files of a plan whose every split is loaded, as whole files."""
    key, listing = load.session.target_key, plan.listing
    todo = {i for group in plan.work.groups for i in group.indexes}
    now = load.ledger.loaded_by(load.id)
    missing = {listing.uri(i) for i in todo if listing.split(i, key).id not in now}
    seen = set[str]()  # of files that are cut into ranges
    for index in range(len(listing)):
        split = listing.split(index, key)
        if split.uri in missing or split.uri in seen:
            continue
        # A tag leaves the file where it is: only those of this load, also of a killed run of it.
        if action.kind == TAG and split.id not in now:
            continue
        if listing.parts:
            seen.add(split.uri)
        yield split


def _names(listing: Listing) -> Iterable[str]:
    return dict.fromkeys(listing.uri(index) for index in range(len(listing)))
