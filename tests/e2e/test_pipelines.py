"""Pipelines of SingleStore (``--pull``) against a scripted server that speaks its protocol.

No SingleStore server can be had here: what is proven is which statements are sent, when, and what
becomes of the answers that its documentation describes.
"""

from __future__ import annotations

import re
import secrets

import pytest

from e2e.tools import Shell
from lab.mysql_sink import VARIABLES, Answer, Fails, MySQLSink, Rows
from lab.seaweed import Seaweed

_VALUES = re.compile(r"\('([^']*)', '([^']*)', '([^']*)', '([^']*)', '([^']*)', '([^']*)', NULL")
_COLUMNS = (
    "COLUMN_NAME", "DATA_TYPE", "COLUMN_TYPE", "IS_NULLABLE", "NUMERIC_PRECISION", "NUMERIC_SCALE",
    "DATETIME_PRECISION", "CHARACTER_MAXIMUM_LENGTH", "CHARACTER_SET_NAME", "EXTRA",
    "COLUMN_DEFAULT",
)  # fmt: skip


class SingleStore:
    """As much of it as a pipeline meets: one table, one pipeline, the record of what is loaded."""

    def __init__(self, files: list[str]) -> None:
        self.files = files
        self.table = self.record = self.pipeline = ""
        self.loaded = False
        self.records: list[tuple[str, ...]] = []
        self.fails = ""

    def __call__(self, text: str) -> Answer:
        if text.startswith("SHOW VARIABLES"):
            return Rows(("Variable_name", "Value"), tuple(VARIABLES.items()))
        if text.startswith("CREATE"):
            return self._create(text)
        if text.startswith("START PIPELINE"):
            return self._start()
        if text.startswith("DROP PIPELINE"):
            self.pipeline, self.loaded = "", False
            return None
        if text.startswith("INSERT INTO"):
            self.records += _VALUES.findall(text)
            return None
        return self._select(text) if text.startswith(("SELECT", "SHOW")) else None

    def _create(self, text: str) -> Answer:
        if "PIPELINE" in text.splitlines()[0]:
            self.pipeline = text
        elif "_rowfall_loaded" in text:
            self.record = text
        else:
            self.table = text
        return None

    def _start(self) -> Answer:
        if self.fails:
            return Fails(1712, self.fails)
        self.loaded = True
        return None

    def _select(self, text: str) -> Answer:
        if "information_schema.COLUMNS" in text:
            rows = [
                ("id", "bigint", "bigint(20)", "YES", 19, 0, None, None, None, "", None),
                ("name", "longtext", "longtext", "YES", None, None, None, 1 << 32, "utf8mb4", "",
                 None),
            ]  # fmt: skip
            return Rows(_COLUMNS, rows if self.table else ())
        if "PIPELINES_FILES" in text:
            state = "Loaded" if self.loaded else "Unloaded"
            rows = [(file, state) for file in self.files] if self.pipeline else []
            return Rows(("FILE_NAME", "FILE_STATE"), rows)
        if "PIPELINES_BATCHES_SUMMARY" in text:
            row = ("Succeeded", 2.5, 4, 1.25, 0.5, 0.75)
            names = ("BATCH_STATE", "BATCH_TIME", "ROWS_STREAMED", "EXTRACTOR_WAIT_TIME",
                     "TRANSFORM_WAIT_TIME", "NETWORK_TIME")  # fmt: skip
            return Rows(names, (row,) if self.loaded else ())
        if "PIPELINES_ERRORS" in text:
            names = ("ERROR_MESSAGE", "LOAD_DATA_LINE_NUMBER", "BATCH_SOURCE_PARTITION_ID")
            row = ("Invalid value for column 'id'", 7, self.files[0])
            return Rows(names, (row,) if self.fails else ())
        if "information_schema.PIPELINES" in text:
            return Rows(("PIPELINE_NAME",), (("p",),) if self.pipeline else ())
        if "information_schema.TABLES" in text:
            there = self.record if "'_rowfall_loaded'" in text else self.table
            return Rows(("TABLE_NAME", "e"), (("t", "Columnstore"),) if there else ())
        if "SELECT split, attempt, whole" in text:
            rows = [(r[1], r[2], r[5]) for r in self.records]
            return Rows(("split", "attempt", "whole"), rows)
        if text.startswith("SELECT DISTINCT ''"):
            return Rows(("table_made",), (("",),) if self.records else ())
        if found := re.match("SELECT DISTINCT (split|whole) ", text):
            ids = {r[1 if found[1] == "split" else 5] for r in self.records}
            return Rows((found[1],), tuple((i,) for i in ids if f"'{i}'" in text))
        if text.startswith("SELECT 1 FROM `d`.`t`"):
            return Rows(("1",), (("1",),) if self.loaded or self.records else ())
        if text.startswith("SHOW CREATE"):
            return Rows(("Table", "Create Table"), (("t", self.table),))
        return Rows(("nothing",))


