"""A load takes less of a server that others use, and comes back, and the report says so."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rowfall
from e2e.tools import Shell, csv
from lab.clickhouse import ClickHouse
from lab.process import LabError
from rowfall.core.events import Event, Steered

FILES, ROWS = 40, 2_000


@pytest.fixture
def files(shell: Shell) -> str:
    for number in range(FILES):
        rows = [(i, f"n{i}") for i in range(number * ROWS, (number + 1) * ROWS)]
        shell.write(f"in/{number:02}.csv", csv(rows, "id", "name"))
    return "in/*.csv"


@pytest.fixture
def database(clickhouse: ClickHouse, tmp_path: Path) -> str:
    """A database with a table in which a hundred parts slow down whoever inserts."""
    name = f"steering_{abs(hash(tmp_path)) % 10**9}"
    clickhouse.query(f"CREATE DATABASE {name}")
    clickhouse.query(
        f"CREATE TABLE {name}.t (id Int64, name String) ENGINE = MergeTree ORDER BY id "
        "SETTINGS parts_to_delay_insert = 100"
    )
    return name


@contextlib.contextmanager
def others(clickhouse: ClickHouse, table: str) -> Iterator[Callable[[], None]]:
    """Clients that insert and query all the time; gives what ends the pressure of their parts.

    Merges are stopped until then: a busy server has none to spare.
    """
    clickhouse.query(f"SYSTEM STOP MERGES {table}")
    for number in range(65):
        clickhouse.query(f"INSERT INTO {table} VALUES (-{number + 1}, 'other')")
    done = threading.Event()
    inserted = [65]

    def work() -> None:
        while not done.wait(0.1):
            clickhouse.query(f"SELECT count(), max(name) FROM {table}")
            if merging.is_set():
                clickhouse.query(f"INSERT INTO {table} VALUES (-1, 'other')")
                inserted[0] += 1

    merging = threading.Event()

    def calm() -> None:
        if not merging.is_set():
            while not merging.is_set():
                clickhouse.query(f"SYSTEM START MERGES {table}")
                # Another one of these may cancel the merge of this one.
                with contextlib.suppress(LabError):
                    clickhouse.query(f"OPTIMIZE TABLE {table} FINAL")
                    merging.set()

    client = threading.Thread(target=work)
    client.start()
    try:
        yield calm
    finally:
        done.set()
        client.join()
        found = clickhouse.query(f"SELECT count() FROM {table} WHERE name = 'other'").strip()
        assert int(found) == inserted[0]


def load_beside_others(
    clickhouse: ClickHouse, database: str, shell: Shell, *args: str
) -> dict[str, Any]:
    """Load beside others, whose pressure ends after two seconds; return the report."""
    with others(clickhouse, f"{database}.t") as calm:
        timer = threading.Timer(2.0, calm)
        timer.start()
        done = shell.ok(
            "load", *args, "--to", clickhouse.uri(database), "--table", "t", "--attempt-bytes",
            "50000", "--force-append", "--json",
        )  # fmt: skip
        timer.join()
    return done.document


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look between all attempts: a test's take less than five seconds."""
    monkeypatch.setattr("rowfall.run.steering.LOOK_SECONDS", 0.1)


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_beside_a_client_that_inserts_and_queries(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str
) -> None:
    heard: list[str] = []
    with others(clickhouse, f"{database}.t") as calm:

        def hear(event: Event) -> None:
            if isinstance(event, Steered):
                heard.append(event.text)
                if "waiting before each attempt" in event.text:
                    threading.Thread(target=calm).start()

        report = rowfall.load(
            str(shell.folder / files), to=clickhouse.uri(database), table="t", on_event=hear,
            attempt_bytes=1, force_append=True, progress=False,
        )  # fmt: skip
    assert report.rows == FILES * ROWS
    steps = report.steering
    assert [step.share for step in steps[:3]] == [0.5, 0.25, 0.25]
    assert {step.cause for step in steps} == {"parts"}
    back = [step for step in steps if step.action == "come back"]
    assert back
    assert back[-1].share == 1
    assert len(heard) == len(steps)
    assert "inserts are delayed at 100" in steps[0].why
    loaded = clickhouse.query(f"SELECT count(), uniqExact(id) FROM {database}.t WHERE id >= 0")
    assert loaded.split() == [str(FILES * ROWS)] * 2


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_report_and_explain_say_what_it_did(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str
) -> None:
    to = ("--to", clickhouse.uri(database))
    document = load_beside_others(clickhouse, database, shell, files)
    first = document["steering"][0]
    assert (first["action"], first["cause"], first["share"]) == ("back off", "parts", 0.5)
    explained = shell.ok("explain", document["load_id"], *to)
    assert "What was changed between attempts" in explained.out
    assert "backing off, 50 % of the threads" in " ".join(explained.out.split())
    shown = explained.out.partition("What was changed between attempts")[2].partition("\n\n")[0]
    assert max(map(len, shown.splitlines())) <= 80
    again = shell.ok("report", document["load_id"], *to, "--json").document
    assert again["steering"] == document["steering"]


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_no_adapt(shell: Shell, files: str, clickhouse: ClickHouse, database: str) -> None:
    document = load_beside_others(clickhouse, database, shell, files, "--no-adapt")
    assert document["steering"] == []
    assert document["rows"] == FILES * ROWS


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_a_user_who_may_not_look(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str
) -> None:
    """What is refused is left out, and the load goes on."""
    needed = ("parts", "merge_tree_settings", "processes")
    rights = "SELECT, INSERT, CREATE TABLE, DROP TABLE, ALTER, TRUNCATE"
    user = clickhouse.add_user(
        f"u_{database}", f"{rights} ON {database}.*",
        *(f"SELECT ON system.{table}" for table in needed),
    )  # fmt: skip
    to = ("--to", clickhouse.uri(database, account=user))
    load = ("load", files, *to, "--table", "t", "--attempt-bytes", "200000", "--json")
    document = shell.ok(*load).document
    assert document["rows"] == FILES * ROWS
    assert document["steering"] == []
