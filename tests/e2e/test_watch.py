"""Pipelines as services: in the background, with bad files, two watchers, kills and stops."""

from __future__ import annotations

import gzip
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lake import Lake
from e2e.tools import Shell, csv
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.postgresql import PostgresqlServer
from lab.process import let_pass, wait_until
from lab.seaweed import Seaweed

pytestmark = pytest.mark.xdist_group("watch")

ROOT = Path(__file__).parents[2]
KILLER = ROOT / "tests/faults/killer.py"
# A machine that runs other tests beside these.
LONG = 40.0
# What a take-over may take; tests give the busy machine some more, and say what it took.
TAKE_OVER = 10.0


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


class Pipeline:
    """A pipeline ``p`` of the files below ``in``, whose rows are (id, n)."""

    def __init__(self, shell: Shell, to: str = "./data", **options: str) -> None:
        self.shell, self.to = shell, to
        self.written = 0
        (shell.folder / "in").mkdir()
        lines = ["[pipelines.p]", 'source = "in/*.csv"', 'table = "t"', f'to = "{to}"',
                 'schema = "id Int64, n Int64"', 'header = "yes"', 'at_rest = "0s"']  # fmt: skip
        lines += [f'{key} = "{value}"' for key, value in options.items()]
        shell.write("rowfall.toml", "\n".join(lines) + "\n")

    def put(self, name: str, *ids: int, bad: bool = False) -> None:
        """Write a file as a whole."""
        rows: list[tuple[object, object]] = [(i, i * 2) for i in ids]
        rows += [("x", 1)] if bad else []
        half = self.shell.write(f"half-{name}", csv(rows, "id", "n"))
        half.rename(self.shell.folder / "in" / name)

    def do(self, *words: str) -> str:
        return self.shell.ok("pipeline", words[0], "p", *words[1:]).talk

    def do_text(self, word: str) -> str:
        return self.shell.ok("pipeline", word, "p").out

    def status(self) -> dict[str, Any]:
        return self.shell.ok("pipeline", "status", "p", "--json").document

    def wait(self, what: str, seconds: float = LONG, **wanted: Any) -> dict[str, Any]:
        """Wait until the status says so."""
        found: dict[str, Any] = {}

        def says() -> bool:
            found.clear()
            found.update(self.status())
            return all(found[key] == value for key, value in wanted.items())

        wait_until(says, seconds, f"{what} ({wanted})")
        return found

    def watch(self, *more: str, **env: str) -> subprocess.Popen[str]:
        return self.shell.cli.start("watch", "p", *more, env=self.shell.env | env)

    def hurt(self, name: str, at: str, side: str = "before") -> subprocess.Popen[str]:
        """Start a watcher that sends itself a signal around the first call of a function."""
        program = (sys.executable, str(KILLER), at, "1", side)
        env = self.shell.env | {"SIGNAL": name}
        return self.shell.cli.start("watch", "p", env=env, program=program)


@pytest.fixture
def local(shell: Shell) -> Iterator[Pipeline]:
    made = Pipeline(shell)
    yield made
    shell.run("pipeline", "stop", "p")


def rows_of(pipeline: Pipeline) -> list[int]:
    return [
        int(row[0])
        for row in pipeline.shell.rows("SELECT id FROM t ORDER BY id", "--to", pipeline.to)
    ]


def test_from_start_to_stop_with_a_bad_file(local: Pipeline) -> None:
    local.put("a.csv", 1, 2)
    assert "started (pid" in local.do("start")
    local.wait("the first file", files=1, state="following")
    again = local.shell.ends(2, "pipeline", "start", "p")
    assert "runs already (pid" in again.talk
    # A bad file is left out, and the others go on.
    local.put("bad.csv", 3, bad=True)
    local.put("c.csv", 4)
    found = local.wait("the bad file", failed=1, rows=3)
    (failed,) = found["failed_files"]
    assert failed["file"].endswith("in/bad.csv")
    assert 'line 3 column "id"' in failed["error"]
    text = local.shell.ok("pipeline", "status", "p").out
    assert max(map(len, text.splitlines())) <= 80 or failed["file"] in text
    assert "1 file failed:" in text
    # Repaired under the same name, it is loaded by itself.
    local.put("bad.csv", 3, 30)
    local.wait("the repaired file", failed=0, rows=5)
    began = time.monotonic()
    assert "stopped" in local.do("stop")
    assert time.monotonic() - began < TAKE_OVER
    assert local.status()["state"] == "stopped"
    assert rows_of(local) == [1, 2, 3, 4, 30]
    error = local.shell.row(
        "SELECT pipeline, splitByChar('/', file)[-1], line, column_name, value, message != '', "
        "load != '', code FROM _rowfall_errors", "--to", local.to,
    )  # fmt: skip
    assert error[:7] == ["p", "bad.csv", 3, "id", "x", 1, 1]


