"""``rowfall tune``: combinations are loaded and compared, nothing stays, what is saved is taken."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Shell, csv, tables, three_files
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.proxy import Proxy
from lab.seaweed import Seaweed
from rowfall.ledger.scratches import TUNE as PREFIX

ROWS = 3_000


@pytest.fixture
def files(shell: Shell) -> str:
    return three_files(shell)


def tune(shell: Shell, *args: str) -> dict[str, Any]:
    """The document of a sweep, in which everything that was measured makes sense."""
    found = shell.ok("tune", *args, "--json").document
    assert found["rowfall_tune"] == 1
    assert not found["interrupted"]
    measured = [cell for cell in found["cells"] if cell["figures"]]
    (default,) = (cell for cell in measured if "default" in cell["marks"])
    assert default["options"] == {}
    (best,) = (cell for cell in measured if "best" in cell["marks"])
    assert best == found["best"]
    assert best["figures"]["rows"] == default["figures"]["rows"]
    rate = best["figures"]["rows_per_second"]
    assert rate >= default["figures"]["rows_per_second"]
    if best is not default:  # what is not faster by more than noise is not worth an option
        assert rate > default["figures"]["rows_per_second"] * 1.05
    for cell in measured:
        figures = cell["figures"]
        assert figures["rows"] <= ROWS
        assert figures["seconds"] > 0
        assert figures["cpu_seconds"] > 0
        taken = figures["seconds"] + figures["merge_seconds"]
        if figures["rounds"] == 1:
            assert figures["rows_per_second"] == pytest.approx(figures["rows"] / taken)
    return found


def tried(found: dict[str, Any]) -> dict[str, set[str]]:
    """The values of each choice that were loaded."""
    values: dict[str, set[str]] = {}
    for cell in found["cells"]:
        if cell["figures"]:
            for name, value in cell["choices"].items():
                values.setdefault(name, set()).add(value)
    return values


def test_a_folder(shell: Shell, files: str, untouched: Callable[[], None]) -> None:
    """Threads, blocks and who writes parts; what is saved is what a load then takes."""
    untouched()
    found = tune(shell, files, "--threads", "2", "--budget", "2s", "--save", "mine")
    path = Path(found["saved"]["path"])
    saved = json.loads(path.read_text())
    path.unlink()  # all that was to stay
    untouched()
    assert not (shell.folder / "rowfall-data").exists()
    values = tried(found)
    assert len(values["insert threads"]) == 2
    assert any("formula" in cell["marks"] and cell["figures"] for cell in found["cells"])
    assert any("smaller than one block" in note for note in found["notes"])
    assert any("all of it was loaded" in note for note in found["notes"])
    assert found["saved"]["name"] == "mine"
    assert saved["options"] == found["best"]["options"]
    # Which one is fastest is the machine's choice: another one is written in its place.
    saved["options"] = {"set": ["max_insert_threads=1", "min_insert_block_size_rows=4321"]}
    path.write_text(json.dumps(saved))

    def settings(*more: str) -> dict[str, Any]:
        found = shell.ok("plan", files, "--tuned", "mine", *more, "--json").document
        return {setting["name"]: setting["value"] for setting in found["settings"]}

    assert settings()["min_insert_block_size_rows"] == 4321
    # What is given wins.
    given = settings("--set", "min_insert_block_size_rows=1234")
    assert (given["min_insert_block_size_rows"], given["max_insert_threads"]) == (1234, 1)
    report = shell.ok("load", files, "--tuned", "mine", "--json").document
    assert report["rows"] == ROWS
    assert report["settings"]["min_insert_block_size_rows"] == 4321


def test_the_text(shell: Shell, files: str) -> None:
    found = shell.ok("tune", files, "--to", "null:", "--budget", "1s", "--html", "t.html")
    lines = found.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Combinations, the fastest first: a sample of 3.00k rows"
    assert "nothing was left" in lines[-1]
    assert "threads" in lines[1]
    # The page of the same has all combinations that the text has.
    page = (shell.folder / "t.html").read_text()
    assert "Rows by threads" in page
    table = page.partition("All combinations")[2]
    assert table.partition("</section>")[0].count("<tr>") == lines.index("") - 1


def test_bad_input(shell: Shell, files: str) -> None:
    done = shell.ends(4, "tune", "missing/*.csv")
    assert "missing/*.csv" in done.talk
    shell.write("names.csv", "id,name,price\n")
    assert "names.csv is empty" in shell.ends(4, "tune", "names.csv").talk
    with Proxy(1) as nobody:
        nobody.refuse()
        port = nobody.port
        done = shell.ends(5, "tune", files, "--to", f"clickhouse://u@127.0.0.1:{port}/default")
        assert str(port) in done.talk
    assert "only once" in shell.ends(2, "tune", "-", stdin="a,b\n1,2\n").talk
    assert "is not a name" in shell.ends(2, "tune", files, "--save", "../x").talk
    assert "--fewer-than" in shell.ends(2, "tune", files, "--fewer-than", "0").talk
    assert "512" in shell.ends(2, "tune", files, "--memory", "100MiB").talk
    assert "not a duration" in shell.ends(2, "tune", files, "--budget", "soon").talk
    assert not list(shell.folder.rglob(f"*{PREFIX}*"))


def test_memory_below_one_block(shell: Shell) -> None:
    """The load takes smaller blocks than any combination; this says what there is to do."""
    names = [f"c{i}" for i in range(60)]
    shell.write("wide.csv", csv([["text"] * 60] * 10, *names))
    done = shell.ends(2, "tune", "wide.csv", "--memory", "512MiB", "--budget", "2s")
    assert "the memory is less than one block of any combination takes" in done.talk
    assert "Give more with --memory" in done.talk
    shell.ok("load", "wide.csv", "--memory", "512MiB")


def test_names_of_what_was_saved(shell: Shell, files: str) -> None:
    """Another name, another kind of source or target, a file that is broken."""
    done = shell.ends(2, "load", files, "--tuned", "trips")
    assert "nothing was saved under the name trips" in done.talk
    assert "rowfall tune SOURCE --save trips" in done.talk
    saved = {
        "rowfall_tuned": 1, "name": "nightly", "options": {}, "source": "CSV, gzip",
        "target": "table (embedded)", "cores": 2, "rows_per_second": 1, "text": "", "when": "",
    }  # fmt: skip
    folder = shell.cli.home / "state/rowfall/tuned"
    folder.mkdir(parents=True)
    (folder / "nightly.json").write_text(json.dumps(saved))
    assert "Did you mean --tuned nightly?" in shell.ends(2, "load", files, "--tuned", "nigtly").talk
    assert "There are: nightly" in shell.ends(2, "load", files, "--tuned", "x").talk
    for command in ("load", "plan"):
        done = shell.ends(2, command, files, "--tuned", "nightly")
        assert "another kind of source: CSV, gzip" in done.talk
    assert not (shell.folder / "rowfall-data/data").exists()
    shell.ok("load", "generate://trips?rows=1000", "--to", "made.csv.gz")
    done = shell.ends(2, "load", "made.csv.gz", "--to", "null:", "--tuned", "nightly")
    assert "another kind of target: table (embedded), and this is nothing (null)" in done.talk
    shell.ok("load", "made.csv.gz", "--tuned", "nightly")
    (folder / "nightly.json").write_text("{")
    assert "cannot read" in shell.ends(2, "load", files, "--tuned", "nightly").talk


def test_ctrl_c_prints_what_is_known(
    shell: Shell, files: str, untouched: Callable[[], None]
) -> None:
    untouched()
    process = shell.cli.start("tune", files, "--threads", "2", "--budget", "5m", env=shell.env)
    said = ""
    while " of about " not in said:
        piece = process.stderr.readline()
        assert piece, said
        said += piece
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=30)
    assert process.returncode == 130, said + rest
    assert "Combinations, the fastest first" in out
    assert "default" in out
    assert "interrupted after" in out
    untouched()


@pytest.mark.long
def test_clean_removes_what_a_kill_leaves(
    shell: Shell, clickhouse: ClickHouse, tmp_path: Path
) -> None:
    name = f"tune_{abs(hash(tmp_path)) % 10**9}"
    clickhouse.query(f"CREATE DATABASE {name}")
    shell.ok("load", "generate://trips?rows=2000000", "--to", "in/{n}.csv", "--files", "2")
    to = ("--to", clickhouse.uri(name))
    process = shell.cli.start("tune", "in/*.csv", *to, "--table", "t", env=shell.env)
    wait_until(lambda: bool(tables(clickhouse, name)), 30, "a scratch is there")
    process.kill()
    process.communicate(timeout=30)
    assert any(PREFIX in row for row in tables(clickhouse, name))
    shell.ok("clean", *to, "--yes")
    assert tables(clickhouse, name) == []


@pytest.mark.long
def test_a_server(
    shell: Shell, files: str, clickhouse: ClickHouse, tmp_path: Path,
    untouched: Callable[[], None],
) -> None:  # fmt: skip
    name = f"tune_{abs(hash(tmp_path)) % 10**9}"
    clickhouse.query(f"CREATE DATABASE {name}")
    untouched()
    found = tune(shell, files, "--to", clickhouse.uri(name), "--table", "t", "--budget", "15s")
    untouched()
    assert tables(clickhouse, name) == []
    assert set(tried(found)) >= {"insert threads", "block"}
    # Without a right to the server's own tables that a load does not need.
    needed = ("parts", "merge_tree_settings", "processes")
    grants = (f"SELECT, INSERT, CREATE TABLE, DROP TABLE, ALTER, TRUNCATE ON {name}.*",)
    user = clickhouse.add_user(f"u_{name}", *grants)
    to = ("--to", clickhouse.uri(name, account=user), "--table", "t", "--budget", "4s")
    assert "GRANT SELECT ON system.parts" in shell.ends(5, "tune", files, *to).talk
    clickhouse.add_user(f"u_{name}", *grants, *(f"SELECT ON system.{t}" for t in needed))
    document = shell.ok("tune", files, *to, "--json").document
    assert document["best"]["figures"]["rows"] == ROWS
    assert tables(clickhouse, name) == []


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_postgresql(
    shell: Shell, files: str, postgresql: PostgresqlServer, untouched: Callable[[], None]
) -> None:
    schema = f"tune_{abs(hash(shell.folder)) % 10**9}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    shell.env["PGPASSWORD"] = postgresql.password
    untouched()
    to = ("--to", f"{postgresql.uri}?schema={schema}", "--table", "t")
    found = tune(shell, files, *to, "--budget", "15s")
    untouched()
    assert set(tried(found)) == {"connections", "attempt"}
    assert len(tried(found)["connections"]) > 1
    left = postgresql.ask(
        f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace"
    )
    assert left == []
    postgresql.run(f"DROP SCHEMA {schema}")


@pytest.mark.long
@pytest.mark.xdist_group("mysql")
def test_mariadb(shell: Shell, files: str, mariadb: MariaDB, untouched: Callable[[], None]) -> None:
    name = f"tune_{abs(hash(shell.folder)) % 10**9}"
    mariadb.query(f"CREATE DATABASE {name}")
    untouched()
    found = tune(shell, files, "--to", mariadb.uri(name), "--table", "t", "--budget", "15s")
    untouched()
    assert set(tried(found)) == {"connections", "attempt"}
    assert not list(mariadb.query("SHOW TABLES", database=name))


@pytest.mark.long
@pytest.mark.xdist_group("kafka")
def test_kafka(shell: Shell, files: str, kafka: Kafka, untouched: Callable[[], None]) -> None:
    topic = kafka.create(partitions=2)
    before = {name for name in kafka.admin.list_topics(timeout=10).topics if name != topic}
    untouched()
    found = tune(shell, files, "--to", f"kafka://{kafka.servers}/{topic}", "--budget", "10s")
    untouched()
    assert set(tried(found)) == {"connections", "attempt"}
    left = set(kafka.admin.list_topics(timeout=10).topics) - before
    assert {name for name in left if not name.startswith("__")} == {topic}


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "choices"),
    [
        ("out/rows_{n}.parquet", {"threads"}),
        ("new.duckdb", {"connections", "attempt"}),
        ("iceberg+lake/t", {"threads"}),
        ("null:", {"threads"}),
    ],
)
def test_files_of_other_kinds(
    shell: Shell, files: str, untouched: Callable[[], None], place: str, choices: set[str]
) -> None:
    untouched()
    table = ("--table", "t") if place.endswith("duckdb") else ()
    found = tune(shell, files, "--to", place, *table, "--budget", "10s")
    untouched()
    assert set(tried(found)) == choices


@pytest.mark.long
def test_a_bucket_into_a_bucket(
    shell: Shell, s3: Seaweed, bucket: str, untouched: Callable[[], None]
) -> None:
    shell.ok("load", f"generate://trips?rows={ROWS}", "--to", "made/{n}.csv.gz", "--files", "3")
    shell.env |= {**s3.environment(), "AWS_ENDPOINT_URL": s3.endpoint}
    for path in sorted((shell.folder / "made").glob("*.gz")):
        s3.put(bucket, path.name, path.read_bytes())
    untouched()
    tune(shell, f"s3://{bucket}/*.csv.gz", "--budget", "10s")
    tune(shell, f"s3://{bucket}/*.csv.gz", "--to", f"s3://{bucket}/out/{{n}}.parquet",
         "--budget", "6s")  # fmt: skip
    untouched()
    assert len(s3.list(bucket)) == 3
