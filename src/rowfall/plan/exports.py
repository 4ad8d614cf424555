"""Which files of an export are there already, which are written, and what is in their way.

The manifest beside the files is the only memory of an export; see :mod:`rowfall.ledger.manifest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rowfall.contracts.facts import ExportState, FoundManifest
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError, TargetError
from rowfall.core.listing import Listing, joined
from rowfall.core.model import Schema
from rowfall.core.options import Options, projection_of
from rowfall.core.own_files import MANIFEST_SUFFIX
from rowfall.ledger import leases
from rowfall.ledger.manifest import (
    WHOLE,
    Manifest,
    ManifestBucket,
    ManifestFolder,
    ManifestStore,
    Range,
    sources_of,
)
from rowfall.plan import attempts
from rowfall.targets.base import Target
from rowfall.targets.export import NUMBER, Export

# A file name has at most 255 bytes; a new manifest is written under a longer one.
_LONGEST = 200
# Requests to a store at once, each of a millisecond and some of latency.
_AT_ONCE = 32
_AGAIN = (
    "the query was exported here before: it is read again, and takes the place of what it gave then"
)
RUNNING: set[str] = set()
"""Owners of exports that this process writes now."""


def look(
    target: Target, options: Options, listing: Listing, schema: Schema, load_id: str = ""
) -> ExportState:
    """Look at the files of an export and its manifest.

    Args:
        load_id: of the load that asks; "" for a plan.

    Raises:
        LedgerError: the manifest cannot be read. TargetError: the place cannot be looked at.
    """
    files = options.files or 1
    base, rest = split_pattern(target.text)
    place = open_place(options, base)
    finals = [target.staging_name("", n, None) for n in range(files)]
    names = tuple(final[len(base) :].lstrip("/") for final in finals)
    name = manifest_name(rest)
    found = place.read(name)
    old = None if found is None else Manifest.of_bytes(found[0], _full(base, name))
    splits = list(listing.splits(""))
    wanted = [
        sources_of(splits[start:stop]) for start, stop in attempts.file_bounds(len(splits), files)
    ]
    layout: dict[str, Any] = {
        "files": files, "pattern": rest, "format": options.to_format or "",
        "columns": [[column.name, column.type] for column in schema.columns],
        "rows": projection_of(options),
    }  # fmt: skip
    asked = {*names, *((*old.outputs, *old.stale, *old.claims) if old else ())}
    present = _versions(place, sorted(asked), remote=target.text.startswith("s3://"))
    asks = _Asked(
        layout, names, wanted, load_id, anew=options.replace or options.force,
        of_query=options.query is not None,
    )  # fmt: skip
    held = place.is_held(name) if old is not None and old.owner else None
    decided = asks.decide(old, present, _full(base, ""), held)
    bounds = list(attempts.file_bounds(len(splits), files))
    loaded = {i for number in decided.done for i in range(*bounds[number])}
    return ExportState(
        base, FoundManifest(place, name, None if found is None else found[1], old), names, present,
        decided.manifest, decided.done, decided.refusal, decided.notes, frozenset(loaded),
        all_sources(wanted),
    )  # fmt: skip


def erase(target: Target, options: Options) -> None:
    """Remove the files of an export and its manifest, where there are any."""
    assert isinstance(target, Export)  # noqa: S101 - exports write into them
    base, rest = split_pattern(target.pattern)
    place = open_place(options, base)
    for number in range(target.files):
        name = target.staging_name("", number, None)
        place.remove(name.removeprefix(base).lstrip("/"))
    place.remove(manifest_name(rest))


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the folder that all outputs are in, and the rest of their pattern."""
    start = pattern.index("://") + 3 if "://" in pattern else 0
    folder = pattern.partition(NUMBER)[0].rfind("/")
    at = max(folder, start and pattern.find("/", start))
    return (pattern[:at] or "/") if at >= 0 else ".", pattern[at + 1 :]


