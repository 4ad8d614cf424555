"""Find what is loaded as rows of other files: those that a table's compaction has replaced."""

from __future__ import annotations

from collections.abc import Collection

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.errors import SourceError
from rowfall.core.events import Note
from rowfall.core.listing import MARK, Listing, split_id
from rowfall.sources.base import File, RewritesFiles, TableRewrite
from rowfall.sources.rewrites import follow


def loaded_in_other_files(
    session: Session, listing: Listing, known: Collection[str]
) -> set[str]:  # fmt: skip
    """Return the ids of listed files whose rows are loaded out of files that were there before.

    Args:
        known: ids that are loaded.

    Raises:
        SourceError: files hold rows that are loaded together with others, or instead of them.
    """
    source, key = session.source, session.target_key
    if not isinstance(source, RewritesFiles) or session.options.force:
        return set()

    def id_of(file: File) -> str:
        return split_id(*file, None, None, key, listing.projection)

    live = {split.id: (split.uri, split.version) for split in listing.splits(key)}
    others = {i for i in known if i not in live and not i.startswith(MARK)}
    if not others:
        return set()  # all that is loaded is still there, so nothing was made of it
    rewrites = source.rewrites()
    files = {f for r in rewrites for f in (*r.removed, *r.added)}
    loaded = {file for file in files if id_of(file) in known}
    loaded |= {file for id_, file in live.items() if id_ in known}
    found = follow(loaded, rewrites)
    new = [file for id_, file in live.items() if id_ not in known and file not in found.loaded]
    changed = next((found.changed[file] for file in new if file in found.changed), found.removed)
    if new and changed is not None:
        raise _changed(session, changed)
    explained = {id_of(file) for file in files}
    lost = [file for file in new if file[0] in source.of_unknown_origin()]
    if lost and not others <= explained:
        raise SourceError(
            f"{lost[0][0]} was added before the history of {session.source.text} begins, and files "
            "that are loaded are gone since: it may hold their rows",
            hint="Load the table as it is now into a new one with --table NAME, or in place of "
            "this one with --replace.",
        )
    moved = {id_ for id_, file in live.items() if id_ not in known and file in found.loaded}
    if moved:
        session.emit(Note(
            "info",
            f"{units.counted(len(moved), 'file')} made of others that are loaded (compaction): "
            "counts as loaded",
        ))  # fmt: skip
    return moved


def _changed(session: Session, rewrite: TableRewrite) -> SourceError:
    text = session.source.text
    if rewrite.same_rows:
        return SourceError(
            f"{rewrite.name} of {text} merged files that are loaded with others that are not",
            hint=f"Load what was there before it with --snapshot {rewrite.before}, then run this "
            "command again.",
        )
    return SourceError(
        f"{rewrite.name} of {text} changed or removed rows that are loaded",
        hint="--replace loads the table as it is now; --since ID leaves the loaded rows as they "
        "are and adds what came after a later snapshot.",
    )
