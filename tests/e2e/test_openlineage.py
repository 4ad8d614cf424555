"""Lineage of real loads, by the client's own configuration file."""

from __future__ import annotations

import json
from typing import Any

from e2e.tools import Shell


def events(shell: Shell) -> list[dict[str, Any]]:
    lines = (shell.folder / "lineage.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_load_that_is_resumed_is_one_run(shell: Shell) -> None:
    shell.write("openlineage.yml", "transport: {type: file, log_file_path: lineage.json,"
                " append: true}\n")  # fmt: skip
    shell.write("a.csv", "id,name\n1,x\n")
    shell.write("b.csv", "id,name\ny,y\n")
    command = ("load", "?.csv", "--schema", "id UInt32, name String", "--table", "t")
    assert shell.cli(*command).returncode == 1
    shell.write("b.csv", "id,name\n2,y\n3,z\n")
    done = shell.cli(*command)
    assert (done.returncode, "warning" in done.stderr) == (0, False)
    found = events(shell)
    states = [event["eventType"] for event in found]
    assert states == ["START", "RUNNING", "FAIL", "START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in found}) == 1
    assert "b.csv" in found[2]["run"]["facets"]["errorMessage"]["message"]
    read = {(i["namespace"], i["name"]): i["facets"]["version"]["datasetVersion"]
            for i in found[-1]["inputs"]}  # fmt: skip
    assert read.keys() == {("file", str(shell.folder / name)) for name in ("a.csv", "b.csv")}
    before = {i["name"]: i["facets"]["version"]["datasetVersion"] for i in found[1]["inputs"]}
    assert read["file", str(shell.folder / "b.csv")] != before[str(shell.folder / "b.csv")]
    (written,) = found[-1]["outputs"]
    assert written["name"] == str(shell.folder / "rowfall-data/default.t")
    assert [f["name"] for f in written["facets"]["schema"]["fields"]] == ["id", "name"]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 2


def test_an_endpoint_that_is_away_does_not_fail_a_load(shell: Shell) -> None:
    shell.write("t.csv", "a\n1\n")
    done = shell.cli("load", "t.csv", env={"OPENLINEAGE_URL": "http://127.0.0.1:9"})
    assert done.returncode == 0
    assert done.stderr.count("warning: ") == 1
    assert "warning: OpenLineage gets no events, the load goes on: " in done.stderr
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
