"""What the manifest of an export says is there; crashes are in tests/faults/test_exports.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rowfall.contracts.facts import ExportState
from rowfall.core.errors import LedgerError
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Schema
from rowfall.ledger import leases
from rowfall.ledger.manifest import Manifest
from rowfall.plan import attempts, exports
from rowfall.publish.export_record import ExportRecord
from unit.small_load import small_session

SCHEMA = Schema((Column("id", "Int64"),))


@pytest.mark.parametrize(
    ("pattern", "base", "manifest"),
    [
        ("/data/out.csv", "/data", ".out.csv.rowfall"),
        ("/data/p_{n}.csv", "/data", ".p_{n}.csv.rowfall"),
        ("/data/{n}/p.csv", "/data", ".{n}_p.csv.rowfall"),
        ("/out.csv", "/", ".out.csv.rowfall"),
        ("s3://bucket/out.csv", "s3://bucket", ".out.csv.rowfall"),
        ("s3://bucket/a/b/p_{n}.csv", "s3://bucket/a/b", ".p_{n}.csv.rowfall"),
        ("s3://bucket/{n}/x/p.csv", "s3://bucket", ".{n}_x_p.csv.rowfall"),
    ],
)
def test_a_manifest_lies_beside_its_files(pattern: str, base: str, manifest: str) -> None:
    folder, rest = exports.split_pattern(pattern)
    assert (folder, exports.manifest_name(rest)) == (base, manifest)


def test_a_long_name_has_a_manifest_of_its_own() -> None:
    names = [exports.manifest_name(f"{'x' * 240}{n}.csv") for n in range(2)]
    assert len(set(names)) == 2
    assert all(len(name) < 120 for name in names)


def stream(ends: Sequence[int], step: int) -> Listing:
    """Ranges of numbers: partitions of a topic, values of a key."""
    listing = Listing(continued=True)
    for number, end in enumerate(ends):
        for at in range(0, end, step):
            listing.add(f"s/{number}", "1", None, at, min(end, at + step))
    return listing


def look(folder: Path, listing: Listing, files: int, *, again: bool = False) -> ExportState:
    with small_session(folder, "p_{n}.csv", files=files, replace=again) as session:
        return exports.look(session.target, session.options, listing, SCHEMA, "load")


def write(folder: Path, listing: Listing, files: int) -> None:
    state = look(folder, listing, files, again=True)
    record = ExportRecord(state, f"load{files}")
    record.begin()
    splits = list(listing.splits(""))
    for number, (start, stop) in enumerate(attempts.file_bounds(len(splits), files)):
        (folder / state.names[number]).write_text("1\n")
        record.wrote(number, splits[start:stop], 1)
    record.end(complete=True)


def test_files_hold_a_stream_whole_or_are_in_the_way(tmp_path: Path) -> None:
    write(tmp_path, stream((14, 7), 7), 3)
    assert look(tmp_path, stream((14, 7), 7), 3).finished
    assert look(tmp_path, stream((14, 7), 5), 3).finished, "wherever it is cut now"
    assert "other rows" in str(look(tmp_path, stream((14, 8), 7), 3).refusal), "it has grown"
    assert "other options" in str(look(tmp_path, stream((14, 7), 7), 2).refusal)
    (tmp_path / "p_1.csv").unlink()
    again = look(tmp_path, stream((14, 7), 7), 3)
    assert (again.refusal, again.done) == (None, {0, 2})
    again = look(tmp_path, stream((14, 7), 5), 3)
    assert (again.refusal, again.done) == (None, frozenset()), "its rows are not in the same files"


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"rowfall_export": 1}'])
def test_a_damaged_manifest_is_not_taken_for_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".p_{n}.csv.rowfall").write_bytes(data)
    with pytest.raises(LedgerError, match="is damaged"):
        look(tmp_path, stream((7,), 7), 1)


def test_a_manifest_of_a_newer_rowfall_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".p_{n}.csv.rowfall").write_text('{"rowfall_export": 2}')
    with pytest.raises(LedgerError, match="newer rowfall"):
        look(tmp_path, stream((7,), 7), 1)


def test_a_manifest_is_read_as_it_was_written() -> None:
    written = Manifest({"files": 1, "columns": [["a", "Int64"]]}, claims=("p",), reads=("s",),
                       stale={"q": "1"})  # fmt: skip
    assert Manifest.of_bytes(written.to_bytes(), "m") == written
    assert json.loads(written.to_bytes())["state"] == "writing"


def test_an_export_of_another_machine_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where other machines write, too; otherwise it is of this one before it was started anew."""
    write(tmp_path, stream((7,), 7), 1)
    path = tmp_path / ".p_{n}.csv.rowfall"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"owner": "another-machine 1 1", "state": "writing"}))
    assert look(tmp_path, stream((7,), 7), 1).refusal is None
    monkeypatch.setattr(leases, "_shared", lambda file: True)
    refusal = look(tmp_path, stream((7,), 7), 1).refusal
    assert isinstance(refusal, LedgerError)
    assert "--replace" in str(refusal.hint)
    assert look(tmp_path, stream((7,), 7), 1, again=True).refusal is None
