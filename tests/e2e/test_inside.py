"""rowfall-decode inside a server: what it pulls is parsed by a program that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lake import RIGHTS, SYSTEM, Lake
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed
from rowfall import __version__
from rowfall.decoder import installed
from rowfall.deliver.ranges import LEAST

ROWS = 40_000
EXACT = [ROWS, ROWS * (ROWS + 1) // 2, ROWS]
COUNT = "SELECT count(), sum(id), uniqExact(id) FROM {db}.t"


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    with ClickHouse() as service:
        yield service


@pytest.fixture
def scripts(server: ClickHouse) -> Iterator[Path]:
    """The server's folder of programs, empty."""
    folder = server.folder / "user_scripts"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    yield folder
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def source(s3: Seaweed, bucket: str) -> str:
    """Four objects that together hold the ids from 1 to ROWS."""
    step = ROWS // 4
    for n in range(4):
        lines = "".join(f'{i},"n {i % 7}"\n' for i in range(n * step + 1, (n + 1) * step + 1))
        s3.put(bucket, f"in/{n}.csv", f"id,name\n{lines}".encode())
    return f"s3://{bucket}/in/*.csv"


def program() -> str:
    found = installed.program()
    assert found, "make test builds it: make decoder"
    return found


def instead(scripts: Path, text: str) -> None:
    """A shell script in place of the program; ``$real`` is the program."""
    path = scripts / installed.PROGRAM
    real = scripts / "real"
    real.write_bytes(Path(program()).read_bytes())
    path.write_text(f'#!/bin/sh\nreal={real}\n[ "$1" = --version ] && exec $real --version\n{text}')
    for each in (path, real):
        each.chmod(0o755)


def read_inside(lake: Lake) -> int:
    """INSERTs of this database that started the program and ended well."""
    lake.server.query("SYSTEM FLUSH LOGS")
    return int(lake.row(
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND query_kind = 'Insert' "
        "AND position(query, 'executable(') > 0 AND position(query, '{db}') > 0"
    )[0])  # fmt: skip


def test_install_and_load(lake: Lake, scripts: Path, s3: Seaweed, source: str) -> None:
    before = lake.ok("plan", source, "--table", "t", "--pull", "--json", env=s3.env).document
    assert (before["decoder"], before["why_decoder"]) == (
        "engine", "the server has no rowfall-decode",
    )  # fmt: skip
    done = lake.ok("install-decoder", "--json").document
    assert done == {
        "rowfall_install": 1, "path": str(scripts / "rowfall-decode"), "changed": True,
        "away": [],
    }  # fmt: skip
    assert "is installed already" in lake.ok("install-decoder").talk
    made = lake.ok("plan", source, "--table", "t", "--json", env=s3.env).document
    assert (made["delivery"], made["decoder"]) == ("pull", "rowfall-decode")
    assert made["why"].endswith("rowfall-decode parses there")
    report = lake.load(source, "--table", "t", "--verify", env=s3.env)
    assert (report["rows"], report["attempts"], report["notes"]) == (ROWS, 1, [])
    assert lake.row(COUNT) == EXACT
    assert read_inside(lake) == 1