def manifest_name(rest: str) -> str:
    """Return the name of the manifest of a pattern, in the folder of all outputs."""
    flat = rest.replace("/", "_")
    if len(flat.encode("utf-8", "surrogateescape")) > _LONGEST:
        digest = blake2b(flat.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        flat = f"{flat[: _LONGEST // 4]}-{digest}"
    return f".{flat}{MANIFEST_SUFFIX}"


def open_place(options: Options, base: str) -> ManifestStore:
    """Return the folder or prefix of an export."""
    return ManifestBucket(base, options) if "://" in base else ManifestFolder(Path(base))


def _full(base: str, name: str) -> str:
    return f"{base.rstrip('/')}/{name}"


def _versions(place: ManifestStore, names: Sequence[str], *, remote: bool) -> dict[str, str]:
    if remote and len(names) > 1:
        with ThreadPoolExecutor(min(_AT_ONCE, len(names))) as pool:
            versions = list(pool.map(place.version, names))
    else:
        versions = [place.version(name) for name in names]
    return {n: version for n, version in zip(names, versions, strict=True) if version is not None}


@dataclass(frozen=True, slots=True)
class _Decision:
    manifest: Manifest
    done: frozenset[int] = frozenset()
    refusal: RowfallError | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """The outputs of an export before its plan is made.

    Attributes:
        layout: how rows become files. ``names``: of the outputs.
        wanted: what each output is to hold.
        anew: what is there may be overwritten.
        of_query: what the rows are only the query knows, each time that it is run.
    """

    layout: Mapping[str, Any]
    names: Sequence[str]
    wanted: Sequence[Sequence[Range]]
    load_id: str
    anew: bool
    of_query: bool

    def decide(
        self, old: Manifest | None, present: Mapping[str, str], folder: str, held: bool | None
    ) -> _Decision:
        """Decide what is written; pure.

        Args:
            old: the manifest that is there.
            present: versions of what is there.
            held: whether the process lives that has written it; None where nobody knows.
        """
        layout, names, wanted, anew = self.layout, self.names, self.wanted, self.anew
        reads = dict.fromkeys(source[0] for sources in wanted for source in sources)
        fresh = Manifest(layout, claims=tuple(names), reads=tuple(reads))
        if old is None:
            there = [name for name in names if name in present]
            if there and not anew:
                return _Decision(fresh, refusal=_in_the_way(folder, there, None))
            return _Decision(fresh)
        if old.owner and not anew and (busy := _busy(old, folder, held)) is not None:
            return _Decision(old, refusal=busy)
        if old.owner and _lives(old.owner, held):
            return _Decision(old, refusal=_in_use(old, folder))
        intact = {name for name, o in old.outputs.items() if present.get(name, "") == o.version}
        # What a run with --replace has begun, it goes on with.
        anew = anew and old.load != self.load_id
        same = dict(old.layout) == dict(layout)
        keeps = {
            number: old.outputs[name]
            for number, (name, sources) in enumerate(zip(names, wanted, strict=True))
            if same and name in intact and old.outputs[name].sources == tuple(sources)
        }  # fmt: skip
        if anew:
            return _overwritten(fresh, old, names, present, ())
        edited = sorted(name for name in old.outputs if name in present and name not in intact)
        if old.state == WHOLE:
            # Of a load whose end is not recorded yet it is what this run was to write.
            again = self.of_query and old.load != self.load_id
            if again and same and not edited and set(old.reads) == set(reads):
                return _overwritten(fresh, old, names, present, (_AGAIN,))
            everything = all_sources([o.sources for o in old.outputs.values()])
            if not same or everything != all_sources(wanted):
                there = sorted(name for name in {*names, *old.outputs} if name in present)
                if there:
                    return _Decision(old, refusal=_in_the_way(folder, there, old))
                return _Decision(fresh)  # somebody has removed all of its files
            if edited:
                return _Decision(old, refusal=_edited(folder, edited))
            if len(intact) == len(old.outputs) == len(names):
                # Perhaps the source is cut at other places now: together the files hold all of it.
                return _Decision(old, frozenset(range(len(names))))
            if len(keeps) < len(intact):
                return _overwritten(fresh, old, names, present, ())
        else:
            own = any(name in present for name in old.claims)
            if own and not reads.keys() >= set(old.reads):
                return _Decision(old, refusal=_of_others(old, folder, present))
            if edited:
                return _Decision(old, refusal=_edited(folder, edited))
            if not same:
                files = units.counted(len(old.outputs), "file")
                note = f"an unfinished export with other options is there ({files}): written anew"
                return _overwritten(fresh, old, names, present, (note,))
        kept = {output.name: output for output in keeps.values()}
        manifest = replace(fresh, state=old.state, load=old.load, outputs=kept, stale=old.stale)
        return _Decision(manifest, frozenset(keeps))


def _overwritten(
    fresh: Manifest, old: Manifest, names: Sequence[str], present: Mapping[str, str],
    notes: tuple[str, ...],
) -> _Decision:  # fmt: skip
    """Write everything anew; files of the old layout go when all of the new one are there."""
    recorded = {**old.stale, **{name: o.version for name, o in old.outputs.items()}}
    if old.state != WHOLE:  # what it has not recorded is its own, too
        recorded |= {name: present[name] for name in old.claims if name in present} | recorded
    stale = {
        name: version for name, version in recorded.items()
        if name not in names and present.get(name) == version
    }  # fmt: skip
    return _Decision(replace(fresh, stale=stale), notes=notes)


def all_sources(some: Sequence[Sequence[Range]]) -> frozenset[Range]:
    """Return the ranges of sources in any of the outputs, with adjacent ranges joined."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    found: set[Range] = set()
    for sources in some:
        for name, version, start, stop in sources:
            if start is None or stop is None:
                found.add((name, version, None, None))
            else:
                ranges.setdefault((name, version), []).append((start, stop))
    for (name, version), own in ranges.items():
        for a, b in joined(own):
            found.add((name, version, a, b))
    return frozenset(found)


# --- what is in the way ---------------------------------------------------------------------------


def _lives(owner: str, held: bool | None) -> bool:
    """Tell whether a process certainly writes now, of this container or another one."""
    own = leases.this_process()
    if owner.startswith(own):
        return owner in RUNNING
    if owner.partition(" ")[0] == leases.machine_id():
        return not leases.has_ended(owner)
    return held is True


def _busy(old: Manifest, folder: str, held: bool | None) -> RowfallError | None:
    """Return the error where another process may still be writing this export; None if it ended."""
    if _lives(old.owner, held):
        return _in_use(old, folder)
    # Where only this machine writes, an owner of another boot has ended.
    here = None if "://" in folder else Path(folder, "manifest")
    if old.owner.startswith(leases.this_process()) or leases.has_ended(old.owner, here):
        return None
    # The lock of one in another container of this machine would be seen.
    if here is not None and held is False and leases.is_of_other_pid_namespace(old.owner, here):
        return None
    return LedgerError(
        f"an export into {folder} is unfinished, and a process of another machine writes it or has "
        "died there",
        hint="If it has ended, write all files anew with --replace.",
    )


def _in_use(old: Manifest, folder: str) -> TargetError:
    return TargetError(
        f"another rowfall writes these files in {folder} now (load {old.load[:8]})",
        hint="Wait until it has ended, or write under other names.",
        transient=True,
    )


def _in_the_way(folder: str, names: Sequence[str], old: Manifest | None) -> TargetError:
    files = f"the file {folder}{names[0]} is"
    if len(names) > 1:
        files = f"the files {folder}{names[0]} and {len(names) - 1:,} more are"
    if old is None:
        return TargetError(
            f"{files} there already, and no manifest says that rowfall has written what is there",
            hint="Write somewhere else, or overwrite it with --replace.",
        )
    count = units.counted(len(old.outputs), "file")
    return TargetError(
        f"{files} there already, of a finished export of other rows or with other options "
        f"({count}, {units.counted(old.rows, 'row')})",
        hint="Write somewhere else, or write all of it anew with --replace.",
    )


def _edited(folder: str, names: Sequence[str]) -> TargetError:
    more = f" and {len(names) - 1:,} more were" if len(names) > 1 else " was"
    return TargetError(
        f"the file {folder}{names[0]}{more} changed since this export has written it",
        hint="Move it away to have it written again, or write all files anew with --replace.",
    )


def _of_others(old: Manifest, folder: str, present: Mapping[str, str]) -> LedgerError:
    files = units.counted(sum(name in present for name in old.claims), "file")
    more = f" and {len(old.reads) - 1:,} more" if len(old.reads) > 1 else ""
    return LedgerError(
        f"an unfinished export of another source is in {folder}: {files} of rows of "
        f"{old.reads[0]}{more}",
        hint="Finish it with the command that began it, write somewhere else, or overwrite it "
        "with --replace.",
    )
