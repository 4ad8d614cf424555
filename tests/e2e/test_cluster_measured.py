"""``rowfall doctor`` and ``tune`` on a cluster: measured on all shards, nothing stays on any."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.fleet import Fleet
from e2e.tools import Row, csv
from lab.process import wait_until

pytestmark = pytest.mark.long

ROWS = 8_000
# Seconds of loads into scratches, whose ids have twelve digits.
WORKING = """
SELECT substring(initial_query_id, 1, 12) AS load,
sum(ProfileEvents['OSCPUVirtualTimeMicroseconds']) / 1e6 FROM system.query_log
WHERE type != 'QueryStart' AND match(initial_query_id, '^[0-9a-f]{12}_') GROUP BY load"""
TABLES = "SELECT name, ifNull(total_rows, 0) FROM system.tables WHERE database = '{db}' ORDER BY 1"


@pytest.fixture
def files(fleet: Fleet) -> str:
    for n in range(8):
        rows = [(i, f"n{i % 97}") for i in range(n * 1000, (n + 1) * 1000)]
        fleet.shell.write(f"in/f{n}.csv", csv(rows, "id", "name"))
    return "in/*.csv"


def tables(fleet: Fleet) -> list[list[Row]]:
    """The tables of each node, with their rows."""
    return [fleet.ask(node, TABLES.format(db=fleet.database)) for node in fleet.cluster.nodes]


def links(document: dict[str, Any]) -> set[str]:
    return {f"{link['part']}: {link['name']}" for link in document["links"]}


def test_doctor_of_a_new_table(fleet: Fleet, files: str) -> None:
    found = fleet.ok("doctor", files, "--table", "t", "--json").document
    assert tables(fleet) == [[]] * 4
    assert found["rows"] == found["sample"]["rows"] == ROWS
    assert links(found) >= {"source: reading", "network: round trip", "target: ready rows",
                            "protocol: one row"}  # fmt: skip
    # Of one load on all shards together.
    own = [dict(map(tuple, fleet.ask(node, WORKING))) for node in fleet.first()]
    sums = [sum(each.get(load, 0.0) for each in own) for load in own[0]]
    assert any(total == pytest.approx(found["engine"]["working"]) for total in sums)
    assert not any(x == pytest.approx(found["engine"]["working"]) for x in own[0].values())


def test_doctor_of_a_table_that_is_there(fleet: Fleet, files: str) -> None:
    """Its rows stay, on every replica, and what the journal knows of its loads."""
    fleet.load("in/f0.csv", "--table", "t", "--order-by", "name")
    fleet.sync("t_local")
    before = tables(fleet)
    found = fleet.ok("doctor", files, "--table", "t", "--json").document
    assert found["predicted_rows_per_second"] > 0
    assert tables(fleet) == before
    assert fleet.load(files, "--table", "t")["rows"] == ROWS - 1000


def test_tune(fleet: Fleet, files: str) -> None:
    found = fleet.ok("tune", files, "--table", "t", "--budget", "15s", "--json").document
    assert tables(fleet) == [[]] * 4
    assert found["best"]["figures"]["rows"] > 0
    assert sum(1 for cell in found["cells"] if cell["figures"]) > 2


def test_clean_removes_what_a_kill_leaves(fleet: Fleet, files: str) -> None:
    process = fleet.shell.cli.start(
        "tune", files, "--table", "t", "--to", fleet.to, env=fleet.shell.env
    )
    wait_until(lambda: all(tables(fleet)), 60, "a scratch is on every node")
    process.kill()
    process.communicate(timeout=30)
    assert any(tables(fleet))
    fleet.ok("clean", "--yes")
    assert tables(fleet) == [[]] * 4
