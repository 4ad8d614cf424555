"""What became of rows that are loaded, in sources that make new files of their old ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowfall.core.dataclass import dataclass
from rowfall.sources.base import File, TableRewrite


@dataclass(frozen=True, slots=True)
class Followed:
    """Files that are loaded, and what a table's history has made of them.

    Attributes:
        loaded: all files whose rows are loaded, under this or an older name.
        changed: files that hold rows of loaded files and others, with the change that made them.
        removed: the first change that only took loaded rows away, None for none.
    """

    loaded: frozenset[File]
    changed: Mapping[File, TableRewrite]
    removed: TableRewrite | None


def follow(loaded: Iterable[File], rewrites: Iterable[TableRewrite]) -> Followed:
    """Follow the rows of files through what was done to a table since. Pure."""
    done, changed = set(loaded), dict[File, TableRewrite]()
    gone: TableRewrite | None = None
    for rewrite in rewrites:
        mixed = [file for file in rewrite.removed if file in changed]
        hit = sum(file in done for file in rewrite.removed)
        if not hit and not mixed:
            continue
        if rewrite.same_rows and not mixed and hit == len(rewrite.removed):
            done.update(rewrite.added)
            continue
        why = changed[mixed[0]] if mixed else rewrite
        changed.update((file, why) for file in rewrite.added if file not in done)
        if not rewrite.added and gone is None:
            gone = rewrite
    return Followed(frozenset(done), changed, gone)