@pytest.fixture
def bucket(s3: Seaweed) -> str:
    name = f"pipe-{secrets.token_hex(4)}"
    s3.create_bucket(name)
    for number in range(2):
        s3.put(name, f"in/{number}.csv", f"id,name\n{number},a\n{number + 2},b\n".encode())
    return name


def command(bucket: str, server: MySQLSink, *more: str) -> list[str]:
    return [f"s3://{bucket}/in/*.csv", "--to", server.uri(), "--table", "t", "--pull", *more]


def test_a_pipeline_is_made_run_recorded_and_dropped(
    shell: Shell, s3: Seaweed, bucket: str
) -> None:
    script = SingleStore([f"in/{number}.csv" for number in range(2)])
    with MySQLSink(script) as server:
        plan = shell.ok("plan", "-v", *command(bucket, server, "--shard-key", "id"), env=s3.env)
        said = " ".join(plan.out.split())
        assert f"AS LOAD DATA S3 '{bucket}/in/*.csv' CONFIG" in said
        assert "SHARD KEY (id)" in said
        assert s3.env["AWS_SECRET_ACCESS_KEY"] not in plan.out
        assert "exactly once by the pipeline" in said
        assert not script.table
        done = shell.ok("load", *command(bucket, server, "--json"), env=s3.env)
        assert (done.document["rows"], done.document["splits_loaded"]) == (4, 2)
        notes = " ".join(done.document["notes"])
        assert "extract 1.2 s, network 0.75 s, transform 0.50 s" in notes
        sent = [text for text in server.asked if "PIPELINE" in text and "information" not in text]
        assert [text.split(" `")[0] for text in sent] == [
            "CREATE PIPELINE IF NOT EXISTS", "START PIPELINE", "DROP PIPELINE IF EXISTS",
        ]  # fmt: skip
        assert "IGNORE 1 LINES\n(`id`, `name`)\nNULL DEFINED BY ''" in sent[0]
        assert s3.env["AWS_SECRET_ACCESS_KEY"] in sent[0]
        again = shell.ok("load", *command(bucket, server, "--json"), env=s3.env)
        assert again.document["rows"] == 0
        assert sum(text.startswith("START PIPELINE") for text in server.asked) == 1


def test_a_failed_pipeline_stays_and_goes_on(shell: Shell, s3: Seaweed, bucket: str) -> None:
    script = SingleStore([f"in/{number}.csv" for number in range(2)])
    script.fails = "Pipeline failed"
    with MySQLSink(script) as server:
        done = shell.run("load", *command(bucket, server), env=s3.env)
        assert done.code == 5, done.err
        assert "in/0.csv line 7: Invalid value for column 'id'" in done.talk
        assert script.pipeline
        assert not script.records
        script.fails = ""
        assert (
            shell.ok("load", *command(bucket, server, "--json"), env=s3.env).document["rows"] == 4
        )
        assert not script.pipeline


def test_new_files_beside_loaded_ones_are_pushed(shell: Shell, s3: Seaweed, bucket: str) -> None:
    script = SingleStore([f"in/{number}.csv" for number in range(2)])
    with MySQLSink(script) as server:
        shell.ok("load", *command(bucket, server), env=s3.env)
        s3.put(bucket, "in/2.csv", b"id,name\n9,z\n")
        done = shell.ends(2, "load", *command(bucket, server), env=s3.env)
        assert "some of the files are loaded already" in done.talk
        assert "--push" in done.talk


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--where", "id > 1"), "--where needs rows that are read here"),
        (("--max-errors", "3"), "--max-errors needs rows that are read here"),
    ],
)
def test_what_no_pipeline_can_do_is_refused(
    shell: Shell, s3: Seaweed, bucket: str, more: tuple[str, ...], why: str
) -> None:
    with MySQLSink(SingleStore([])) as server:
        done = shell.ends(2, "load", *command(bucket, server, *more), env=s3.env)
        assert why in done.talk
        assert not any(text.startswith("CREATE PIPELINE") for text in server.asked)


def test_files_of_this_machine_are_no_pipelines(shell: Shell) -> None:
    shell.write("a.csv", "id,name\n1,a\n")
    with MySQLSink(SingleStore([])) as server:
        done = shell.ends(2, "load", "a.csv", "--to", server.uri(), "--table", "t", "--pull")
    assert "a pipeline reads one s3:// pattern" in done.talk


def test_nothing_is_replaced_there_whatever_the_address_is_called(shell: Shell) -> None:
    """Or all rows would be loaded before the server refuses to exchange the tables."""
    shell.write("a.csv", "id,name\n1,a\n")
    with MySQLSink(SingleStore([])) as server:
        to = server.uri().replace("singlestore://", "mysql://")
        done = shell.ends(2, "load", "a.csv", "--to", to, "--table", "t", "--replace")
        assert "SingleStore 8.9.0, where two tables do not change places" in done.talk
        assert not any(text.startswith("CREATE") for text in server.asked)
