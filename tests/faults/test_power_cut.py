"""The machine loses its power: what was recorded is on its disk, and the same command goes on.

The data folder is on an ext4 image. A cut is a copy of what its block device holds, without what
the kernel has in memory only (``cutter.py``). Where no image can be mounted, the order of syncs and
records is checked instead, which the gate does anywhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Survived
from lab.clickhouse import ClickHouse
from lab.disk import MountError, PowerDisk, copy_image
from lab.faulty import Fault, Faulty, Request
from rowfall.core import disk as core_disk
from rowfall.core.model import Statement
from rowfall.ledger import Ledger
from rowfall.systems.clickhouse.embedded import Embedded

CUTTER, LOSSY = (Path(__file__).with_name(name) for name in ("cutter.py", "lossy.py"))
FILES, EACH = 4, 500
ROWS = FILES * EACH
# Each file is an attempt, and one is inserted while the one before is published.
OPTIONS = ("--table", "t", "--attempt-bytes", "5KB", "--threads", "2", "--memory", "1GiB")
KINDS = {
    "plain": ("--build", "off", "--partition-by", "id % 3"),
    # A table with more than 100 broken parts is not opened by default.
    "many parts": ("--build", "off", "--partition-by", "id % 250"),
    "--atomic": ("--partition-by", "id % 3", "--atomic"),
    "--replace": ("--replace",),
    "build": ("--build", "on"),
    "views": ("--build", "off"),
}
SUMS = "count(), uniqExact(id), sum(id), countIf(name != concat('n', toString(id)))"
EXACT = [str(n) for n in (ROWS, ROWS, ROWS * (ROWS - 1) // 2, 0)]
LEFT = "(SELECT toString(groupArray(name)) FROM system.tables WHERE startsWith(name, '_rowfall_'))"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("power")
    for number in range(FILES):
        ids = range(number * EACH, (number + 1) * EACH)
        (folder / f"{number}.csv").write_text("id,name\n" + "".join(f"{i},n{i}\n" for i in ids))
    (folder / "old").mkdir()
    (folder / "old" / "old.csv").write_text("id,name\n1000001,old\n")
    return folder


@pytest.fixture
def power() -> Iterator[PowerDisk | None]:
    """A disk that may lose its power; None where this machine lets nobody mount one."""
    try:
        disk = PowerDisk()
    except MountError as error:
        print(f"{error}: the order of syncs and records is checked instead")  # noqa: T201
        yield None
        return
    try:
        yield disk
    finally:
        disk.close()


class Cuts:
    """One load whose disk was copied at every step.

    Args:
        power: the disk.
        folder: for the copies.
    """

    def __init__(
        self, rowfall: Any, power: PowerDisk, source: Path, folder: Path, kind: str
    ) -> None:
        self._rowfall, self._kind = rowfall, kind
        self._command = ("load", source / "*.csv", *OPTIONS, *KINDS[kind])
        data = power.path / "data"
        if kind == "--replace":
            self._done("load", source / "old" / "old.csv", "--table", "t", "--to", data)
        if kind == "views":
            # Two tables get rows from one attempt.
            data.mkdir()
            self._done("query", "CREATE TABLE t (id UInt64, name String) ORDER BY id",
                       "--write", "--to", data)  # fmt: skip
            self._done("query", "CREATE TABLE ids (id UInt64) ORDER BY id",
                       "--write", "--to", data)  # fmt: skip
            self._done("query", "CREATE MATERIALIZED VIEW v TO ids AS SELECT id FROM t",
                       "--write", "--to", data)  # fmt: skip
        process = rowfall.start(
            *self._command, "--to", data,
            program=[sys.executable, str(CUTTER), str(power.image), str(folder)],
        )  # fmt: skip
        # Hundreds of copies of the disk: 20 s on a quiet machine, over 100 on one that others use.
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        # Exit code 0: from here on everything is on the disk.
        copy_image(power.image, folder / "999 end.img")
        self.images = sorted(folder.glob("*.img"))
        lines = (folder / "steps").read_text().splitlines()
        self._steps = {int(line.split()[0]): line for line in lines}

    def _done(self, *command: Any) -> None:
        done = self._rowfall.inside(*command)
        assert done.returncode == 0, done.stderr

    def text(self, image: Path) -> str:
        number, side = image.stem.split()
        return f"{self._kind}: {side} {self._steps.get(int(number), 'of the load')}"

    def after(self, step: str, at: int = 0) -> Path:
        """The disk as it was right after a step; ``at``: the one of that kind that is meant."""
        number = [n for n, text in self._steps.items() if text.endswith(step)][at]
        # Copies that are equal are kept once.
        return max(i for i in self.images if i.stem <= f"{number:03} after")

    def survives(self, image: Path) -> None:
        """Run the same command again on what was left; every row has to be there once."""
        disk = PowerDisk(image)
        try:
            data = disk.path / "data"
            done = self._rowfall.inside(*self._command, "--to", data)
            assert done.returncode == 0, f"{self.text(image)}\n{done.stderr}"
            found = self._rows("t", SUMS, data)
            assert found == [*EXACT, "[]"], f"{self.text(image)}\n{found}\n{done.stderr}"
            if self._kind == "views":
                found = self._rows("ids", "count(), uniqExact(id), sum(id)", data)
                assert found == [*EXACT[:3], "[]"], f"{self.text(image)}\n{found}\n{done.stderr}"
        finally:
            disk.close()

    def _rows(self, table: str, sums: str, data: Path) -> list[str]:
        out: subprocess.CompletedProcess[str] = self._rowfall.inside(
            "query", f"SELECT {sums}, {LEFT} FROM {table}", "--format", "TSV", "--to", data
        )
        assert out.returncode == 0, out.stderr
        return out.stdout.split()


def test_what_is_recorded_survives_a_power_cut(
    rowfall: Any, power: PowerDisk | None, source: Path, tmp_path: Path, survived: Survived,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """After exit code 0, and after each of the two records that later runs rely on."""
    if power is None:
        syncs_precede_records(rowfall, source, tmp_path, monkeypatch)
        return
    folder = tmp_path / "cuts"
    folder.mkdir()
    cuts = Cuts(rowfall, power, source, folder, "plain")
    for image in (
        cuts.images[-1],
        cuts.after("ledger: attempt_committed", 1),
        cuts.after("ledger: attempt_published", 1),
    ):
        cuts.survives(image)
        survived("power cut, embedded")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_power_cut_at_every_step(
    rowfall: Any, power: PowerDisk | None, source: Path, tmp_path: Path, survived: Survived,
    kind: str,
) -> None:  # fmt: skip
    if power is None:
        pytest.skip("no disk image can be mounted; the gate has checked the order of syncs")
    folder = tmp_path / "cuts"
    folder.mkdir()
    cuts = Cuts(rowfall, power, source, folder, kind)
    wrong = []
    for image in cuts.images:
        try:
            cuts.survives(image)
            survived(f"power cut, embedded, {kind}")
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, f"{len(wrong)} of {len(cuts.images)} cuts:\n" + "\n---\n".join(wrong)


def test_a_power_cut_leaves_rows_with_their_mark(
    rowfall: Any, source: Path, survived: Survived
) -> None:
    """Rows that are attached may be on disk before anybody has flushed them; an older ledger asks.

    The copy of the ledger is of the moment before: without the mark it would fit the table.
    """
    first, second = sorted(source.glob("*.csv"))[:2]
    done = rowfall("load", first, "--table", "t")
    assert done.returncode == 0, done.stderr
    data = rowfall.cwd / "rowfall-data"
    kept = {path: path.read_bytes() for path in data.glob("rowfall.ledger*")}
    process = rowfall.start(
        "load", first, second, "--table", "t", program=[sys.executable, str(LOSSY), str(data)]
    )
    process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL
    for path in data.glob("rowfall.ledger*"):
        path.unlink()
    for path, text in kept.items():
        path.write_bytes(text)
    done = rowfall("load", first, second, "--table", "t")
    assert done.returncode == 3, done.stderr
    assert "it is older than the rows" in done.stderr
    out = rowfall("query", "SELECT count(), uniqExact(id) FROM t", "--format", "TSV")
    assert out.stdout.split() == [str(2 * EACH)] * 2
    survived("power cut, older ledger")


# --- a server -------------------------------------------------------------------------------------


def test_a_server_loses_its_power(
    rowfall: Any, power: PowerDisk | None, source: Path, survived: Survived
) -> None:
    """Twice, after exit code 0: the journal and the ledger say what the table holds."""
    if power is None:
        pytest.skip("no disk image can be mounted; test_a_server_is_flushed checks the order")
    with ClickHouse(power=power) as server:
        server.query("CREATE DATABASE d")
        command = ("load", source / "*.csv", *OPTIONS, "--to", server.uri("d"))
        done = rowfall.inside(*command)
        assert done.returncode == 0, done.stderr
        for _ in range(2):
            server.lose_power()
            server.start()
            done = rowfall.inside(*command)
            assert done.returncode == 0, done.stderr
            assert server.query(f"SELECT {SUMS} FROM d.t").split() == EXACT
            survived("power cut, server")


def test_a_server_is_flushed(rowfall: Any, clickhouse: ClickHouse, source: Path) -> None:
    """Before each COMMIT and each RECORD, and with each line of the journal, an older one too."""
    database = f"flushed_{os.getpid()}"
    clickhouse.query(f"CREATE DATABASE {database}")
    to = clickhouse.uri(database)
    done = rowfall.inside("load", source / "*.csv", *OPTIONS, "--to", to)
    assert done.returncode == 0, done.stderr
    clickhouse.query("SYSTEM FLUSH LOGS")
    syncs = (
        "SELECT countIf(query LIKE 'SYSTEM SYNC FILE%'), countIf(query LIKE '%ATTACH PARTITION%') "
        "FROM system.query_log WHERE type = 'QueryFinish' AND current_database = "
        f"'{database}' OR query LIKE 'SYSTEM SYNC FILE%'"
    )
    assert int(clickhouse.query(syncs).split()[0]) >= 2 * FILES
    kept = f"SELECT engine_full FROM system.tables WHERE database = '{database}' AND name = "
    kept += "'_rowfall_journal'"
    assert "fsync_after_insert = 1, fsync_part_directory = 1" in clickhouse.query(kept)
    clickhouse.query(
        f"ALTER TABLE {database}._rowfall_journal RESET SETTING fsync_after_insert, "
        "fsync_part_directory"
    )
    assert "fsync" not in clickhouse.query(kept)
    done = rowfall.inside("load", source / "*.csv", *OPTIONS, "--to", to, "--no-sync")
    assert done.returncode == 0, done.stderr
    assert "fsync_after_insert = 1, fsync_part_directory = 1" in clickhouse.query(kept)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "lost"), [(1, "_rowfall_%"), (2, "t")])
def test_a_server_was_without_power_before_a_sync(
    rowfall: Any, server: ClickHouse, source: Path, number: int, lost: str
) -> None:
    """What a load has written is gone, and no request fails: then it is not recorded."""
    if server.pid is None:
        server.start()
    database = f"without_power_{os.getpid()}_{number}"
    server.query(f"CREATE DATABASE {database}")
    syncs = 0

    def lose() -> None:
        paths = server.query(
            f"SELECT path FROM system.parts WHERE database = '{database}' AND table LIKE '{lost}' "
            "AND table != '_rowfall_journal'"
        )
        server.kill()  # the log of a server that was never without power would be believed
        for path in paths.split():
            shutil.rmtree(path)
        server.start()

    def script(request: Request) -> Fault | None:
        nonlocal syncs
        syncs += request.sql.startswith("SYSTEM SYNC FILE CACHE")
        ours = syncs == number and request.sql.startswith("SYSTEM SYNC FILE CACHE")
        return Fault(before=lose) if ours else None

    command = ("load", min(source.glob("*.csv")), "--table", "t", "--to")
    with Faulty(server.http_port, script) as proxy:
        done = rowfall.inside(*command, server.uri(database, port=proxy.port))
    assert done.returncode == 6, done.stderr
    assert "without power" in done.stderr
    done = rowfall.inside(*command, server.uri(database))
    assert done.returncode == 0, done.stderr
    counts = server.query(f"SELECT count(), uniqExact(id) FROM {database}.t")
    assert counts.split() == [str(EACH)] * 2


@pytest.mark.sampled(1)
def test_a_server_was_without_power_before_its_views_were_counted(
    rowfall: Any, server: ClickHouse, source: Path
) -> None:
    """The staged rows are there, and what a view has made of them is not: nothing else tells."""
    if server.pid is None:
        server.start()
    database = f"views_without_power_{os.getpid()}"
    server.query(f"CREATE DATABASE {database}")
    first, second = sorted(source.glob("*.csv"))[:2]
    command = ("load", second, "--table", "t", "--to")
    made = rowfall.inside("load", first, "--table", "t", "--to", server.uri(database))
    assert made.returncode == 0, made.stderr
    server.query(f"CREATE TABLE {database}.ids (id UInt64) ENGINE = MergeTree ORDER BY id")
    server.query(
        f"CREATE MATERIALIZED VIEW {database}.v TO {database}.ids AS SELECT id FROM {database}.t"
    )
    lost = []

    def lose() -> None:
        paths = server.query(
            f"SELECT path FROM system.parts WHERE database = '{database}' "
            "AND table LIKE '_rowfall_%_t0'"
        )
        server.kill()
        for path in paths.split():
            lost.append(path)
            shutil.rmtree(path)
        server.start()

    def script(request: Request) -> Fault | None:
        counts = "_rowfall_journal" in request.sql and "'count'" in request.sql
        return Fault(before=lose) if counts and not lost else None

    with Faulty(server.http_port, script) as proxy:
        done = rowfall.inside(*command, server.uri(database, port=proxy.port))
    assert lost
    assert done.returncode == 6, done.stderr
    assert "was started again after rows had been staged" in done.stderr
    done = rowfall.inside(*command, server.uri(database))
    assert done.returncode == 0, done.stderr
    counts = f"SELECT count(), uniqExact(id) FROM {database}."
    assert server.query(counts + "t").split() == [str(2 * EACH)] * 2
    assert server.query(counts + "ids").split() == [str(EACH)] * 2


# --- the order of syncs and records ---------------------------------------------------------------


def syncs_precede_records(
    rowfall: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: Sequence[str] = (),
) -> None:  # fmt: skip
    """Record what a load does; nothing may be recorded while its rows are not flushed."""
    seen = recorded(rowfall, source, tmp_path, monkeypatch, options)
    for number, (what, attempt) in enumerate(seen):
        if what not in ("loaded", "published"):
            continue
        writes = "INSERT" if what == "loaded" else "ATTACH"
        wrote = [n for n, (w, a) in enumerate(seen[:number]) if (w, a) == (writes, attempt)]
        assert wrote, seen
        assert ("sync", "") in seen[wrote[-1] : number], f"{what} {attempt}: {seen}"
    assert sum(what == "published" for what, _ in seen) == FILES


def recorded(
    rowfall: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: Sequence[str],
) -> list[tuple[str, str]]:  # fmt: skip
    """What a load does, in its order: (INSERT, ATTACH, sync, loaded or published; attempt)."""
    seen: list[tuple[str, str]] = []
    run, sync = Embedded.run, core_disk.sync_file_system
    loaded, published = Ledger.attempt_committed, Ledger.attempt_published

    def runs(self: Embedded, statement: Statement, **more: Any) -> Any:
        outcome = run(self, statement, **more)
        text = statement.sql.reveal()
        for word, begin in (("INSERT", "INSERT INTO"), ("ATTACH", "ALTER TABLE `default`.`t` ATT")):
            if text.startswith(begin):
                seen.append((word, statement.query_id.partition("_into_")[0]))
        return outcome

    def syncs(folder: Path) -> None:
        sync(folder)
        seen.append(("sync", ""))

    def records(name: str, record: Any) -> Any:
        def recording(self: Ledger, attempt: str, *more: Any, **named: Any) -> None:
            seen.append((name, attempt))
            record(self, attempt, *more, **named)

        return recording

    monkeypatch.setattr(Embedded, "run", runs)
    monkeypatch.setattr(core_disk, "sync_file_system", syncs)
    monkeypatch.setattr(Ledger, "attempt_committed", records("loaded", loaded))
    monkeypatch.setattr(Ledger, "attempt_published", records("published", published))
    command = ("load", source / "*.csv", *OPTIONS, *KINDS["plain"], *options)
    done = rowfall.inside(*command, "--to", tmp_path / "recorded")
    assert done.returncode == 0, done.stderr
    return seen


def test_syncs_precede_records(
    rowfall: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs_precede_records(rowfall, source, tmp_path, monkeypatch)


def test_nothing_is_flushed_with_no_sync(
    rowfall: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = recorded(rowfall, source, tmp_path, monkeypatch, ["--no-sync"])
    assert ("sync", "") not in seen
