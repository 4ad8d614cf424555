"""What published versions have left behind is read, and gone on from.

``fixtures/released/make.py`` writes the archive of a version, when it is published.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import shell  # noqa: F401 - a fixture
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from rowfall.core.version import __version__

RELEASED = Path(__file__).parents[1] / "fixtures/released"
PLACE = Path("/tmp/rowfall-released")  # noqa: S108 - recorded in the ledgers
VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in RELEASED.glob("*.tar.xz"))


def test_each_published_version_has_an_archive() -> None:
    changes = (RELEASED.parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    published = [
        line.split("[")[1].split("]")[0] for line in changes.splitlines()
        if line.startswith("## [") and "unreleased" not in line.lower()
    ]  # fmt: skip
    assert set(published) <= set(VERSIONS), "run tests/fixtures/released/make.py"
    assert __version__ in VERSIONS


@pytest.fixture(params=VERSIONS)
def left(request: pytest.FixtureRequest, shell: Shell) -> Iterator[Shell]:  # noqa: F811
    """The folder of a version; one test at a time has it, as ledgers know it by its path."""
    with Path(f"{PLACE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        with tarfile.open(RELEASED / f"{request.param}.tar.xz") as packed:
            packed.extractall(PLACE, filter="data")
        # An archive keeps times in a shorter form than the manifest of an export.
        manifest = json.loads((PLACE / ".out_{n}.csv.rowfall").read_text(encoding="utf-8"))
        for output in manifest["outputs"]:
            at = int(output["version"].partition("-")[2])
            os.utime(PLACE / output["name"], ns=(at, at))
        shell.cli.cwd = PLACE
        shell.env["ROWFALL_HOME"] = str(PLACE / "state")
        try:
            yield shell
        finally:
            shutil.rmtree(PLACE)


def test_ledgers_are_read(left: Shell) -> None:
    then = json.loads((PLACE / "documents/loads.json").read_text(encoding="utf-8"))["loads"]
    now = left.ok("status", "--to", "data", "--json").document["loads"]
    kept = ("load_id", "outcome", "rows", "splits", "splits_failed", "table", "source")
    assert [[one[key] for key in kept] for one in now] == [[o[key] for key in kept] for o in then]
    assert {one["outcome"] for one in now} >= {"done", "partial"}
    for one in now:
        assert one["load_id"][:8] in left.ok("report", one["load_id"], "--to", "data").out
        if one["outcome"] != "lost":
            assert "INSERT INTO" in left.ok("explain", one["load_id"], "--to", "data").out
    # Of a server and of exports.
    found = left.ok("status", "--all", "--json").document["loads"]
    assert [one["rows"] for one in found if one["load_id"] not in {o["load_id"] for o in now}] == [
        3,
        3,
    ]


def test_documents_keep_their_fields(left: Shell) -> None:
    for name, words in (
        ("report", ("report", "last", "--to", "data")), ("loads", ("status", "--to", "data")),
        ("explanation", ("explain", "last", "--to", "data")), ("plan", ("plan", "people.csv")),
    ):  # fmt: skip
        then = json.loads((PLACE / f"documents/{name}.json").read_text(encoding="utf-8"))
        now = left.ok(*words, "--json").document
        version = f"rowfall_{name}"
        if then[version] == now[version]:
            assert set(then) <= set(now), "a field that goes needs another version of the document"
        assert then[version] <= now[version]


@pytest.mark.long
def test_loads_go_on(left: Shell) -> None:
    """What is loaded counts as loaded, and a load that was killed before it published, ends."""
    assert "nothing to load" in left.ok("load", "people.csv", "--to", "data").talk
    again = left.ends(1, "load", "part_*.csv", "--to", "data", "--type", "id Int64", "--json")
    assert (again.document["splits_skipped"], again.document["rows"]) == (3, 0)
    left.ok("load", "killed_*.csv", "--to", "data")
    sums = "SELECT count(), sum(id), sum(n) FROM "
    assert left.row(f"{sums} killed", "--to", "data") == [8, 52, 12]
    assert left.row(f"{sums} part", "--to", "data") == [6, 36, 90]
    assert left.row("SELECT count(), sum(id) FROM people", "--to", "data") == [3, 6]
    assert "1 already loaded" in left.ok("load", "people.csv", "--to", "out_{n}.csv").talk
    left.ok("plan", "people.csv", "--to", "other", "--tuned", "night")


def test_the_journal_of_a_server_is_read(left: Shell, clickhouse: ClickHouse) -> None:
    """On a machine that has never loaded anything there."""
    clickhouse.query("CREATE DATABASE released")
    for statement in (PLACE / "server.sql").read_text(encoding="utf-8").split(";;\n"):
        clickhouse.query(statement)
    to = clickhouse.uri("released")
    done = left.ok("load", "people.csv", "--to", to, "--json")
    assert (done.document["splits_skipped"], done.document["rows"]) == (1, 0)
    (PLACE / "more.csv").write_text("id,name\n4,d\n")
    left.ok("load", "more.csv", "--to", to, "--table", "people")
    assert clickhouse.query("SELECT count(), sum(id) FROM released.people").split() == ["4", "10"]
    clickhouse.query("DROP DATABASE released SYNC")