@pytest.mark.long
def test_pause_outlives_a_restart(local: Pipeline) -> None:
    local.put("a.csv", 1)
    local.do("start")
    local.wait("the first file", files=1)
    assert "paused" in local.do("pause")
    local.wait("the pause", state="paused", paused=True)
    local.do("stop")
    assert local.status()["state"] == "paused"
    local.do("start")
    local.wait("the pause after a restart", state="paused")
    local.put("b.csv", 2)
    assert "paused already" in local.do("pause")
    assert "goes on" in local.do("resume")
    local.wait("the second file", files=1, state="following")
    local.do("stop")
    assert rows_of(local) == [1, 2]


@pytest.mark.long
def test_retry_and_skip(local: Pipeline) -> None:
    local.put("bad.csv", 1, bad=True)
    local.put("worse.csv", 2, bad=True)
    local.do("start")
    local.wait("both files", failed=2)
    refused = local.shell.ends(2, "pipeline", "retry", "p", "baad.csv")
    assert "is no file of this pipeline that has failed" in refused.talk
    assert "is tried again" in local.do("retry", "in/bad.csv")
    assert "is left out" in local.do("skip", "worse.csv")
    found = local.wait("the one that fails again", failed=1, state="following")
    assert found["failed_files"][0]["file"].endswith("in/bad.csv")
    # Both are remembered: a watcher that starts tries neither.
    local.do("stop")
    local.do("start")
    local.put("c.csv", 3)
    local.wait("a good file", rows=1, failed=1)
    local.do("stop")
    count = local.shell.row("SELECT count() FROM _rowfall_errors", "--to", local.to)
    assert count == [3]
    assert rows_of(local) == [3]


@pytest.mark.long
def test_overwritten_files_wait_for_people(shell: Shell) -> None:
    pipeline = Pipeline(shell, on_change="error")
    for name in ("a.csv", "b.csv", "c.csv"):
        pipeline.put(name, ord(name[0]))
    pipeline.do("start")
    pipeline.wait("the first versions", files=3)
    pipeline.put("a.csv", 1, 11)
    pipeline.put("b.csv", 2, 22)
    found = pipeline.wait("what is overwritten", failed=2, state="following")
    said = {Path(one["file"]).name: one for one in found["failed_files"]}
    assert re.search(
        r"overwritten since it was loaded: \d+ bytes of .* UTC were loaded", said["a.csv"]["error"]
    )
    # Its hint is a command that works.
    retry = re.search(r"rowfall (pipeline retry p \S+)", said["a.csv"]["hint"])
    assert retry is not None
    shell.ok(*retry[1].split())
    pipeline.wait("the one that is loaded all the same", failed=1, files=4)
    pipeline.do("skip", "b.csv")
    pipeline.do("stop")
    pipeline.put("c.csv", 3, 33)  # while nobody looks
    pipeline.do("start")
    pipeline.wait("the one that was overwritten meanwhile", failed=1)
    pipeline.do("stop")
    # Asked for while nothing runs.
    pipeline.do("retry", "c.csv")
    pipeline.do("start")
    pipeline.wait("the last one", failed=0, files=1)
    pipeline.do("stop")
    assert rows_of(pipeline) == sorted([ord("a"), ord("b"), ord("c"), 1, 11, 3, 33])
    pipeline.put("a.csv", 4, 44, 444)
    process = pipeline.watch("--stop-on-error")
    _, err = process.communicate(timeout=LONG)
    assert process.returncode == 4, err
    assert "a.csv: overwritten since it was loaded" in err
    assert "the pipeline stops" in err


