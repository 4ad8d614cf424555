"""Objects that are another version for single requests, and the listed one again after that.

The listing and the check at the end both see version A; only what a load reads tells. Ten of 24
loads recorded A and held B, two of eight mixed both.
"""

from __future__ import annotations

import bz2
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import md5
from importlib import import_module

import pytest

from e2e.lake import Lake
from e2e.tools import Shell, csv, made
from lab.clickhouse import ClickHouse
from lab.scripted import Asked, Reply, Scripted
from rowfall.core import retry

ROWS = 5_000
NAMES = {"csv": "a.csv", "bz2": "a.csv.bz2", "parquet": "a.parquet"}
MODIFIED = ("Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 06 Nov 1995 08:49:37 GMT")
# A plan reads a sample for its forecast of the space, which a load does only where it may not fit.
UNSAMPLED = ("--no-space-check",)
Meets = Callable[[Asked, int], bool]
EVERY_OTHER: Meets = lambda asked, number: number % 2 == 1  # noqa: E731
ALWAYS: Meets = lambda asked, number: True  # noqa: E731
NEVER: Meets = lambda asked, number: False  # noqa: E731


def body(kind: str, version: int) -> bytes:
    """Rows 1 to 5,000 and the version; of both versions as many bytes, where nothing is packed."""
    if kind == "parquet":
        sql = f"SELECT number + 1 AS id, {version} AS version FROM numbers({ROWS})"
        return made(f"{sql} SETTINGS output_format_parquet_row_group_size = 1000", "Parquet")
    text = csv([(i + 1, version) for i in range(ROWS)], "id", "version").encode()
    return bz2.compress(text) if kind == "bz2" else text


@dataclass
class Flapping:
    """One object, and which of its two versions each request meets.

    Attributes:
        meets: gets the request, and its number among the GETs that read rows; True for B.
        checks: the server looks at If-Match, as S3, nginx and Apache do.
        tagged: it sends an ETag; else Last-Modified alone.
    """

    versions: tuple[bytes, bytes]
    meets: Meets = ALWAYS
    checks: bool = True
    tagged: bool = True
    reads: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        with self.lock:
            reads = asked.method == "GET" and asked.headers.get("range") != "bytes=0-0"
            number = self.reads
            self.reads += reads
        other = reads and self.meets(asked, number)
        content = self.versions[other]
        etag = f'"{md5(content).hexdigest()}"'  # noqa: S324 - as S3 does it
        if self.checks and asked.headers.get("if-match", etag) != etag:
            return Reply(b"<Error><Code>PreconditionFailed</Code></Error>", 412)
        own = {"Accept-Ranges": "bytes", "Last-Modified": MODIFIED[other]}
        return Reply(content, headers=own | ({"ETag": etag} if self.tagged else {}))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again without a pause: nothing here heals by waiting."""
    monkeypatch.setattr(retry, "pause", lambda attempt: 0.0)


@pytest.fixture(scope="module")
def versions() -> dict[str, tuple[bytes, bytes]]:
    return {kind: (body(kind, 1), body(kind, 2)) for kind in NAMES}


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def home() -> Iterator[Scripted]:
    with Scripted(lambda asked: Reply(status=404)) as server:
        yield server


def address(home: Scripted, shell: Shell, scheme: str, kind: str) -> str:
    """Where the object is, by its scheme: the path is the same."""
    if scheme == "http":
        return home.url(f"bucket/{NAMES[kind]}")
    shell.env |= {
        "AWS_ENDPOINT_URL": f"http://{home.host}", "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden-0123",
    }  # fmt: skip
    return f"s3://bucket/{NAMES[kind]}"


# One of each kind of check is tried in the gate.
QUICK = (("http", "csv", True), ("s3", "parquet", True), ("http", "bz2", False))


def readings(kinds: Iterable[str]) -> list[pytest.ParameterSet]:
    """Return the cases of two tests: what is read, and whether the store looks at If-Match."""
    return [
        pytest.param(
            *case,
            id=f"{case[0]}-{case[1]}-{'If-Match' if case[2] else 'ignores If-Match'}",
            marks=() if case in QUICK else pytest.mark.long,
        )
        for case in itertools.product(("http", "s3"), kinds, (True, False))
    ]


@pytest.fixture(autouse=True)
def _plans_show_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a plan read what a load reads before its first row, and no rows to show."""
    module = import_module("rowfall.plan.first_rows")  # rowfall.plan is a function besides
    monkeypatch.setattr(module, "first_rows", lambda *_: ())


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "kind", "checks"), readings(NAMES))
def test_the_embedded_engine_reads_what_was_listed(
    shell: Shell, home: Scripted, versions: dict[str, tuple[bytes, bytes]], scheme: str, kind: str,
    checks: bool,
) -> None:  # fmt: skip
    """All of B, and then one request in two: no row of B, and no other file is harmed."""
    flapping = home.reply = Flapping(versions[kind], NEVER, checks)
    url = address(home, shell, scheme, kind)
    load = ("load", url, "--table", "t", "--decoder", "never", *UNSAMPLED)
    plan = shell.ok("plan", *load[1:])
    if scheme == "http" and kind == "parquet" and not checks:
        # The engine reads it in parts, each with a request of its own; the plan says so.
        assert "cannot ask for one version" in " ".join(plan.out.split())
        return
    # A load asks what its plan has asked, and then it reads.
    start = 2 * flapping.reads
    flapping.meets = lambda asked, number: number >= start
    failed = shell.ends(1, *load)
    # Parts of two versions may be no Parquet at all.
    assert kind == "parquet" or "changed while it was read" in failed.talk
    flapping.meets = EVERY_OTHER
    assert_whole(shell, shell.run(*load).code)
    flapping.meets = NEVER
    shell.ok(*load)
    assert shell.row(TOTALS) == [ROWS, ROWS, 1, 1]


