"""Scratches: places beside a target in which loads are measured, and who measures there.

Whoever measures removes them. After a kill -9 this record, a file in the state folder for each
process, says what there still is; ``rowfall clean`` removes it. The name of a scratch tells when it
was made, for those who find one that another machine has left.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.patterns import regex
from rowfall.ledger import leases
from rowfall.targets.base import state_folder

DOCTOR, TUNE = "rowfall_doctor_", "rowfall_tune_"
"""Begin the names of everything that is made to measure with."""
# Eight digits for the second in which it was made, four at random. Loads into it have the same
# twelve digits as their id; those of others have ten. Older versions gave eight at random.
_NAME = regex(r"(?:rowfall_doctor_|rowfall_tune_)([0-9a-f]{8}(?:[0-9a-f]{4})?)(?:_loaded)?")
_ID = regex(r"[0-9a-f]{12}")
_OLDER_DIGITS = 8
# Of a scratch of another machine nobody here knows whether somebody measures in it. One sweep takes
# minutes, on the slowest target hours.
_OLD_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class LeftScratch:
    """A scratch that was not removed.

    Attributes:
        to: the target as typed, without secrets. ``options``: see
            :func:`rowfall.core.options.changed`.
        ledger: of its loads; the file may be gone.
    """

    name: str
    to: str
    options: Mapping[str, Any]
    ledger: Path


@dataclass(frozen=True, slots=True)
class ScratchesLeft:
    """Scratches that a process has left, which measures no more.

    Attributes:
        record: the file that says so. ``folder``: of its samples and ledgers.
    """

    record: Path
    folder: Path
    scratches: tuple[LeftScratch, ...]


class ScratchRecord:
    """Records what one process makes to measure with.

    Args:
        folder: of its samples and ledgers.

    Raises:
        LedgerError: it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = _records() / f"{folder.name}.json"
        self._open: set[str] = set()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._write({"owner": leases.this_process(), "folder": str(folder)})
        except OSError as error:
            raise LedgerError(
                f"cannot record in {self._path.parent} what is made to measure: {error.strerror}",
                hint="Name another place: export ROWFALL_HOME=/path/of/a/folder",
            ) from None

    def add(self, name: str, to: str, options: Mapping[str, Any], ledger: Path) -> None:
        """Record a scratch before anything of it is made."""
        self._open.add(name)
        self._write({"name": name, "to": to, "options": dict(options), "ledger": str(ledger)})

    def removed(self, name: str) -> None:
        """Record that nothing of a scratch is there any more."""
        self._open.discard(name)
        self._write({"removed": name})

    def close(self) -> None:
        """Remove the record, unless some scratch could not be removed."""
        if self._open:
            self._write({"ended": True})
        else:
            _forget(self._path)

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def new_name(prefix: str) -> str:
    """Return a name for a scratch that no other one has."""
    return f"{prefix}{int(time.time()):08x}{secrets.token_hex(2)}"


def load_id(name: str) -> str:
    """Return the id of the load into a scratch."""
    return name.rpartition("_")[2]


def is_scratch(name: str) -> bool:
    """Tell whether a table was made to measure in."""
    return _NAME.fullmatch(name) is not None


def is_scratch_load(load: str) -> bool:
    """Tell whether a load went into a scratch, by its id."""
    return _ID.fullmatch(load) is not None


def in_use() -> frozenset[str]:
    """Return the ids of loads into scratches in which a process of this machine may measure now."""
    return frozenset(
        load_id(line["name"])
        for path in _files()
        if not _has_ended(path, lines := _lines(path))
        for line in lines
        if "name" in line
    )


def is_old(name: str, load: str) -> bool:
    """Tell whether a table is of a scratch in which nobody measures any more.

    Of one that another machine has made nothing else is known: it is a day old.

    Args:
        load: the id in its name: of the load, or of the scratch.
    """
    if is_scratch(name) and len(load) == _OLDER_DIGITS:
        return True
    return is_scratch_load(load) and time.time() - int(load[:8], 16) > _OLD_SECONDS


def known() -> frozenset[str]:
    """Return the ids of the loads into all scratches that are on record here."""
    return frozenset(
        load_id(line["name"]) for path in _files() for line in _lines(path) if "name" in line
    )


def left() -> Iterator[ScratchesLeft]:
    """Give what processes of this machine have left that measure no more."""
    for path in _files():
        lines = _lines(path)
        if not _has_ended(path, lines):
            continue
        gone = {line["removed"] for line in lines if "removed" in line}
        folder = next((line["folder"] for line in lines if "folder" in line), "")
        yield ScratchesLeft(path, Path(folder), tuple(
            LeftScratch(line["name"], line["to"], line["options"], Path(line["ledger"]))
            for line in lines if "name" in line and line["name"] not in gone
        ))  # fmt: skip


def removed(gone: ScratchesLeft, name: str) -> None:
    """Record that a scratch of a process that has ended is removed."""
    with gone.record.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"removed": name}) + "\n")


def forget(gone: ScratchesLeft) -> None:
    """Remove the record of what was removed."""
    _forget(gone.record)


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)
    try:
        path.parent.rmdir()
    except OSError:
        return  # others measure


def _records() -> Path:
    return state_folder() / "measuring"


def _files() -> list[Path]:
    try:
        return sorted(_records().glob("*.json"))
    except UsageError:  # no home, so nothing was left there
        return []


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a record; [] where it has just been removed."""
    found = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break  # it was killed while it wrote the last one, and has made nothing of it
    return found


def _has_ended(path: Path, lines: list[dict[str, Any]]) -> bool:
    if any("ended" in line for line in lines):
        return True
    owner = next((line["owner"] for line in lines if "owner" in line), "")
    if not owner or leases.is_running_here(owner):
        return False
    # A machine that has started again, or another container, has another name.
    return leases.has_ended(owner) or time.time() - path.stat().st_mtime > _OLD_SECONDS