@pytest.mark.long
def test_a_pipeline_may_stop_at_the_first_bad_file(local: Pipeline) -> None:
    local.put("bad.csv", 1, bad=True)
    process = local.watch("--stop-on-error")
    _, err = process.communicate(timeout=LONG)
    assert process.returncode == 4, err
    # When it failed, and at the end; the file once in each.
    assert err.count("in/bad.csv line") == 2
    assert "the pipeline stops" in err
    found = local.status()
    assert (found["state"], found["failed"]) == ("stopped", 1)
    # Why it has ended is known to whoever asks later; after a stop there is nothing to tell.
    assert "the pipeline stops" in found["last_error"]
    assert "last error" in local.do_text("status")
    local.do("start")
    local.wait("the next watcher", state="following")
    local.do("stop")
    assert local.status()["last_error"] == ""
    # A folder of its name makes a pipeline no load.
    (local.shell.folder / "p").mkdir()
    assert "rowfall watch p" in local.shell.ends(2, "run", "p").talk


@pytest.mark.long
def test_a_stop_ends_a_hook_that_runs(local: Pipeline) -> None:
    config = local.shell.folder / "rowfall.toml"
    pid = local.shell.folder / "hook.pid"
    hook = f'["sh", "-c", "echo $$ > {pid}.half && mv {pid}.half {pid} && exec sleep 300"]'
    config.write_text(f"{config.read_text()}after = {{ command = {hook} }}\n")
    local.put("a.csv", 1)
    process = local.watch()
    wait_until(pid.exists, LONG, "the hook")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=TAKE_OVER)
    assert process.returncode in (0, 130), err  # the rows of its batch were visible before
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert rows_of(local) == [1]


@pytest.mark.long
def test_what_would_be_stored_is_shown_and_nothing_is_written(local: Pipeline) -> None:
    local.put("a.csv", *range(50))
    done = local.shell.ok("pipeline", "test", "p", "--limit", "3", "--json").document
    assert done["rows"] == [["0", "0"], ["1", "2"], ["2", "4"]]
    assert done["columns"] == [{"name": "id", "type": "Int64"}, {"name": "n", "type": "Int64"}]
    assert (done["creates"], done["files"]) == (True, 1)
    assert not (local.shell.folder / "data").exists()
    text = local.shell.ok("pipeline", "test", "p", "--limit", "3").out
    assert "nothing was written" in text
    local.put("a.csv", 1, bad=True)
    bad = local.shell.run("pipeline", "test", "p")
    assert bad.code != 0
    assert "x" in bad.talk


def test_all_pipelines_in_a_line_each(local: Pipeline) -> None:
    config = local.shell.folder / "rowfall.toml"
    config.write_text(
        config.read_text()
        + """
[pipelines.away]
source = "in/*.csv"
to = "clickhouse://127.0.0.1:1/db"
table = "t"
patience = "0s"
"""
    )
    done = local.shell.run("pipeline", "status")
    assert done.code == 5
    head, line = done.out.splitlines()
    assert head.split() == ["pipeline", "state", "files", "rows", "behind", "failed", "table"]
    assert line.split()[:3] == ["p", "stopped", "0"]
    assert "pipeline away: " in done.talk
    made = local.shell.run("pipeline", "status", "--json").document
    assert [one["name"] for one in made["pipelines"]] == ["p", "away"]
    assert [one.get("exit") for one in made["pipelines"]] == [None, 5]
    assert "1000" in local.shell.ends(2, "pipeline", "test", "p", "--limit", "1001").talk


def test_a_pipeline_that_is_not_there(local: Pipeline) -> None:
    done = local.shell.ends(2, "watch", "q")
    assert "q" in done.talk
    stopped = local.shell.ok("pipeline", "stop", "p")
    assert "does not run in the background here" in stopped.talk


