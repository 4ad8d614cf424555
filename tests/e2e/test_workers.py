"""A load that several workers share: processes of one machine, killed, late, of other versions."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

import rowfall
from e2e.fleet import Fleet
from e2e.lake import JOURNAL, Lake
from e2e.tools import Shell, csv
from lab.clickhouse import ClickHouse
from lab.http import Web
from lab.process import let_pass, wait_until
from lab.ray_head import RayHead, ray_environment
from lab.seaweed import Seaweed
from rowfall.ledger.team import TABLE

pytestmark = pytest.mark.xdist_group("server")
FILES, ROWS = 12, 50
HEAD = ("id", "name")


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def write_files(lake: Lake, files: int = FILES) -> None:
    for number in range(files):
        some = [(number * ROWS + i, f"n{i}") for i in range(ROWS)]
        lake.shell.write(f"in/f{number:03}.csv", csv(some, *HEAD))


# The leader is stopped in the middle of its first attempt: before it is inserted, and behind its
# COMMIT, its ATTACH, and the line that says that it is loaded, so that only its staging is left.
INSERTS = "rowfall.run.attempts:AttemptRunner._deliver"
COMMITS = "rowfall.ledger.journal:Journal.commit"
PUBLISHES = "rowfall.publish.tables:TableReceiver.publish"
RECORDS = "rowfall.ledger.journal:Journal.loaded"
SMALL = ("in/*.csv", "--attempt-bytes", "1")
ROOT = Path(__file__).parents[2]
KILLER = ROOT / "tests/faults/killer.py"


class Workers:
    """Processes that share a load, each with a state folder (so a ledger) of its own."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, *args: str, program: Sequence[str] = (), **env: str
    ) -> subprocess.Popen[str]:  # fmt: skip
        home = str(self.lake.shell.folder / f"state{len(self.started)}")
        process: subprocess.Popen[str] = self.lake.shell.cli.start(
            *args, "--to", self.lake.to, env=self.lake.shell.env | {"ROWFALL_HOME": home} | env,
            program=program,
        )  # fmt: skip
        self.started.append(process)
        return process

    def load(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        return self.start("load", *args, "--table", "t", "--fleet", "f", "--json", **more)

    def hurt(self, name: str, at: str, number: int = 1) -> subprocess.Popen[str]:
        """Begin the load in a process that sends itself a signal at the call of a function."""
        side = "before" if at == INSERTS else "after"
        program = (sys.executable, str(KILLER), at, str(number), side)
        return self.load(*SMALL, program=program, SIGNAL=f"SIG{name}")

    def hold(self, at: str) -> tuple[subprocess.Popen[str], Path]:
        """Begin the load in a process that waits at a call until the FIFO is written to.

        Unlike one that is stopped it gives signs of life.
        """
        held = self.lake.shell.folder / "held"
        os.mkfifo(held)
        program = (sys.executable, str(KILLER), at, "1", "before")
        return self.load(*SMALL, program=program, HOLD=str(held)), held

    def join(self, name: str = "f", *args: str, **more: Any) -> subprocess.Popen[str]:
        return self.start("worker", name, "--json", *args, **more)

    def refused(self, *options: str) -> str:
        return ended(self.load(*SMALL, *options), 2)[1]

    def plans(self) -> int:
        """How many plans have been written down."""
        if TABLE not in self.lake.tables():
            return 0
        return int(self.lake.row(f"SELECT count() FROM {{db}}.{TABLE} WHERE event = 'plan'")[0])


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[dict[str, Any], str]:
    """The document and the talk of a process, which ends with that code."""
    out, err = process.communicate(timeout=180)
    assert process.returncode == code, f"{process.args!r}\n{out}\n{err}"
    assert "Traceback" not in err
    return json.loads(out) if out.strip() else {}, " ".join(err.split())


def check_rows(lake: Lake, files: int = FILES) -> None:
    """Every row is there once, and nothing is left over."""
    total = files * ROWS
    assert lake.row("SELECT count(), uniqExact(id), sum(id) FROM {db}.t") == [
        total, total, total * (total - 1) // 2,
    ]  # fmt: skip
    assert lake.tables() == {"t", JOURNAL, TABLE}


def wait_rows(lake: Lake, rows: int) -> None:
    """Wait until so many rows are visible."""

    def there() -> bool:
        return "t" in lake.tables() and lake.row("SELECT count() FROM {db}.t")[0] >= rows

    wait_until(there, 90, f"{rows} rows")


def loaded(workers: Sequence[dict[str, Any]]) -> int:
    return sum(worker["rows"] for worker in workers)


@pytest.fixture
def workers(lake: Lake) -> Workers:
    write_files(lake)
    return Workers(lake)


@pytest.mark.long
def test_a_worker_joins_a_load(workers: Workers) -> None:
    lake = workers.lake
    # It holds a file for a while: the other one loads all others, and waits for it.
    first, held = workers.hold(INSERTS)
    second = workers.join()
    wait_rows(lake, (FILES - 1) * ROWS)
    held.write_text("")
    report, talk = ended(first)
    own, joined = ended(second)
    assert "other machines join this load by: rowfall worker f --to" in talk
    assert f"joins load f ({report['load_id'][:8]})" in joined
    check_rows(lake)
    assert (report["rows"], report["splits_loaded"], report["splits_skipped"]) == (
        FILES * ROWS, FILES, 0,
    )  # fmt: skip
    assert [(w["rows"], w["splits"], w["state"], w["leads"]) for w in report["workers"]] == [
        (ROWS, 1, "done", True), ((FILES - 1) * ROWS, FILES - 1, "done", False),
    ]  # fmt: skip
    assert [w["load_id"] for w in report["workers"]] == [report["load_id"], own["load_id"]]
    assert {w["pid"] for w in report["workers"]} == {first.pid, second.pid}
    assert (own["rows"], own["workers"]) == ((FILES - 1) * ROWS, [])
    assert any("the report of all workers has" in note for note in own["notes"])
    # One that comes later has nothing to do.
    late, talk = ended(workers.join())
    assert (late, "load f has ended: nothing is left to do" in talk) == ({}, True)


@pytest.mark.long
@pytest.mark.parametrize("at", [INSERTS, COMMITS, PUBLISHES, RECORDS])
def test_the_leader_is_killed(workers: Workers, at: str) -> None:
    """The other one loads the rest and reports, and drops what is left."""
    lake = workers.lake
    first = workers.hurt("STOP", at)
    second = workers.join()
    # Behind its first attempt it has begun the next one.
    wait_rows(lake, (FILES - 2 + (at != COMMITS)) * ROWS)
    first.kill()
    report, _ = ended(second)
    check_rows(lake)
    assert (report["rows"], report["splits_loaded"], report["outcome"]) == (
        FILES * ROWS, FILES, "done",
    )  # fmt: skip
    lost, own = report["workers"]
    mine = FILES - (at != INSERTS)
    assert (lost["state"], lost["rows"], lost["pid"]) == ("lost", (FILES - mine) * ROWS, first.pid)
    assert (own["state"], own["splits"], own["leads"]) == ("done", mine, True)
    assert any(note.startswith("died while it loaded") for note in report["notes"])


@pytest.mark.long
def test_all_workers_run_the_same_command(workers: Workers) -> None:
    """As the pods of an indexed Job do: the first one plans, and the others join."""
    found = [ended(process)[0] for process in [workers.load(*SMALL) for _ in range(3)]]
    check_rows(workers.lake)
    whole = max(found, key=lambda report: report["rows"] * bool(report["workers"]))
    assert (whole["rows"], loaded(whole["workers"])) == (FILES * ROWS, FILES * ROWS)


# Another program than an installation: the version is read before anything else is imported.
OTHER = (
    sys.executable, "-c", "import rowfall.core.version as v; v.__version__ = '0.0.9'\n"
    "from rowfall.cli import main; main()",
)  # fmt: skip


@pytest.mark.long
def test_who_cannot_take_part_says_why(workers: Workers) -> None:
    lake, name = workers.lake, "in/f003.csv"
    first, _ = workers.hold(INSERTS)
    wait_until(lambda: workers.plans() == 1, 60, "the plan")
    _, talk = ended(workers.join(program=OTHER), 2)
    assert f"load f is run by rowfall {rowfall.__version__} on" in talk
    assert "this is rowfall 0.0.9: all workers of a load need one version" in talk
    assert f"hint: pip install rowfall=={rowfall.__version__}" in talk
    _, talk = ended(workers.load(*SMALL, "--where", "id > 3"), 2)
    assert "has --where not given, and this one id > 3" in talk
    _, talk = ended(workers.start("load", *SMALL, "--table", "u", "--fleet", "f"), 2)
    assert f"goes into {lake.database}.t, and this one into {lake.database}.u" in talk
    before = lake.shell.folder / name
    before.write_text(before.read_text() + "7,x\n")
    _, talk = ended(workers.join(), 4)
    assert f"{before}: the file of load f, as" in talk
    assert "is another version: " in talk
    before.unlink()
    _, talk = ended(workers.join(), 4)
    assert "has listed it, is not there" in talk
    assert "--fleet and --replace exclude each other" in workers.refused("--replace")
    assert "needs a ClickHouse server" in lake.shell.ends(
        2, "load", *SMALL, "--fleet", "f"
    ).talk  # fmt: skip
    first.kill()


@pytest.mark.long
@pytest.mark.parametrize("at", [INSERTS, COMMITS])
def test_a_worker_that_comes_back_loads_nothing_twice(workers: Workers, at: str) -> None:
    """Its process is stopped for longer than its leases: others have loaded its files meanwhile."""
    lake = workers.lake
    first = workers.hurt("STOP", at)
    second = workers.join()
    report, _ = ended(second)
    assert (report["rows"], report["outcome"]) == (FILES * ROWS, "done")
    assert [w["state"] for w in report["workers"]] == ["lost", "done"]
    first.send_signal(signal.SIGCONT)
    back, _ = ended(first)
    check_rows(lake)
    assert back["outcome"] == "done"


@pytest.mark.long
def test_two_of_four_workers_are_killed(lake: Lake) -> None:
    """Whenever that is: every row is there once, and the report adds up."""
    many = 120
    write_files(lake, many)
    workers = Workers(lake)
    draw = random.Random()
    processes = [workers.load(*SMALL) for _ in range(4)]
    for process, share in zip(processes[:2], (0.2, 0.5), strict=True):
        wait_rows(lake, round(many * ROWS * share))
        let_pass(draw.random() * 0.3, "a kill comes at any moment of an attempt")
        process.kill()
    found = [ended(process)[0] for process in processes[2:]]
    check_rows(lake, many)
    (whole,) = [report for report in found if report["workers"]]
    assert (whole["rows"], loaded(whole["workers"])) == (many * ROWS, many * ROWS)
    states = sorted(worker["state"] for worker in whole["workers"])
    assert states == ["done", "done", "lost", "lost"]
    assert whole["splits_loaded"] + whole["splits_skipped"] == many


@pytest.mark.long
def test_the_table_of_workers_is_dropped(workers: Workers) -> None:
    """In the middle: every row is there once, and each worker reports its own part."""
    lake = workers.lake
    first = workers.hurt("STOP", INSERTS)
    second = workers.join()
    wait_rows(lake, (FILES - 1) * ROWS)
    lake.do(f"DROP TABLE {{db}}.{TABLE} SYNC")
    first.send_signal(signal.SIGCONT)
    reports = [ended(process)[0] for process in (first, second)]
    assert loaded(reports) == FILES * ROWS
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [FILES * ROWS, FILES * ROWS]
    for report in reports:
        assert any(n.startswith("what the other workers have loaded") for n in report["notes"])


def skewed(seconds: int) -> tuple[str, ...]:
    """A program whose clock is wrong, for all that it asks."""
    text = (
        f"import time; real, ns = time.time, time.time_ns; time.time = lambda: real() + {seconds}"
        f"; time.time_ns = lambda: ns() + {seconds} * 10**9; from rowfall.cli import main; main()"
    )
    return sys.executable, "-c", text


@pytest.mark.long
def test_clocks_of_workers_differ_by_hours(workers: Workers) -> None:
    started = [workers.load(*SMALL, program=skewed(n)) for n in (-3_600, 0, 3_600)]
    found = [ended(process)[0] for process in started]
    check_rows(workers.lake)
    whole = max(found, key=lambda report: report["rows"] * bool(report["workers"]))
    assert (whole["rows"], whole["outcome"]) == (FILES * ROWS, "done")
    assert 0 < whole["seconds"] < 600


@pytest.mark.long
def test_the_pods_of_the_job_share_a_load(lake: Lake, s3: Seaweed, bucket: str) -> None:
    """The arguments of ``deploy/workers.yaml``, by four processes."""
    for number in range(FILES):
        text = csv([(number * ROWS + i, f"n{i}") for i in range(ROWS)], *HEAD)
        s3.put(bucket, f"trips/{number}.csv.gz", gzip.compress(text.encode()))
    _, job = yaml.safe_load_all((ROOT / "deploy/workers.yaml").read_text())
    pod = job["spec"]["template"]["spec"]["containers"][0]
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", 4)
    args = [arg.replace("s3://lake/", f"s3://{bucket}/") for arg in pod["args"]]
    args = [arg for arg in args if not arg.startswith(("--to=", "--table=", "--log-format="))]
    workers = Workers(lake)
    pods = [workers.start(*args, "--table", "t", "--json", **s3.env) for _ in range(4)]
    for process in pods:
        ended(process)
    check_rows(lake)


def test_one_alone_shares_with_nobody(lake: Lake) -> None:
    """What is cheap enough for the gate: commands that come one after the other."""
    write_files(lake, 2)
    talk = lake.ends(2, "worker", "f", "--wait", "0.1s").talk
    assert "no load f runs into clickhouse://" in talk
    assert "hint: Begin it: rowfall load SOURCE --to" in talk
    command = ("in/*.csv", "--table", "t", "--fleet", "f")
    report = lake.load(*command)
    assert [(w["rows"], w["leads"], w["state"]) for w in report["workers"]] == [
        (2 * ROWS, True, "done")
    ]
    check_rows(lake, 2)
    found = lake.ok("status", "f", "--json").document
    assert (found["load_id"], found["outcome"], found["rows"]) == (
        report["load_id"], "done", 2 * ROWS,
    )  # fmt: skip
    assert "is left to do" in lake.ok("worker", report["load_id"][:6]).talk
    # The beginning of an id is not short: any name of one letter would be some load's.
    talk = lake.ends(2, "worker", report["load_id"][:2], "--wait", "0.1s").talk
    assert f"no load {report['load_id'][:2]} runs into" in talk
    assert "exclude each other" in lake.ends(2, "load", *command, "--atomic").talk
    assert "is no name for a load" in lake.ends(2, "load", *command[:3], "--fleet", " ").talk
    talk = lake.ends(2, "load", "in/*.csv", "--table-per-file", "--fleet", "f").talk
    assert "these are many tables" in talk
    talk = lake.ends(2, "load", *command, "--set", "format_schema=https://h/?key=hunter22").talk
    assert "where others may read them" in talk
    assert "hunter22" not in talk
    assert "no place to run workers on" in lake.ends(2, "load", *command, "--on", "dask").talk
    assert "it is --threads N" in lake.ends(2, "load", *command, "--workers", "4").talk
    assert "rowfall[ray]" in lake.ends(2, "load", *command, "--on", "ray").talk
    again = lake.load(*command)
    assert (again["rows"], again["splits_skipped"], again["outcome"]) == (0, 2, "done")


def test_secrets_of_a_source_are_not_shared(lake: Lake) -> None:
    """Who joins by name alone cannot read it; who gives it in full can."""
    with closing(Web()) as web:
        source = web.put("f.csv", csv([(1, "a"), (2, "b")], *HEAD).encode())
        source = source.replace("http://", "http://me:s3cret@")
        command = (source, "--table", "t", "--fleet", "f", "--attempt-bytes", "1")
        lake.load(*command)
        # A leader of another machine: what it has written down is all that is known of it.
        plan = lake.row(f"SELECT detail FROM {{db}}.{TABLE} WHERE event = 'plan'")[0]
        assert "s3cret" not in plan
        assert "me:[HIDDEN]@" in plan or "[HIDDEN]@" in plan
        owner = "elsewhere/1 7 7 aa"
        lake.do(
            f"INSERT INTO {{db}}.{TABLE} (pipeline, event, owner, item, detail, at) SELECT 'f', "
            f"arrayJoin(['claim', 'plan']), '{owner}', '', detail, now64(3) FROM {{db}}.{TABLE} "
            "WHERE event = 'plan'"
        )
        talk = lake.ends(2, "worker", "f").talk
        assert "whose secrets are not shared hint: Give the sources in full here as well" in talk
        assert "s3cret" not in talk


@pytest.mark.long
@pytest.mark.timeout(400)  # Ray takes 20 s to start on a busy machine, and as long to end
def test_ray_starts_two_workers(lake: Lake) -> None:
    """A real Ray of this machine: the load is shared by its workers and this process."""
    # Ray's sockets have paths of at most 107 bytes, and the folders of tests are long.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        load_on_ray(lake, "ray", ray_environment(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.timeout(900)  # the head, the server of clients and two workers import Ray
def test_a_ray_elsewhere_starts_two_workers(lake: Lake) -> None:
    """The head of a real Ray, which is reached as one of other machines is."""
    with RayHead({"ROWFALL_PASSWORD": lake.server.password}) as ray:
        load_on_ray(lake, ray.address, ray.env)


def load_on_ray(lake: Lake, on: str, env: Mapping[str, str]) -> None:
    write_files(lake)
    process = Workers(lake).start(
        "load", *SMALL, "--table", "t", "--on", on, "--workers", "2", "--json",
        ROWFALL_PASSWORD=lake.server.password, **env,
    )  # fmt: skip
    report, talk = ended(process)
    assert "2 workers on 1 node of Ray" in talk
    assert "has failed" not in talk
    check_rows(lake)
    assert (report["rows"], report["outcome"]) == (FILES * ROWS, "done")
    assert loaded(report["workers"]) == FILES * ROWS
    assert lake.server.password not in talk


@pytest.mark.long
def test_workers_share_a_load_into_a_cluster(fleet: Fleet) -> None:
    """With a sharding key, too: rows are where it says, whoever loads them."""
    for number in range(FILES):
        some = [(number * ROWS + i, f"n{i}") for i in range(ROWS)]
        fleet.shell.write(f"in/f{number:03}.csv", csv(some, *HEAD))
    key = ("--table", "t", "--shard-key", "cityHash64(id)")
    fleet.ok("load", "in/f000.csv", *key)  # workers share its files, not its making
    env = fleet.shell.env
    started = [
        fleet.shell.cli.start(
            "load", *SMALL, "--table", "t", "--fleet", "f", "--json", "--to", fleet.to,
            env=env | {"ROWFALL_HOME": str(fleet.shell.folder / f"state{n}")},
        )
        for n in range(3)
    ]  # fmt: skip
    found = [ended(process)[0] for process in started]
    whole = max(found, key=lambda report: report["rows"] * bool(report["workers"]))
    assert loaded(whole["workers"]) == (FILES - 1) * ROWS
    assert fleet.numbers("t") == [FILES * ROWS] * 2
    there = "SELECT count(), countIf(cityHash64(id) % 2 = {at}) FROM {db}.t_local"
    for at, node in enumerate(fleet.first()):
        ((count, own),) = fleet.ask(node, there.replace("{at}", str(at)))
        assert 0 < count == own


@pytest.mark.parametrize(
    "to",
    ["postgresql://me@127.0.0.1:1/db", "mysql://me@127.0.0.1:1/db", "new.duckdb", "out_{n}.csv",
     "kafka://127.0.0.1:1/topic", "iceberg+lake/t"],
)  # fmt: skip
def test_targets_that_one_process_has_are_refused_by_name(shell: Shell, to: str) -> None:
    """Nothing is connected to."""
    shell.write("a.csv", "id\n1\n")
    table = ("--table", "t") if "db" in to else ()
    refused = shell.ends(2, "load", "a.csv", "--to", to, *table, "--fleet", "f")
    assert "--fleet needs a ClickHouse server, where leases of files are kept, and" in refused.talk
    assert "give a server with --to clickhouse://host:8123/database" in refused.talk