@pytest.mark.long
def test_a_big_object_is_shared_by_several_programs(
    lake: Lake, scripts: Path, s3: Seaweed, bucket: str
) -> None:
    lake.ok("install-decoder")
    rows = 2_000_000
    lines = b"".join(b"%09d,%010d\n" % (i, i) for i in range(1, rows + 1))
    assert len(lines) > 2 * LEAST
    s3.put(bucket, "big.csv", b"id,name\n" + lines)
    report = lake.load(
        f"s3://{bucket}/big.csv", "--table", "t", "--schema", "id UInt32, name String",
        "--threads", "2", env=s3.env,
    )  # fmt: skip
    assert (report["rows"], report["notes"]) == (rows, [])
    assert lake.row(COUNT) == [rows, rows * (rows + 1) // 2, rows]
    assert read_inside(lake) == 1
    assert lake.row(
        "SELECT max(countSubstrings(query, 'executable(')) FROM system.query_log "
        "WHERE query_kind = 'Insert' AND position(query, '{db}') > 0"
    ) == [2]  # fmt: skip


def test_the_rights_that_it_takes(lake: Lake, scripts: Path, s3: Seaweed, source: str) -> None:
    lake.ok("install-decoder")
    # S3 is what pulling takes; it brings CREATE TEMPORARY TABLE along, which executable() takes.
    grants = (f"{RIGHTS} ON {lake.database}.*", *SYSTEM, "S3 ON *.*")
    user = lake.server.add_user(f"{lake.database}_loader", *grants)
    assert lake.load(source, "--table", "t", "--pull", account=user, env=s3.env)["rows"] == ROWS
    assert read_inside(lake) == 1


def test_no_log_holds_a_key_or_a_signature(
    lake: Lake, scripts: Path, s3: Seaweed, source: str
) -> None:
    lake.ok("install-decoder")
    lake.load(source, "--table", "t", env=s3.env)
    assert read_inside(lake) == 1
    for secret in (s3.secret_key, "X-Amz-Signature"):
        assert lake.row(
            f"SELECT countIf(position(query, '{secret[:8]}' || '{secret[8:]}') > 0 AND "
            "position(query, 'countIf') = 0) FROM system.query_log"
        ) == [0]  # fmt: skip
        for log in lake.server.folder.rglob("*.log"):
            assert secret.encode() not in log.read_bytes()


@pytest.mark.long
def test_another_version_is_not_used(lake: Lake, scripts: Path, s3: Seaweed, source: str) -> None:
    path = scripts / installed.PROGRAM
    path.write_text("#!/bin/sh\necho rowfall-decode 0.0.9\n")
    path.chmod(0o755)
    made = lake.ok("plan", source, "--table", "t", "--pull", "--json", env=s3.env).document
    assert made["why_decoder"] == f"the server has rowfall-decode 0.0.9, and this is {__version__}"
    done = lake.ends(2, "load", source, "--table", "t", "--pull", "--decoder", "always", env=s3.env)
    assert "rowfall install-decoder" in done.talk
    assert lake.ok("install-decoder", "--json").document["changed"] is True
    assert lake.load(source, "--table", "t", env=s3.env)["rows"] == ROWS


def test_what_it_declines_the_server_reads(
    lake: Lake, scripts: Path, s3: Seaweed, bucket: str, source: str
) -> None:
    lake.ok("install-decoder")
    # A plus sign is the engine's business.
    s3.put(bucket, "in/4.csv", f"id,name\n+{ROWS + 1},x\n".encode())
    schema = ("--schema", "id UInt32, name String")
    report = lake.load(source, "--table", "t", *schema, env=s3.env)
    assert lake.row(COUNT) == [ROWS + 1, (ROWS + 1) * (ROWS + 2) // 2, ROWS + 1]
    assert "the engine reads it instead" in report["notes"][0]
    s3.put(bucket, "in/5.csv", b"id,name\n7x,x\n")
    done = lake.ends(1, "load", source, "--table", "t", *schema, env=s3.env)
    assert 'in/5.csv line 2 column "id": "7x" does not fit UInt32' in done.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('"$real" "$@" | head -c 50000; kill -9 $$\n', id="killed in the middle"),
        pytest.param('"$real" "$@" | head -c 50000; exit 4\n', id="fails in the middle"),
        pytest.param("exit 3\n", id="declines at once"),
    ],
)
def test_a_program_that_dies_leaves_nothing(
    lake: Lake, scripts: Path, s3: Seaweed, source: str, text: str
) -> None:
    instead(scripts, text)
    report = lake.load(source, "--table", "t", "--verify", env=s3.env)
    assert report["rows"] == ROWS
    assert lake.row(COUNT) == EXACT
    assert lake.tables() == {"t", "_rowfall_journal"}


@pytest.mark.long
def test_a_program_that_is_silent_for_a_while(
    lake: Lake, scripts: Path, s3: Seaweed, source: str
) -> None:
    # The server's own patience would be 10 s.
    instead(scripts, 'sleep 12\nexec "$real" "$@"\n')
    assert lake.load(source, "--table", "t", env=s3.env)["rows"] == ROWS
    assert read_inside(lake) == 1


def test_what_cannot_be_installed(lake: Lake, scripts: Path) -> None:
    assert "is not a server" in lake.shell.ends(2, "install-decoder", "--to", "folder").talk
    done = lake.ends(5, "install-decoder", "--folder", "/nowhere/at/all")
    assert "/nowhere/at/all of clickhouse://" in done.talk
    assert f"Copy {program()} there" in done.talk.replace("\n", " ").replace("  ", " ")
    assert not os.listdir(scripts)
    account = lake.server.add_user("reader", "SELECT ON *.*")
    assert "does not run programs" in lake.ends(5, "install-decoder", account=account).talk