@pytest.mark.long
@pytest.mark.parametrize("side", ["before", "after"])
def test_files_are_moved_also_after_a_kill_in_between(shell: Shell, side: str) -> None:
    pipeline = Pipeline(shell, after_load="move:done")
    pipeline.put("a.csv", 1)
    killed = pipeline.hurt("SIGKILL", "rowfall.stores.cleared:_move", side)
    killed.communicate(timeout=LONG)
    assert killed.returncode == -signal.SIGKILL
    process = pipeline.watch()
    pipeline.put("b.csv", 2)
    done = shell.folder / "done"
    wait_until(lambda: (done / "b.csv").exists(), LONG, "the second file to be moved")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TAKE_OVER)
    assert sorted(one.name for one in done.iterdir()) == ["a.csv", "b.csv"]
    assert list((shell.folder / "in").iterdir()) == []
    assert rows_of(pipeline) == [1, 2]
    # In a folder that is followed, moved files would be found again.
    file = shell.folder / "rowfall.toml"
    file.write_text(file.read_text().replace("move:done", "move:in").replace("in/*.csv", "in"))
    refused = shell.ends(2, "watch", "p")
    assert "inside of what is loaded" in refused.talk


@pytest.mark.long
def test_hooks_of_a_pipeline_run_around_its_batches(shell: Shell) -> None:
    pipeline = Pipeline(shell)
    note = "cat $ROWFALL_REPORT >> hooks.log; echo $ROWFALL_HOOK $ROWFALL_OUTCOME >> hooks.log"
    file = shell.folder / "rowfall.toml"
    file.write_text(file.read_text() + "".join(
        f'{when} = {{ command = ["sh", "-c", "{note}"] }}\n' for when in ("after", "on_error")
    ))  # fmt: skip
    process = pipeline.watch()
    log = shell.folder / "hooks.log"

    def said(line: str) -> bool:
        return log.exists() and line in log.read_text().splitlines()

    pipeline.put("a.csv", 1)
    wait_until(lambda: said("after done"), LONG, "the hook behind a batch")
    pipeline.put("bad.csv", 2, bad=True)
    wait_until(lambda: said("on_error failed"), LONG, "the hook for a bad file")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TAKE_OVER)
    assert '"column": "id"' in log.read_text()


# --- two watchers ---------------------------------------------------------------------------------


@pytest.fixture
def shared(lake: Lake) -> Pipeline:
    """A pipeline into a table of a server."""
    lake.shell.env["P_PASSWORD"] = lake.server.password
    to = re.sub(r":[^:@/]+@", "@", lake.to)
    made = Pipeline(lake.shell, "server")
    file = lake.shell.folder / "rowfall.toml"
    named = f'[connections.server]\nuri = "{to}"\npassword = "env:P_PASSWORD"\n\n'
    file.write_text(named + file.read_text())
    return made


def ids(lake: Lake) -> list[int]:
    return [int(i) for (i,) in lake.rows("SELECT id FROM {db}.t ORDER BY id")]


def test_the_second_watcher_takes_over_from_a_dead_one(lake: Lake, shared: Pipeline) -> None:
    shared.put("a.csv", 1, 2)
    first = shared.watch()
    found = shared.wait("the first watcher", rows=2)
    assert found["watcher"]["pid"] == first.pid
    second = shared.watch()
    wait_until(lambda: bool(shared.status()["standing_by"]), LONG, "the second one to stand by")
    assert shared.status()["standing_by"][0]["pid"] == second.pid
    first.send_signal(signal.SIGKILL)
    began = time.monotonic()
    shared.put("b.csv", 3)
    wait_until(lambda: ids(lake) == [1, 2, 3], LONG, "the second one to take over")
    assert time.monotonic() - began < TAKE_OVER
    assert shared.status()["watcher"]["pid"] == second.pid
    second.send_signal(signal.SIGTERM)
    _, err = second.communicate(timeout=TAKE_OVER)
    assert second.returncode == 0, err
    assert shared.status()["state"] == "stopped"


