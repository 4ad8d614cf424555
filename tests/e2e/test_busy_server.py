"""A ClickHouse server behind a proxy that refuses, stalls and cuts: each statement of a load.

Each is survived within --patience, and what stays is said with the server and what it answered. No
row is lost or doubled, whichever request it was.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from e2e.lake import Lake
from lab.clickhouse import ClickHouse
from lab.faulty import Fault, Faulty, Request, first
from lab.seaweed import Seaweed
from rowfall.systems.clickhouse import server as engine

PAGE = {"Content-Type": "text/html"}
HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
BUSY = {
    "429": Fault(status=429, headers={"Retry-After": "1"}, body=b"slow down"),
    "503": Fault(status=503, body=b"upstream connect error"),
    "503 later": Fault(status=503, headers={"Retry-After": "1"}),
    "502": Fault(status=502, headers=PAGE, body=HTML),
}
FAULTS = {
    **BUSY,
    "reset before": Fault(reset="before"),
    "reset in the body": Fault(cut_request=20),
    "reset after": Fault(reset="after"),
    "stall": Fault(stall=4, reset="before"),
    "stall in the answer": Fault(stall_answer=4),
    "cut answer": Fault(truncate=0),
}
# Each kind of statement that a load sends, by its beginning.
KINDS = {
    "profile": "SELECT 'own'",
    "rights": "SHOW GRANTS",
    "target": r"SELECT database, name, toString\(uuid\)",
    "make target": "CREATE TABLE IF NOT EXISTS .*`t`",
    "make journal": "CREATE TABLE IF NOT EXISTS .*_rowfall_journal",
    "claim": "INSERT INTO .*_rowfall_journal.* SELECT 'claim'",
    "stage": "CREATE TABLE .*`_rowfall_[^`]*` AS ",
    "rows": "INSERT INTO .*`_rowfall_.* FORMAT Native",
    "count": "SELECT partition_id, sumIf",
    "sync": "SYSTEM SYNC FILE CACHE",
    "commit": "INSERT INTO .*_rowfall_journal.* SELECT 'commit'",
    "publish": "ALTER TABLE .*`t` ATTACH PARTITION ALL FROM",
    "record": "INSERT INTO .*_rowfall_journal.* SELECT 'landed'",
    "drop": "DROP TABLE IF EXISTS",
}
ROWS, FILES = 5_000, 2
TOTALS = "SELECT count(), uniqExact(id), sum(id) FROM {db}.t"
WHOLE = [FILES * ROWS, FILES * ROWS, sum(range(FILES * ROWS))]


def of(kind: str) -> Callable[[Request], bool]:
    wanted = re.compile(KINDS[kind])
    return lambda request: wanted.match(" ".join(request.sql.split())) is not None


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def proxy(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """A proxy in front of the server of a lake, which has two files to load."""
    # What is no more among the processes and has not answered for 30 s is given up.
    monkeypatch.setattr(engine, "SILENCE_SECONDS", 1.0)
    for number in range(FILES):
        lines = (f"{n},name-{n}\n" for n in range(number * ROWS, (number + 1) * ROWS))
        lake.shell.write(f"{number}.csv", "id,name\n" + "".join(lines))
    with Faulty(lake.server.http_port) as proxy:
        yield proxy
        assert not proxy.errors


def load(lake: Lake, proxy: Faulty, patience: str) -> tuple[str, ...]:
    to = lake.server.uri(lake.database, port=proxy.port)
    return ("load", "0.csv", "1.csv", "--to", to, "--table", "t", "--patience", patience)


# The first is always among those that are kept: staging has got another name then, and stayed.
CASES = sorted(itertools.product(KINDS, FAULTS), key=lambda case: case != ("publish", "503"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_fault_is_survived(lake: Lake, proxy: Faulty, kind: str, name: str) -> None:
    """A 429 or 503 ended the load with a hint about ports, or with exit code 70."""
    met = []

    def hurts(request: Request) -> bool:
        if of(kind)(request):
            met.append(request)
        return of(kind)(request)

    proxy.script = first(1, FAULTS[name], hurts)
    lake.shell.ok(*load(lake, proxy, "20s"))
    assert met
    assert lake.row(TOTALS) == WHOLE
    assert lake.staging() == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "name"),
    [*itertools.product(("profile", "target", "make target", "rows", "count", "publish"), BUSY)],
)
def test_what_lasts_is_named(lake: Lake, proxy: Faulty, kind: str, name: str) -> None:
    proxy.script = first(1_000, FAULTS[name], of(kind))
    done = lake.shell.run(*load(lake, proxy, "2s"))
    assert done.code in (5, 6)
    assert f"127.0.0.1:{proxy.port}" in done.talk
    assert f"a proxy answered with status {name[:3]}" in done.talk
    assert "HTTP port" not in done.talk
    proxy.script = None
    lake.shell.ok(*load(lake, proxy, "20s"))
    assert lake.row(TOTALS) == WHOLE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BUSY)
def test_rows_wait_for_a_busy_server(lake: Lake, proxy: Faulty, name: str) -> None:
    """Three tries took 3.5 seconds, whatever --patience said."""
    proxy.script = first(5, FAULTS[name], of("rows"))
    lake.shell.ok(*load(lake, proxy, "60s"))
    assert sum(map(of("rows"), proxy.requests)) > 5
    assert lake.row(TOTALS) == WHOLE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAULTS)
def test_a_server_that_pulls(
    lake: Lake, proxy: Faulty, s3: Seaweed, bucket: str, name: str
) -> None:
    for number in range(FILES):
        body = (lake.shell.folder / f"{number}.csv").read_bytes()
        s3.put(bucket, f"{number}.csv", body)
    lake.shell.env |= s3.env
    pulls = re.compile(r"INSERT INTO .*`_rowfall_.* SELECT .*s3\(", re.DOTALL)
    proxy.script = first(
        1, FAULTS[name], lambda r: pulls.match(" ".join(r.sql.split())) is not None
    )
    to = lake.server.uri(lake.database, port=proxy.port)
    lake.shell.ok(
        "load", f"s3://{bucket}/", "--to", to, "--table", "t", "--pull", "--decoder", "never"
    )
    assert lake.row(TOTALS) == WHOLE


def test_a_page_of_a_login_is_not_waited_for(lake: Lake, proxy: Faulty) -> None:
    proxy.script = first(1_000, Fault(status=403, headers=PAGE, body=HTML), lambda request: True)
    done = lake.shell.ends(5, *load(lake, proxy, "1h"))
    assert "does not answer like the HTTP port of a ClickHouse server: status 403" in done.talk
