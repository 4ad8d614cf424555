"""Rules of the engine about signs, keys and addresses, some of which its readers do not check."""

from __future__ import annotations

import pytest

from e2e.tools import Shell

FINE = "id,sign,v\n1,1,5\n3,-1,7\n"
BAD = "id,sign,v\n1,1,5\n2,7,6\n3,-1,7\n"
ENGINES = ["CollapsingMergeTree(sign)", "VersionedCollapsingMergeTree(`sign`, v)"]


@pytest.mark.parametrize("build", ["on", "off"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled(2)
def test_another_sign_is_refused(shell: Shell, engine: str, build: str) -> None:
    """FINAL would leave the row out and some others, and merges would fail."""
    shell.write("a.csv", FINE)
    shell.write("b.csv", BAD)
    new = ("--engine", engine, "--order-by", "id", "--type", "sign Int8", "--type", "v UInt64")
    shell.ok("load", "a.csv", "--table", "t", *new)
    ways = ("--table", "t", "--build", build)
    failed = shell.ends(1, "load", "b.csv", *ways)
    assert 'b.csv line 3 column "sign": "7" is neither 1 nor -1' in failed.talk
    typed = ("b.csv", "--to", "b.parquet", "--type", "sign Int8", "--type", "v UInt64")
    shell.ok("load", *typed)
    failed = shell.ends(1, "load", "b.parquet", *ways)
    assert 'b.parquet row 2 column "sign": "7" is neither 1 nor -1' in failed.talk
    shell.ok("load", "b.csv", *ways, "--max-errors", "1")
    assert shell.row("SELECT count(), sum(sign) FROM t") == [4, 0]
    shell.ok("query", "OPTIMIZE TABLE t FINAL", "--write")


@pytest.mark.parametrize("text", [BAD, BAD.replace("-1", "1")])
def test_a_new_table_is_checked_as_well(shell: Shell, text: str) -> None:
    """Signs without a minus are read as numbers, and as texts when a row is refused."""
    shell.write("b.csv", text)
    new = ("--engine", ENGINES[0], "--order-by", "id", "--type", "sign Int8")
    failed = shell.ends(1, "load", "b.csv", *new)
    assert 'line 3 column "sign": "7" is neither 1 nor -1' in failed.talk


@pytest.mark.parametrize("key", ["Order ID", "v, Order ID", "`Order ID`"])
def test_a_key_by_a_name_with_a_blank(shell: Shell, key: str) -> None:
    shell.write("a.csv", "Order ID,v\n1,2\n2,3\n")
    shell.ok("load", "a.csv", "--order-by", key)
    assert "Order ID" in shell.row("SELECT sorting_key FROM system.tables WHERE name = 'a'")[0]
    refused = shell.ends(2, "load", "a.csv", "--table", "b", "--order-by", "toDate(v")
    assert "opens 1 and closes 0 brackets" in refused.talk


@pytest.mark.parametrize("decoder", ["auto", "never"])
@pytest.mark.parametrize("text", ["2001:db8:::1", "::1:2:3:4:5:6:7:8", "1:2:3:4::5:6:7:8"])
@pytest.mark.sampled(2)
def test_what_is_no_address(shell: Shell, text: str, decoder: str) -> None:
    fine = "n,ip\n1,2001:db8::1\n2,1:2:3:4:5:6:7::\n3,::ffff:1.2.3.4\n"
    shell.write("a.csv", fine)
    ways = ("--table", "t", "--type", "ip IPv6", "--decoder", decoder)
    shell.ok("load", "a.csv", *ways)
    shell.write("b.csv", f"{fine}4,{text}\n")
    failed = shell.ends(1, "load", "b.csv", *ways)
    assert f'line 5 column "ip": "{text}" does not fit IPv6' in failed.talk