@pytest.mark.long
@pytest.mark.parametrize(
    "at",
    [
        "rowfall.ledger.journal:Journal.commit",
        pytest.param("rowfall.ledger.journal:Journal.loaded", marks=pytest.mark.long),
    ],
)
def test_a_watcher_that_comes_back_loads_nothing_twice(
    lake: Lake, shared: Pipeline, at: str
) -> None:
    """Stopped in the middle of a batch, taken for dead, and let go on."""
    shared.put("a.csv", 1, 2)
    first = shared.hurt("SIGSTOP", at)
    wait_until(lambda: _stopped(first.pid), LONG, "the first one to be stopped in its batch")
    second = shared.watch()
    began = time.monotonic()
    wait_until(lambda: ids_or_none(lake) == [1, 2], LONG, "the second one to load the file")
    wait_until(lambda: shared.status()["watcher"]["pid"] == second.pid, LONG, "the take-over")
    assert time.monotonic() - began < 2 * TAKE_OVER
    shared.put("b.csv", 3)
    first.send_signal(signal.SIGCONT)
    shared.put("c.csv", 4)
    wait_until(lambda: ids(lake) == [1, 2, 3, 4], LONG, "what came since")
    wait_until(lambda: bool(shared.status()["standing_by"]), LONG, "the first one to stand by")
    found = shared.status()
    assert found["watcher"]["pid"] == second.pid
    assert [one["pid"] for one in found["standing_by"]] == [first.pid]
    # And back again.
    second.send_signal(signal.SIGKILL)
    shared.put("d.csv", 5)
    wait_until(lambda: ids(lake) == [1, 2, 3, 4, 5], LONG, "the first one to take over again")
    first.send_signal(signal.SIGTERM)
    _, err = first.communicate(timeout=TAKE_OVER)
    assert first.returncode == 0, err


def ids_or_none(lake: Lake) -> list[int]:
    there = lake.row("SELECT count() FROM system.tables WHERE database = '{db}' AND name = 't'")
    return ids(lake) if there == [1] else []


def _stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


@pytest.mark.long
def test_sigterm_in_a_batch_leaves_nothing_half_visible(lake: Lake, shared: Pipeline) -> None:
    shared.put("a.csv", 1, 2)
    process = shared.hurt("SIGTERM", "rowfall.ledger.journal:Journal.commit")
    _, err = process.communicate(timeout=TAKE_OVER + 10)
    assert process.returncode == 0, err
    assert ids_or_none(lake) == [1, 2]  # the batch has ended
    assert lake.rows("SELECT name FROM system.tables WHERE database = '{db}' AND name LIKE "
                     "'\\_rowfall\\_%' AND name NOT IN ('_rowfall_journal', '_rowfall_errors', "
                     "'_rowfall_pipelines')") == []  # fmt: skip


@pytest.mark.long
def test_a_table_that_is_altered_and_one_that_is_dropped(lake: Lake, shared: Pipeline) -> None:
    """An altered one gets what comes; in place of a dropped one a new one gets everything."""
    shared.put("a.csv", 1)
    process = shared.watch()
    shared.wait("the first file", rows=1)
    lake.do("ALTER TABLE {db}.t ADD COLUMN more String DEFAULT 'x'")
    shared.put("b.csv", 2)
    shared.wait("a file after the ALTER", rows=2)
    lake.do("DROP TABLE {db}.t SYNC")
    shared.put("c.csv", 3)
    wait_until(lambda: ids_or_none(lake) == [1, 2, 3], LONG, "everything in the new table")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=TAKE_OVER)
    assert "was dropped since the last load: loading 2 splits again" in err


@pytest.mark.long
def test_two_watchers_of_a_table_of_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    schema = f"watch{os.getpid()}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    shell.env["PGPASSWORD"] = postgresql.password
    pipeline = Pipeline(shell, f"{postgresql.uri}?schema={schema}")

    def there() -> list[int]:
        found = postgresql.ask(f"SELECT to_regclass('{schema}.t')::text")
        if found[0][0] is None:
            return []
        return [int(i) for (i,) in postgresql.ask(f"SELECT id FROM {schema}.t ORDER BY id")]

    pipeline.put("a.csv", 1)
    pipeline.put("bad.csv", 9, bad=True)
    first = pipeline.watch()
    wait_until(lambda: there() == [1], LONG, "the first file")
    pipeline.wait("the bad file", failed=1)
    second = pipeline.watch()
    wait_until(lambda: bool(pipeline.status()["standing_by"]), LONG, "the second one to stand by")
    first.send_signal(signal.SIGSTOP)
    pipeline.put("b.csv", 2)
    began = time.monotonic()
    wait_until(lambda: there() == [1, 2], LONG, "the second one to take over")
    assert time.monotonic() - began < 2 * TAKE_OVER
    first.send_signal(signal.SIGCONT)
    wait_until(lambda: bool(pipeline.status()["standing_by"]), LONG, "the first one to stand by")
    pipeline.put("c.csv", 3)
    wait_until(lambda: there() == [1, 2, 3], LONG, "a file for the second one")
    for process in (first, second):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TAKE_OVER)
    errors = postgresql.ask(f"SELECT line, column_name, value FROM {schema}._rowfall_errors")
    assert errors == [(3, "id", "x")]
    postgresql.run(f"DROP SCHEMA {schema} CASCADE")


