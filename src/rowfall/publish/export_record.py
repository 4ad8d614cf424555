"""Keeps the manifest of an export while its files are written."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.facts import ExportState
from rowfall.core import units
from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.listing import Split
from rowfall.ledger import leases
from rowfall.ledger.manifest import WHOLE, WRITING, Output, sources_of
from rowfall.plan.exports import RUNNING, all_sources

# What a crash takes from the manifest is written again, so it need not be saved for each file: at
# most once a second, and of very large ones (100 MB of names) for 5 % of the time.
_EVERY_SECONDS = 1.0
_SHARE = 20


class ExportRecord:
    """Records what a load writes into the files of an export.

    Args:
        state: of the files, as the load found them.
    """

    def __init__(self, state: ExportState, load_id: str) -> None:
        self._state = state
        self._guard = threading.RLock()
        self._tag = state.found.tag
        owner = f"{leases.this_process()} {secrets.token_hex(4)}"
        self._manifest = replace(state.manifest, state=WRITING, load=load_id, owner=owner)
        self._there = dict(state.present)
        self._saved, self._costs = 0.0, 0.0

    def begin(self) -> None:
        """Take the export over, before any of its files is changed.

        Raises:
            LedgerError: another process has done so just now. TargetError: it cannot be written.
        """
        RUNNING.add(self._manifest.owner)
        self._save()
        before = self._state.found.recorded
        if before is not None and before.state == WRITING:
            self._state.found.place.drop_unfinished({*self._state.names, *before.claims})

    def there(self, path: str) -> bool:
        """Tell whether an output was there when the export began."""
        return self._name(path) in self._there

    def _name(self, path: str) -> str:
        return path[len(self._state.base) :].lstrip("/")

    def wrote(self, number: int, splits: Sequence[Split], rows: int) -> None:
        """Record that a file is complete under its name.

        Raises:
            LedgerError: another process has taken the export over.
        """
        name = self._state.names[number]
        version = self._state.found.place.version(name)
        output = Output(name, rows, version or "", sources_of(splits))
        with self._guard:
            self._manifest = self._manifest.with_output(output)
            if time.monotonic() - self._saved > max(_EVERY_SECONDS, _SHARE * self._costs):
                self._save()

    def take_back(self, path: str) -> None:
        """Remove an object that a failed attempt has made visible.

        What was there before it, and was not overwritten, stays.
        """
        name = self._name(path)
        version = self._state.found.place.version(name)
        with self._guard:
            written = self._manifest.outputs.get(name)
            if version not in (None, self._there.get(name), written and written.version):
                self._state.found.place.remove(name)

    def end(self, *, complete: bool) -> str:
        """Record how the load has ended; return what is said of it, "" for nothing.

        Args:
            complete: every row of the source is in some file.

        Raises:
            LedgerError: the files do not hold what they should, or it cannot be written.
            TargetError: it cannot be written.
        """
        said = ""
        with self._guard:
            owner = self._manifest.owner
            held = all_sources([output.sources for output in self._manifest.outputs.values()])
            if complete and held != self._state.wanted:
                self.abandon()
                raise LedgerError(
                    f"the files hold {len(held):,} of the {len(self._state.wanted):,} objects and "
                    "ranges that were to be exported",
                    hint="This is a bug in rowfall: report it. --replace writes all files anew.",
                )
            try:
                if all(name in self._manifest.outputs for name in self._state.names):
                    said = self._remove_stale()
                state = WHOLE if complete else WRITING
                self._manifest = replace(self._manifest, state=state, owner="")
                self._save()
            finally:
                self._ended(owner)
        return said

    def abandon(self) -> None:
        """Let others go on with the export, as far as that can be said."""
        with self._guard:
            owner = self._manifest.owner
            self._manifest = replace(self._manifest, owner="")
            try:
                self._save()
            except RowfallError:
                pass  # the process ends, which says the same on this machine
            finally:
                self._ended(owner)

    def _ended(self, owner: str) -> None:
        RUNNING.discard(owner)
        self._state.found.place.release()

    def _remove_stale(self) -> str:
        """Remove the files of an earlier layout, as far as nobody has changed them."""
        place, stale = self._state.found.place, dict(self._manifest.stale)
        removed = 0
        for name, version in stale.items():
            if place.version(name) == version:
                place.remove(name)
                removed += 1
        self._manifest = replace(self._manifest, stale={})
        if not removed:
            return ""
        return f"removed {units.counted(removed, 'file')} that an earlier export had written here"

    def _save(self) -> None:
        began = time.monotonic()
        self._tag = self._state.found.place.write(
            self._state.found.name, self._manifest.to_bytes(), self._tag
        )
        self._saved = time.monotonic()
        self._costs = self._saved - began