TOTALS = "SELECT count(), uniqExact(id), min(version), max(version) FROM t"


def assert_whole(shell: Shell, code: int) -> None:
    """Either nothing is there and the command says so, or all rows of A."""
    if code == 0:
        assert shell.row(TOTALS) == [ROWS, ROWS, 1, 1]
    else:
        assert code in (1, 4)
        full = "SELECT name FROM system.tables WHERE name = 't' AND total_rows > 0"
        assert shell.rows(full) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_what_the_decoder_declines_is_read_pinned(
    shell: Shell, home: Scripted, versions: dict[str, tuple[bytes, bytes]], scheme: str
) -> None:
    """The decoder notices the change and leaves the object to the engine, which took B."""
    flapping = home.reply = Flapping(versions["csv"], NEVER, checks=False)
    url = address(home, shell, scheme, "csv")
    shell.ok("plan", url, "--table", "t", "--decoder", "always", *UNSAMPLED)
    start = 2 * flapping.reads
    flapping.meets = lambda asked, number: number >= start
    done = shell.ends(1, "load", url, "--table", "t", "--decoder", "always", *UNSAMPLED)
    assert "changed while it was read" in done.talk
    assert_whole(shell, 1)
    flapping.meets = EVERY_OTHER
    assert_whole(shell, shell.run("load", url, "--table", "t").code)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("scheme", "kind", "checks"), readings(("csv", "parquet")))
def test_a_server_pulls_what_was_listed(
    lake: Lake, home: Scripted, versions: dict[str, tuple[bytes, bytes]], scheme: str, kind: str,
    checks: bool,
) -> None:  # fmt: skip
    flapping = home.reply = Flapping(versions[kind], NEVER, checks)
    url = address(home, lake.shell, scheme, kind)
    load = ("load", url, "--table", "t", "--decoder", "never", "--pull", *UNSAMPLED)
    plan = lake.ok("plan", *load[1:])
    if not checks:
        # Such a server cannot be sure; the plan says so.
        said = "before 26.7 looks at the ETag" if scheme == "s3" else "cannot ask for one version"
        assert said in " ".join(plan.out.split())
        return
    # A load asks what its plan has asked, and then it reads.
    start = 2 * flapping.reads
    flapping.meets = lambda asked, number: number >= start
    failed = lake.ends(1, *load)
    assert "changed while it was read" in failed.talk
    held = "SELECT sum(total_rows) FROM system.tables WHERE database = '{db}' AND name = 't'"
    assert lake.row(held) == [0]
    flapping.meets = NEVER
    lake.ok(*load)
    totals = "SELECT count(), uniqExact(id), min(version), max(version) FROM {db}.t"
    assert lake.row(totals) == [ROWS, ROWS, 1, 1]


def test_a_file_without_etag_is_known_by_its_time(
    shell: Shell, home: Scripted, versions: dict[str, tuple[bytes, bytes]]
) -> None:
    flapping = home.reply = Flapping(versions["csv"], NEVER, checks=False, tagged=False)
    url = address(home, shell, "http", "csv")
    load = ("load", url, "--table", "t", "--decoder", "never", *UNSAMPLED)
    shell.ok("plan", *load[1:])
    start = 2 * flapping.reads
    flapping.meets = lambda asked, number: number >= start
    assert "changed while it was read" in shell.ends(1, *load).talk
    flapping.meets = NEVER
    shell.ok(*load)
    assert shell.row(TOTALS) == [ROWS, ROWS, 1, 1]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_of_many_fails_alone(
    shell: Shell, home: Scripted, versions: dict[str, tuple[bytes, bytes]], scheme: str, kind: str
) -> None:
    """More files than are asked for one by one: the engine compares what it is told of each."""
    flapping, still = (Flapping(versions[kind], NEVER) for _ in range(2))
    home.reply = lambda asked: (flapping if "/3/" in asked.path else still)(asked)
    address(home, shell, scheme, kind)
    start = "s3://bucket" if scheme == "s3" else home.url("bucket")
    urls = [f"{start}/{number}/{NAMES[kind]}" for number in range(7)]
    plan = shell.ok("plan", *urls, "--table", "t", "--decoder", "never", *UNSAMPLED)
    unpinned = scheme == "http" and kind == "parquet"
    assert ("cannot ask for one version" in " ".join(plan.out.split())) == unpinned
    if unpinned:
        shell.ok("load", *urls, "--table", "t", "--decoder", "never", *UNSAMPLED)
        assert shell.row(TOTALS) == [7 * ROWS, ROWS, 1, 1]
        return
    known = 2 * flapping.reads
    flapping.meets = lambda asked, number: number >= known
    failed = shell.ends(1, "load", *urls, "--table", "t", "--decoder", "never", *UNSAMPLED)
    assert "changed while it was read" in failed.talk
    assert [line.split()[1] for line in failed.err.splitlines() if "failed: " in line] == [
        f"{urls[3]}:"
    ]
    assert shell.row(TOTALS) == [6 * ROWS, ROWS, 1, 1]
    flapping.meets = NEVER
    shell.ok("load", *urls, "--table", "t", "--decoder", "never", *UNSAMPLED)
    assert shell.row(TOTALS) == [7 * ROWS, ROWS, 1, 1]