# --- systemd and Kubernetes -----------------------------------------------------------------------


@pytest.mark.long
def test_the_unit_runs(local: Pipeline) -> None:
    local.put("a.csv", 1)
    unit = local.shell.ok("pipeline", "install", "p", "--print").out
    keys = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and line[0] != "#")
    assert keys["Restart"] == "on-failure"
    assert int(keys["TimeoutStopSec"]) > TAKE_OVER
    # Its command, as a plain process, in its folder.
    process = subprocess.Popen(
        shlex.split(keys["ExecStart"]), cwd=keys["WorkingDirectory"], start_new_session=True,
        env={**os.environ, **local.shell.cli._environment(None)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        local.wait("the file", rows=1)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(TAKE_OVER)
    assert process.returncode in (0, -signal.SIGTERM)
    done = local.shell.ok("pipeline", "install", "p")
    path = local.shell.cli.home / "config/systemd/user/rowfall-p.service"
    assert path.read_text() == unit
    if analyze := shutil.which("systemd-analyze"):  # else its command was run, above
        runtime = {**os.environ, "XDG_RUNTIME_DIR": str(local.shell.folder)}
        verified = subprocess.run(
            [analyze, "--user", "verify", path], env=runtime, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        said = [line for line in verified.stderr.splitlines() if path.name in line]
        assert (verified.returncode, said) == (0, [])  # of other units it may say what it likes
    assert "systemctl --user enable --now rowfall-p.service" in done.talk


@pytest.mark.long
def test_the_command_lines_of_the_deployment_run(lake: Lake, s3: Seaweed, bucket: str) -> None:
    """Two replicas with the project file and the arguments of ``deploy/pipeline.yaml``."""
    documents = list(yaml.safe_load_all((ROOT / "deploy/pipeline.yaml").read_text()))
    assert [one["kind"] for one in documents] == ["Secret", "ConfigMap", "Deployment"]
    _, config, deployment = documents
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 2
    assert pod["terminationGracePeriodSeconds"] > TAKE_OVER
    (container,) = pod["containers"]
    folder = lake.shell.folder
    arguments, env = lake.command_of(config, container, s3, bucket)
    pods = [
        lake.shell.cli.start(*arguments, env=env | {"ROWFALL_HOME": str(folder / f"home{n}")})
        for n in range(2)
    ]
    s3.put(bucket, "orders/a.csv.gz", gzip.compress(b"id\n1\n2\n"))
    wait_until(lambda: _there(lake, "orders") == 2, LONG, "the first object")
    path = str(lake.shell.folder / "config/rowfall.toml")
    status = lake.shell.ok("pipeline", "status", "orders", "--config", path, "--json").document
    first, second = sorted(pods, key=lambda one: one.pid != status["watcher"]["pid"])
    first.send_signal(signal.SIGKILL)
    s3.put(bucket, "orders/b.csv.gz", gzip.compress(b"id\n3\n"))
    wait_until(lambda: _there(lake, "orders") == 3, LONG, "the second replica to take over")
    second.send_signal(signal.SIGTERM)
    _, err = second.communicate(timeout=TAKE_OVER)
    assert second.returncode == 0, err


def _there(lake: Lake, table: str) -> int:
    found = lake.row(
        f"SELECT sum(total_rows) FROM system.tables WHERE database = '{{db}}' AND name = '{table}'"
    )
    return int(found[0] or 0)


@pytest.mark.long
def test_a_watcher_that_is_stopped_in_a_transaction_of_postgresql(
    shell: Shell, postgresql: PostgresqlServer
) -> None:
    """Who takes over waits for its file until it goes on; each row is there once."""
    schema = f"stopped{os.getpid()}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    shell.env["PGPASSWORD"] = postgresql.password
    pipeline = Pipeline(shell, f"{postgresql.uri}?schema={schema}")

    def there() -> list[int]:
        return [int(i) for (i,) in postgresql.ask(f"SELECT id FROM {schema}.t ORDER BY id")]

    pipeline.put("a.csv", 1)
    at = "rowfall.systems.postgresql.transaction:PostgresTransaction.commit"
    first = pipeline.hurt("SIGSTOP", at)
    wait_until(lambda: _stopped(first.pid), LONG, "the first one to be stopped")
    second = pipeline.watch()
    pipeline.put("b.csv", 2)
    took = "the second one to take over"
    wait_until(lambda: pipeline.status()["watcher"]["pid"] == second.pid, LONG, took)
    first.send_signal(signal.SIGCONT)
    wait_until(lambda: there() == [1, 2], LONG, "both files")
    wait_until(lambda: bool(pipeline.status()["standing_by"]), LONG, "the first one to stand by")
    pipeline.put("c.csv", 3)
    wait_until(lambda: there() == [1, 2, 3], LONG, "a file for the second one")
    for process in (first, second):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TAKE_OVER)
    assert there() == [1, 2, 3]
    postgresql.run(f"DROP SCHEMA {schema} CASCADE")


@pytest.mark.long
def test_rows_are_there_once_through_kills_of_watchers(lake: Lake, shared: Pipeline) -> None:
    """A producer writes and overwrites files; one of two watchers is killed again and again."""
    chance, watchers = random.Random(7), [shared.watch(), shared.watch()]
    until, number, expected = time.monotonic() + 25.0, 0, list[int]()
    kill_at = time.monotonic() + 3
    while time.monotonic() < until:
        number += 1
        name = f"{chance.randrange(1 << 30):x}.csv" if chance.random() < 0.9 else "same.csv"
        shared.put(name, number)
        # What "same.csv" held may be overwritten before anybody has looked at it.
        expected += [number] if name != "same.csv" else []
        let_pass(0.1, "a producer of ten files a second")
        if time.monotonic() > kill_at:
            victim = chance.randrange(2)
            watchers[victim].send_signal(signal.SIGKILL)
            watchers[victim] = shared.watch()
            kill_at += 4
    wait_until(lambda: set(expected) <= set(ids_or_none(lake)), LONG, "all files")
    found = ids(lake)
    assert len(found) == len(set(found)), "a row is there twice"
    for process in watchers:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TAKE_OVER)


@pytest.mark.long
@pytest.mark.xdist_group("cluster21")
def test_two_watchers_of_a_cluster_through_two_nodes(shell: Shell, cluster21: Cluster) -> None:
    database = f"watch_{os.getpid()}"
    nodes = cluster21.nodes
    shell.env["P_PASSWORD"] = nodes[0].password
    pipeline = Pipeline(shell, "cluster")
    file = shell.folder / "rowfall.toml"
    text = file.read_text()
    for number, node in enumerate(nodes):
        node.query(f"CREATE DATABASE IF NOT EXISTS {database}")
        uri = re.sub(r":[^:@/]+@", "@", cluster21.url(database, node=number))
        named = f'[connections.cluster]\nuri = "{uri}"\npassword = "env:P_PASSWORD"\n\n'
        file = shell.write(f"{number}.toml", named + text)
    watchers = [
        shell.cli.start("watch", "p", "--config", str(path), env=shell.env)
        for path in sorted(shell.folder.glob("[0-9]*.toml"))
    ]

    def status() -> dict[str, Any]:
        return shell.ok("pipeline", "status", "p", "--config", str(file), "--json").document

    pipeline.put("a.csv", 1, 2)
    wait_until(lambda: status()["rows"] == 2, LONG, "the first file")
    wait_until(lambda: len(status()["standing_by"]) == 1, LONG, "the other one to stand by")
    pipeline.put("bad.csv", 3, bad=True)
    wait_until(lambda: status()["failed"] == 1, LONG, "the bad file")
    follows = status()["watcher"]["pid"]
    for process in watchers:
        if process.pid == follows:
            process.send_signal(signal.SIGKILL)
    pipeline.put("b.csv", 4)
    wait_until(lambda: status()["rows"] == 1, LONG, "the other one to take over")
    counted = sum(int(node.query(f"SELECT count() FROM {database}.t_local")) for node in nodes)
    assert counted == 3
    for process in watchers:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TAKE_OVER)
    for node in nodes:
        node.query(f"DROP DATABASE {database} SYNC")
