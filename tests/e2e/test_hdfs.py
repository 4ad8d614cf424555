"""Loading out of a real HDFS: what lands, what goes wrong, and what is said about it."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import resource
import signal
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.tools import Shell, csv, made
from faults.kills import kill_rowfall
from lab.clickhouse import ClickHouse
from lab.hdfs import Hdfs, NameService
from lab.process import free_ports, let_pass, wait_until
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Kind, Notation, Schema
from rowfall.core.options import Options
from rowfall.decoder import installed
from rowfall.decoder.documents import encode
from rowfall.deliver import decode
from rowfall.sources import open_source
from rowfall.sources.base import Addressed

_numbers = itertools.count()
SUMS = "SELECT count(), sum(id), uniqExact(name) FROM t"


@pytest.fixture
def folder(hdfs: Hdfs) -> Iterator[str]:
    path = f"/e2e/{next(_numbers)}"
    yield path
    hdfs.delete(path)


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def rows(start: int, stop: int) -> bytes:
    return csv([(i, f"n{i}") for i in range(start, stop)], "id", "name").encode()


def parquet(start: int, stop: int) -> bytes:
    sql = "SELECT toInt64(number) AS id, concat('n', toString(number)) AS name FROM numbers({}, {})"
    return made(sql.format(start, stop - start), "Parquet")


def sums(stop: int) -> list[int]:
    return [stop, stop * (stop - 1) // 2, stop]


def load(shell: Shell, source: str, *more: str) -> dict[str, Any]:
    return shell.ok("load", source, "--table", "t", "--json", *more).document


def test_globs_are_loaded_once_and_again_as_another_user(
    shell: Shell, hdfs: Hdfs, folder: str
) -> None:
    for n in range(3):
        hdfs.put(f"{folder}/day={n + 1}/p{n}.csv.gz", gzip.compress(rows(100 * n, 100 * n + 100)))
    hdfs.put(f"{folder}/day=1/_SUCCESS", b"")
    for pattern in ("**/*.csv.gz", "day={1..3}/p?.csv.gz", "*/p{0,1,2}.csv.gz", ""):
        assert len(open_source([hdfs.at(f"{folder}/{pattern}")], Options()).listing()) == 3, pattern
    done = load(shell, hdfs.at(f"{folder}/"))
    assert (done["outcome"], done["rows"], done["splits_loaded"]) == ("done", 300, 3)
    assert shell.row(SUMS) == sums(300)
    assert shell.rows("SELECT day, count() FROM t GROUP BY 1 ORDER BY 1") == [
        [1, 100], [2, 100], [3, 100]
    ]  # fmt: skip
    # Neither who asks nor the HTTP port is part of what a file is.
    user = hdfs.superuser
    nameless = f"{hdfs.uri}{folder}/day=*/*.csv.gz{hdfs.query}"
    again = shell.ok("load", nameless, "--table", "t", "--json", env={"HADOOP_USER_NAME": user})
    assert (again.document["splits_loaded"], again.document["splits_skipped"]) == (0, 3)
    hdfs.put(f"{folder}/day=3/p2.csv.gz", gzip.compress(rows(300, 310)))
    assert load(shell, hdfs.at(folder))["rows"] == 10


def test_parquet_is_read_by_the_engine_or_copied(shell: Shell, hdfs: Hdfs, folder: str) -> None:
    for n in range(2):
        hdfs.put(f"{folder}/f{n}.parquet", parquet(500 * n, 500 * n + 500))
    hdfs.put(f"{folder}/empty.parquet", b"")
    assert load(shell, hdfs.at(f"{folder}/*.parquet"), "--verify")["rows"] == 1000
    assert shell.row(SUMS) == sums(1000)
    # The decoder copies its columns into parts; an empty file is no Parquet, and the engine's.
    files = (
        hdfs.at(f"{folder}/f{{0,1}}.parquet"),
        "--to",
        "built",
        "--table",
        "t",
        "--build",
        "on",
    )
    built = shell.ok("load", *files, "--json").document
    assert (built["rows"], built["notes"]) == (1000, [])
    assert shell.ok("query", SUMS, "--to", "built").out == shell.ok("query", SUMS).out
    hdfs.put(f"{folder}/g.parquet", parquet(1000, 2000)[:-50])
    cut = shell.ends(1, "load", hdfs.at(f"{folder}/*.parquet"), "--table", "t")
    assert "g.parquet" in cut.talk
    assert shell.row(SUMS) == sums(1000)


def test_blocks_come_from_the_data_nodes(shell: Shell, hdfs: Hdfs, folder: str) -> None:
    """Five blocks of 1 MiB, in two ranges, while nobody answers over HTTP."""
    hdfs.put(f"{folder}/large.csv", rows(0, 300_000))
    source = open_source([hdfs.at(f"{folder}/large.csv")], Options())
    assert isinstance(source, Addressed)
    split = source.listing().split(0, "")
    (address,) = source.addresses([split])
    assert [block.bytes for block in address.blocks[:-1]] == [1 << 20] * (len(address.blocks) - 1)
    (nobody,) = free_ports(1)
    away = replace(address, url=Secret(f"http://127.0.0.1:{nobody}/"))
    columns = (
        Column("id", "Int64", notation=Notation()),
        Column("name", "String", notation=Notation()),
    )
    encoding = Encoding("CSVWithNames", "none", Kind.TEXT, names=("id", "name"))
    spec = decode.decoder_spec(
        decode.decoder_inputs([split], [away]), encoding, Schema(columns), {}, ["-"]
    )
    done = subprocess.run(
        [installed.program() or "", "run", "--spec", "-"],
        input=encode(spec).encode(), capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stderr.splitlines()[-1])["rows"] == 300_000
    # Of what was replaced since it was listed there are no blocks.
    hdfs.put(f"{folder}/large.csv", rows(0, 200_000))
    assert source.addresses([split])[0].blocks == ()
    assert load(shell, hdfs.at(f"{folder}/large.csv"))["rows"] == 200_000
    assert shell.row(SUMS) == sums(200_000)


def test_members_of_an_archive(shell: Shell, hdfs: Hdfs, folder: str) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.csv", rows(0, 10))
        archive.writestr("b.csv", rows(10, 20))
    hdfs.put(f"{folder}/a.zip", file.getvalue())
    assert load(shell, hdfs.at(f"{folder}/a.zip"))["rows"] == 20
    assert shell.row(SUMS) == sums(20)


def test_the_data_node_goes_and_comes_back(shell: Shell, hdfs: Hdfs, folder: str) -> None:
    for n in range(4):
        hdfs.put(f"{folder}/{n}.csv", rows(100 * n, 100 * n + 100))
    hdfs.data_node.kill()
    back = threading.Timer(2.0, hdfs.data_node.start)
    back.start()
    try:
        done = load(shell, hdfs.at(f"{folder}/*.csv"), "--schema", "id Int64, name String")
    finally:
        back.join()
    assert done["rows"] == 400
    assert shell.row(SUMS) == sums(400)


def test_what_cannot_be_read_is_said(shell: Shell, hdfs: Hdfs, folder: str) -> None:
    hdfs.put(f"{folder}/a.csv", b"1,x\n")
    hdfs.put(f"{folder}/secret/b.csv", b"1,x\n")
    hdfs.chmod(f"{folder}/secret", "700")
    hdfs.put(f"{folder}/empty.csv", b"")
    (nobody,) = free_ports(1)
    at, rpc, web = hdfs.at, hdfs.rpc, hdfs.http
    host = f"hdfs://{hdfs.superuser}@127.0.0.1"
    cases = [
        (4, at(f"{folder}/nope.csv"), "no such file or folder", "which holds a.csv, empty.csv"),
        (4, at(f"{folder}/*.nope"), "no file matches", "which holds a.csv, empty.csv"),
        (4, at(f"{folder}/empty.csv"), "are empty", ""),
        (4, f"hdfs://eve@127.0.0.1:{rpc}{folder}/secret/b.csv?http={web}",
         "permission denied for the user eve", "HADOOP_USER_NAME"),
        (4, f"{host}:{rpc}{folder}/a.csv?http={nobody}", "connection refused", "?http= names"),
        (4, f"{host}:8020{folder}/a.csv?http={rpc}", f"{rpc} is its RPC port", f":{rpc}{folder}"),
        (4, f"{host}:{web}{folder}/a.csv?http={nobody}", "connection refused", f"?http={web}"),
        (2, f"{host}:{web}{folder}/a.csv?http={web}", "both ports", "RPC port"),
        (2, f"hdfs://u:secret@127.0.0.1{folder}/a.csv", "knows no passwords", "hdfs://user@host"),
        (2, "hdfs:///a.csv", "names no host", "hdfs://user@host"),
    ]  # fmt: skip
    for code, source, said, hint in cases:
        done = shell.ends(code, "load", source, "--table", "t")
        assert said in done.talk, source
        assert hint in done.talk, source
        assert "secret@" not in done.talk


@pytest.mark.long
def test_a_server_pulls_by_itself(lake: Lake, hdfs: Hdfs, folder: str) -> None:
    for n in range(3):
        hdfs.put(f"{folder}/{n}.parquet", parquet(100 * n, 100 * n + 100))
        hdfs.put(f"{folder}/{n}.csv", rows(100 * n, 100 * n + 100))
    plan = lake.ok("plan", hdfs.at(f"{folder}/*.parquet"), "--table", "t", "--json").document
    assert (plan["delivery"], plan["placement"]) == ("pull", "server")
    assert lake.load(hdfs.at(f"{folder}/*.parquet"), "--table", "t", "--verify")["rows"] == 300
    assert lake.row(SUMS.replace("FROM ", "FROM {db}.")) == sums(300)
    assert lake.load(hdfs.at(f"{folder}/*.parquet"), "--table", "t")["splits_loaded"] == 0
    assert lake.load(hdfs.at(f"{folder}/*.csv"), "--table", "u")["rows"] == 300
    assert lake.load(hdfs.at(f"{folder}/*.csv"), "--table", "v", "--pull")["rows"] == 300
    assert lake.load(hdfs.at(f"{folder}/*.parquet"), "--table", "w", "--push")["rows"] == 300
    for table in "uvw":
        found = f"SELECT count(), sum(id), uniqExact(name) FROM {{db}}.{table}"
        assert lake.row(found) == sums(300)


# --- longer ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_shards_pull(fleet: Fleet, hdfs: Hdfs, folder: str) -> None:
    for n in range(4):
        hdfs.put(f"{folder}/{n}.parquet", parquet(100 * n, 100 * n + 100))
    report = fleet.load(hdfs.at(f"{folder}/*.parquet"))
    assert report["rows"] == 400


@pytest.mark.long
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_ranges_of_one_large_file(shell: Shell, hdfs: Hdfs, folder: str, decoder: str) -> None:
    hdfs.put(f"{folder}/large.csv", rows(0, 2_000_000))  # 30 MB in 30 blocks
    done = load(shell, hdfs.at(f"{folder}/large.csv"), "--decoder", decoder, "--threads", "2")
    assert done["rows"] == 2_000_000
    assert shell.row(SUMS) == sums(2_000_000)


@pytest.mark.long
def test_a_file_that_changes_is_not_loaded(shell: Shell, hdfs: Hdfs, folder: str) -> None:
    hdfs.put(f"{folder}/a.csv", rows(0, 100))
    with hdfs.writing(f"{folder}/a.csv", b"100,n100\n"):
        done = shell.ends(1, "load", hdfs.at(f"{folder}/a.csv"), "--table", "t")
    assert "somebody writes to it" in done.talk
    assert shell.row("SELECT count() FROM t") == [0]
    assert load(shell, hdfs.at(f"{folder}/a.csv"))["rows"] == 101


@pytest.mark.long
def test_a_row_group_larger_than_the_engine_holds(
    shell: Shell, hdfs: Hdfs, folder: str, tmp_path: Path
) -> None:
    """One row group of 320 MB: INSERT SELECT with this bound (max_memory_usage) fails."""
    count, bound = 6_000_000, "600MB"
    file = tmp_path / "big.parquet"
    numbers = {
        "id": pc.cast(pa.array(range(count)), pa.int64()),
        "name": pa.array(f"n{n}" for n in range(count)),
        **{name: pc.random(count) for name in "abc"},
    }
    pq.write_table(pa.table(numbers), file, row_group_size=count)
    hdfs.put(f"{folder}/big.parquet", file.read_bytes())
    done = load(shell, hdfs.at(f"{folder}/big.parquet"), "--memory", bound)
    assert done["rows"] == count
    assert shell.row(SUMS) == sums(count)


@pytest.mark.long
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("moment", [0.6, 1.0, 1.4, 2.0, 3.0])
@pytest.mark.parametrize("hurt", ["kill -9", "data node", "name node"])
def test_faults_in_the_middle(
    shell: Shell, hdfs: Hdfs, folder: str, hurt: str, moment: float, format: str
) -> None:
    content: Callable[[int, int], bytes] = rows if format == "csv" else parquet
    for n in range(20):
        hdfs.put(f"{folder}/{n:02}.{format}", content(50_000 * n, 50_000 * n + 50_000))
    source = hdfs.at(f"{folder}/*.{format}")
    command = ("load", source, "--table", "t", "--json", "--attempt-bytes", "1MB")
    process = shell.cli.start(*command)
    let_pass(moment, "a moment of the load")
    if hurt == "kill -9":
        kill_rowfall(process)
    else:
        node = hdfs.data_node if hurt == "data node" else hdfs.name_node
        node.kill()
        let_pass(1, "a second without the node")
        node.start()
    out, err = process.communicate(timeout=100)
    assert process.returncode in (0, 1, 4, -signal.SIGKILL), err
    assert "Traceback" not in err
    if out:
        json.loads(out)
    wait_until(lambda: hdfs.healthy(hdfs.data_node), 60, "HDFS to be back")
    load(shell, source)
    assert shell.row(SUMS) == sums(1_000_000)


@pytest.mark.long
def test_the_memory_of_a_load_holds_for_large_row_groups(
    shell: Shell, hdfs: Hdfs, folder: str
) -> None:
    """Two files of one row group each, half a gigabyte of values, in 1 GiB for all processes."""
    count = 3_000_000
    for n in range(2):
        ids = pa.array(range(n * count, (n + 1) * count), pa.int64())
        text = pc.binary_join_element_wise(pc.cast(ids, pa.string()), "x" * 150, "")
        body = io.BytesIO()
        pq.write_table(
            pa.table({"id": ids, "text": text}), body, row_group_size=count, use_dictionary=False,
            compression="snappy",
        )  # fmt: skip
        hdfs.put(f"{folder}/{n}.parquet", body.getvalue())
    process = shell.cli.start(
        "load", hdfs.at(f"{folder}/*.parquet"), "--table", "t", "--memory", "1GiB"
    )
    highest = 0
    while process.poll() is None:
        highest = max(highest, _resident(process.pid))
        let_pass(0.02, "memory is measured so often")
    assert process.wait() == 0, process.stderr.read() if process.stderr else ""
    assert shell.row("SELECT count(), sum(id), sum(length(text)) > 0 FROM t") == [
        2 * count, count * (2 * count - 1), 1,
    ]  # fmt: skip
    assert highest < 1 << 30, f"{highest >> 20} MiB"


def _resident(pid: int) -> int:
    """Bytes of memory of a process and its descendants."""
    found = 0
    with contextlib.suppress(OSError):  # it has just ended
        found = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += sum(map(_resident, map(int, (task / "children").read_text().split())))
    return found


# --- a name service -------------------------------------------------------------------------------


@pytest.mark.long
def test_a_name_service_whose_active_name_node_changes(shell: Shell) -> None:
    """Also where one name node and one data node are dead; files keep their names."""
    with NameService() as service:
        at = f"hdfs://{service.superuser}@{service.name}"
        env = {"HADOOP_CONF_DIR": str(service.conf)}
        command = ("load", f"{at}/*.csv", "--table", "t", "--json")

        def loaded(expected: int) -> int:
            done = shell.ok(*command, env=env).document
            assert done["rows"] == expected, done
            return int(done["splits_skipped"])

        service.put("/0.csv", rows(0, 100_000))
        loaded(100_000)
        assert loaded(0) == 1
        service.activate(1)
        assert loaded(0) == 1
        service.put("/1.csv", rows(100_000, 300_000))
        loaded(200_000)
        service.put("/2.csv", rows(300_000, 500_000))
        service.put("/3.parquet", parquet(500_000, 500_100))
        service.name_nodes[0].kill()
        service.data_nodes[0].kill()
        loaded(200_000)
        query = shell.ok("load", f"{at}/*.parquet", "--table", "t", "--json", env=env)
        assert query.document["rows"] == 100
        assert shell.row(SUMS) == sums(500_100)
        service.name_nodes[1].kill()
        dead = shell.ends(4, *command, "--patience", "1s", env=env)
        assert "no connection to http://127.0.0.1:" in dead.talk
    lost = shell.ends(4, "load", f"{at}/*.csv", "--table", "t")
    assert "set HADOOP_CONF_DIR to the folder with its hdfs-site.xml" in lost.talk
    (shell.folder / "hdfs-site.xml").write_text("<configuration>")
    here = {"HADOOP_CONF_DIR": str(shell.folder)}
    assert "cannot read" in shell.ends(2, *command, env=here).talk
