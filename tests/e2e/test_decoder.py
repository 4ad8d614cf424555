"""rowfall-decode inside a load: the same rows as the engine's reader, or the engine's reader."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.tools import Shell
from rowfall import decoding

CHECK = "SELECT count(), sum(cityHash64(*)), uniqExact(id) FROM t"


@pytest.fixture(autouse=True)
def _installed() -> None:
    assert decoding.program(), "make test builds it: make decoder"


def plan(shell: Shell, *args: str) -> tuple[str, str]:
    made = shell.ok("plan", *args, "--json").document
    return made["decoder"], made["why_decoder"]


def mixed(shell: Shell, name: str, start: int, rows: int) -> None:
    lines = ["id,name,price,day,at,flag,maybe"]
    lines += [
        f'{i},"n ""{i % 7}"", x",{i % 100}.{i % 90 + 10},2024-0{i % 9 + 1}-1{i % 9},'
        f"2024-01-0{i % 9 + 1} 10:00:{i % 50 + 10},{'true' if i % 2 else 'false'},"
        f"{'' if i % 3 else i}"
        for i in range(start, start + rows)
    ]
    shell.write(f"in/{name}.csv", "\n".join(lines) + "\n")
    path = shell.folder / f"in/{name}.csv"
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def test_the_same_rows_as_the_engine_reads(shell: Shell) -> None:
    for n in range(3):
        mixed(shell, f"f{n}", n * 5000 + 1, 5000)
    assert plan(shell, "in/*.csv.gz") == ("rowfall-decode", "")
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--decoder", "always", "--to", "a")
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--decoder", "never", "--to", "b")
    decoded = shell.ok("query", CHECK, "--to", "a").out
    assert decoded == shell.ok("query", CHECK, "--to", "b").out
    assert "\n15000\t" in decoded


@pytest.mark.parametrize("form", ["CSV", "TSV", "TSVWithNames", "JSONEachRow"])
def test_every_text_format(shell: Shell, form: str) -> None:
    shell.ok("load", "generate://taxi?rows=20000&seed=7", "--table", "t", "--to", "a")
    out = shell.folder / "in.data"
    out.write_text(shell.ok("query", f"SELECT * FROM t FORMAT {form}", "--to", "a").out)
    ddl = shell.ok(
        "query", "SELECT name || ' ' || type FROM system.columns WHERE table = 't'", "--to", "a",
        "--format", "TSVRaw",
    ).out  # fmt: skip
    options = ("--format", form, "--schema", ", ".join(ddl.split("\n")).rstrip(", "))
    count = "SELECT count(), sum(cityHash64(*)) FROM t"
    for name in ("always", "never"):
        shell.ok("load", "in.data", *options, "--table", "t", "--decoder", name, "--to", name)
        assert (
            shell.ok("query", count, "--to", name).out == shell.ok("query", count, "--to", "a").out
        )


def test_sorted_blocks_hold_the_same_rows(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=300000", "--to", "in/p_{n}.csv.gz", "--files", "3")
    for name in ("always", "never"):
        shell.ok(
            "load", "in/*.csv.gz", "--format", "CSV", "--order-by", "(c3, c1)", "--partition-by",
            "c1", "--table", "t", "--decoder", name, "--to", name,
        )  # fmt: skip
    count = "SELECT count(), sum(cityHash64(*)) FROM t"
    assert (
        shell.ok("query", count, "--to", "always").out
        == shell.ok("query", count, "--to", "never").out
    )


def test_what_it_declines_the_engine_reads(shell: Shell) -> None:
    shell.write("in/a.csv", "id,name\n1,x\n2,y\n")
    shell.write("in/b.csv", "id,name\n+3,x\n4,y\n")  # a plus sign is the engine's business
    done = shell.ok("load", "in/*.csv", "--table", "t", "--schema", "id UInt8, name String")
    assert "read by the engine instead" in done.talk
    assert shell.ok("query", "SELECT sum(id) FROM t").out == "sum(id)\n10\n"


def test_a_bad_value_is_named_by_file_line_and_column(shell: Shell) -> None:
    lines = "".join(f"{i},x\n" for i in range(1, 1001))
    shell.write("in/a.csv", "id,name\n" + lines)
    shell.write("in/b.csv", "id,name\n" + lines + "300000,y\n")
    done = shell.run("load", "in/*.csv", "--table", "t", "--schema", "id UInt16, name String")
    assert done.code == 1
    assert 'in/b.csv line 1002 column "id": "300000" does not fit UInt16' in done.talk
    assert shell.ok("query", "SELECT count() FROM t").out == "count()\n1000\n"


def test_many_declined_files_do_not_cost_an_attempt_each(shell: Shell) -> None:
    for n in range(12):
        shell.write(f"in/{n}.csv", f"id,name\n+{n},x\n")
    done = shell.ok(
        "load", "in/*.csv", "--table", "t", "--schema", "id UInt8, name String", "--json"
    ).document
    assert done["rows"] == 12
    assert done["attempts"] <= 4


def test_always_says_why_it_cannot(shell: Shell) -> None:
    shell.write("in/a.csv", "id,at\n1,2024-01-01 00:00:00\n")
    done = shell.run(
        "load", "in/*.csv", "--table", "t", "--decoder", "always",
        "--schema", "id UInt8, at DateTime('Europe/Paris')",
    )  # fmt: skip
    assert done.code == 2
    assert "times of at are not in UTC" in done.talk
    assert shell.run("load", "in/*.csv", "--decoder", "perhaps").code == 2


def test_a_cut_file_is_no_short_file(shell: Shell) -> None:
    mixed(shell, "f", 1, 20_000)
    path = shell.folder / "in/f.csv.gz"
    path.write_bytes(path.read_bytes()[:-1000])
    done = shell.run("load", "in/*.csv.gz", "--table", "t")
    assert done.code != 0
    assert "f.csv.gz" in done.talk


def decoder_of(parent: int) -> int:
    """Pid of the decoder that a process has started; 0 while there is none."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)
            if int(fields[1].split()[1]) == parent and "rowfall-decode" in fields[0]:
                return int(entry.name)
        except OSError:
            continue
    return 0


@pytest.mark.parametrize("victim", ["decoder", "rowfall"])
def test_killed_in_the_middle(shell: Shell, victim: str) -> None:
    shell.ok("load", "generate://trips?rows=6000000", "--to", "in/p_{n}.csv", "--files", "4")
    command = [sys.executable, "-m", "rowfall", "load", "in/*.csv", "--table", "t"]
    environment = {**os.environ, **shell.env}
    process = subprocess.Popen(command, cwd=shell.folder, env=environment, stderr=subprocess.PIPE)
    child = 0
    while not child and process.poll() is None:
        child = decoder_of(process.pid)
        time.sleep(0.005)
    assert child, "the load was over before the decoder was seen"
    time.sleep(0.1)
    try:
        os.kill(child if victim == "decoder" else process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pytest.skip("it had ended by itself")
    process.communicate(timeout=120)
    if victim == "rowfall":
        deadline = time.monotonic() + 30
        while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{child}").exists(), "the decoder outlived rowfall"
    shell.ok("load", "in/*.csv", "--table", "t")
    assert shell.ok("query", "SELECT count() FROM t").out == "count()\n6000000\n"
