"""``rowfall explain``: the plan beside what happened, attempt by attempt."""

from __future__ import annotations

import sqlite3

import pytest

from e2e.tools import Shell, csv
from lab.seaweed import Seaweed


def test_a_load(shell: Shell) -> None:
    for number in range(4):
        shell.write(f"in/{number}.csv", csv([(i, f"n{i}") for i in range(1000)], "id", "name"))
    loaded = shell.ok("load", "in/*.csv", "--attempt-bytes", "20KB", "--json").document
    found = shell.ok("explain", loaded["load_id"][:6], "--json").document
    assert found["rowfall_explanation"] == 1
    assert found["report"]["load_id"] == loaded["load_id"]
    plan, attempts = found["plan"], found["attempts"]
    assert plan["rows"] == pytest.approx(4000, rel=0.1)
    assert plan["attempts"] == len(attempts) == loaded["attempts"] > 1
    assert sum(each["rows"] for each in attempts) == 4000
    assert sum(each["bytes_source"] for each in attempts) == loaded["bytes_source"]
    assert {each["outcome"] for each in attempts} == {"published"}
    for each in attempts:
        parts = each["insert_seconds"] + each["waited_seconds"] + each["publish_seconds"]
        assert parts == pytest.approx(each["seconds"], abs=0.01)
    assert "CREATE TABLE" in plan["ddl"]
    assert {each["name"] for each in plan["choices"]} >= {"delivery", "parser"}
    text = shell.ok("explain", "last").out
    # Of SQL long words stay whole, so that it can be pasted.
    assert max(map(len, text.partition("SQL (")[0].splitlines())) <= 80
    for heading in ("Plan and what happened", "Attempts", "SQL (secrets masked)"):
        assert heading in text
    # Again: nothing is left to do, and the plan of that run is shown.
    shell.ok("load", "in/*.csv")
    assert "there were none" in shell.ok("explain", "last").out


def test_an_attempt_that_has_failed(shell: Shell) -> None:
    shell.write("in/0.csv", csv([(1, 2)] * 10, "id", "n"))
    shell.ok("load", "in/0.csv", "--table", "t")
    shell.write("in/1.csv", csv([(1, "x")] * 10, "id", "n"))
    shell.run("load", "in/1.csv", "--table", "t", "--schema", "id Int64, n Int64")
    found = shell.ok("explain", "last", "--json").document
    assert found["report"]["outcome"] == "failed"
    assert [each["outcome"] for each in found["attempts"]] == ["failed"] * len(found["attempts"])
    assert found["attempts"][0]["error"]
    assert "failed: " in shell.ok("explain", "last").out


def test_secrets_are_masked(shell: Shell, s3: Seaweed, bucket: str) -> None:
    """Neither the output nor the ledger has them."""
    s3.put(bucket, "a.csv", b"a,b\n1,2\n")
    shell.env |= {**s3.environment(), "AWS_ENDPOINT_URL": s3.endpoint}
    shell.ok("load", f"s3://{bucket}/a.csv", "--table", "t", "--decoder", "never")
    done = shell.ok("explain", "last", "-v")
    assert "s3(" in done.out
    assert s3.secret_key not in done.out
    for ledger in [*shell.cli.home.rglob("*.ledger*"), *shell.folder.rglob("*.ledger*")]:
        assert s3.secret_key.encode() not in ledger.read_bytes()


def test_a_load_whose_plan_is_not_known(shell: Shell) -> None:
    """One of an older version; and no load at all."""
    shell.write("a.csv", "a,b\n1,2\n")
    shell.ok("load", "a.csv")
    (ledger,) = shell.folder.rglob("*.ledger")
    with sqlite3.connect(ledger) as database:
        database.execute("DELETE FROM explained")
    database.close()
    assert "its plan was not kept" in shell.ok("explain", "last").out
    assert shell.ok("explain", "last", "--json").document["plan"] is None
    assert "no loads match" in shell.ends(2, "explain", "ffffff").talk


def test_the_sql_that_ran_is_kept_once_with_its_number(shell: Shell) -> None:
    for number in range(6):
        shell.write(f"in/{number}.csv", csv([(i, f"n{i}") for i in range(1000)], "id", "name"))
    shell.ok("load", "in/*.csv", "--attempt-bytes", "10KB", "--decoder", "never")
    found = shell.ok("explain", "last", "--json").document
    attempts = len(found["attempts"])
    assert attempts > 2
    ran = {each["sql"].split()[0]: each for each in found["record"]["statements"]}
    insert = ran["INSERT"]
    assert insert["times"] == attempts
    assert insert["first"] == f"{found['report']['load_id']}_1"
    assert "file(" in insert["sql"]
    assert {"CREATE", "ALTER", "DROP"} <= set(ran)
    text = shell.ok("explain", "last").out
    assert f"-- {attempts} times, first by attempt 1" in text


def test_the_parts_at_the_end_and_the_work_of_the_decoder(shell: Shell) -> None:
    shell.ok("load", "generate://taxi?rows=60_000", "--to", "in/{n}.csv")
    for _ in range(3):
        # A load of less than half a second is not looked at; busy machines take longer.
        shell.ok("load", "in/*.csv", "--table", "t", "--force", "--threads", "1")
        found = shell.ok("report", "last", "--json").document
        if found["part_sizes"] is not None:
            break
        shell.ok("load", "generate://taxi?rows=400_000", "--to", "in/{n}.csv", "--replace")
    sizes = found["part_sizes"]
    assert sum(count for _, count in sizes["bytes"]) == found["parts_active"] > 0
    assert 1 <= sizes["fullest"] <= found["parts_active"]
    assert sizes["few"] == 3000
    assert sizes["few_after"] == pytest.approx(found["seconds"], abs=0.01)
    assert (sizes["delay"], sizes["throw"]) == (1000, 3000)
    text = shell.ok("report", "last").out
    assert "until fewer than 3,000 parts were active" in text
    # The program that makes the parts says how long it took.
    assert found["phases"]["read"] > 0
    assert found["phases"]["insert"] > 0
    # All of it is in the bar of the page, and what waited for a core besides.
    stages = dict(shell.ok("explain", "last", "--json").document["record"]["stages"])
    assert [*stages] == ["unpack, parse, sort", "compress, write", "count, attach",
                         "wait for a core"]  # fmt: skip
    assert stages["unpack, parse, sort"] > 0
    assert stages["compress, write"] > 0
    assert stages["compress, write"] < found["cpu_seconds"]
