"""``rowfall scale``: files, a bucket, a server and clusters that nobody has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from e2e.tools import Shell, csv
from lab.clickhouse import ClickHouse
from lab.http import SilentServer, Web
from lab.seaweed import Seaweed

ROWS = 400_000
# What planning a million files may need. (CPU seconds: others use the machine of the tests, too.)
MOST_SECONDS, MOST_BYTES = 30, 500e6


@pytest.fixture
def trips(shell: Shell) -> str:
    """Eight gzip files of generated rows."""
    shell.ok("load", f"generate://trips?rows={ROWS}", "--to", "trips/{n}.csv.gz", "--files", "8")
    return "trips/*.csv.gz"


def test_a_sample_of_local_files(shell: Shell, trips: str) -> None:
    found = shell.ok("scale", trips, "--nodes", "1,2", "--price", "2", "--json").document
    assert found["rowfall_scale"] == 1
    assert (found["files"], found["whole_files"]) == (8, True)
    rates = found["rates"]
    assert rates["origin"] == "sample"
    assert rates["core"] > 1e6
    assert rates["reading"] > rates["core"]  # storing rows comes on top
    assert found["rows"] == pytest.approx(ROWS, rel=0.01)
    assert found["node"]["network"] is found["store"] is None
    one, two = found["projections"]
    assert (one["nodes"], two["nodes"]) == (1, 2)
    assert (one["files_most"], two["files_most"]) == (8, 4)
    assert one["cost"] == pytest.approx(2 * one["node_seconds"] / 3600)
    assert two["makespan"] < one["makespan"]
    assert not (shell.folder / "rowfall-data").exists()  # nothing was loaded
    loads = shell.ok("status", "--all", "--json").document["loads"]
    assert [load["target"] for load in loads] == [str(shell.folder / "trips/{n}.csv.gz")]


@pytest.mark.long
def test_past_loads_come_before_a_sample(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=3e7", "--to", "trips/{n}.csv", "--files", "8")
    load = shell.ok("load", "trips/*.csv", "--json").document
    found = shell.ok("scale", "trips/*.csv", "--json").document
    assert found["rates"]["origin"] == "ledger"
    assert "of this source" in found["rates"]["why"]
    assert load["load_id"][:8] in found["rates"]["why"]
    assert found["rates"]["core"] == pytest.approx(load["bytes_source"] / load["cpu_seconds"])
    assert found["rows"] == pytest.approx(3e7)
    shell.write("more/a.csv", csv([(1, 2, 3)] * 1000, "distance_miles", "duration", "vehicle"))
    other = shell.ok("scale", "more/a.csv", "--json").document["rates"]
    assert "of the same format" in other["why"]
    assert (
        shell.ok("scale", trips_of("tsv", shell), "--json").document["rates"]["origin"] != "ledger"
    )
    given = shell.ok("scale", "trips/*.csv", "--rate", "50MB", "--json").document
    assert given["rates"] == {
        "core": 50e6, "reading": None, "rows_per_byte": found["rates"]["rows_per_byte"],
        "origin": "given", "why": "as given",
    }  # fmt: skip


def trips_of(ending: str, shell: Shell) -> str:
    shell.write(f"x/a.{ending}", "1\t2\n" * 1000)
    return f"x/a.{ending}"


def test_generated_rows(shell: Shell) -> None:
    done = shell.ok("scale", "generate://trips?rows=1e9", "--nodes", "1,4", "--rate", "100MB")
    assert "1.00G" in done.out
    assert "generated" in done.out


def test_a_bucket(shell: Shell, s3: Seaweed, bucket: str, trips: str) -> None:
    for file in sorted((shell.folder / "trips").iterdir()):
        s3.put(bucket, f"in/{file.name}", file.read_bytes())
    found = shell.ok("scale", f"s3://{bucket}/in/*.csv.gz", "--json", env=s3.env).document
    assert found["rates"]["origin"] == "sample"
    assert found["node"]["network"] == 1.25e9
    assert 0 < found["store"] < 5_500 * (4 << 20)
    assert found["notes"] == []


def test_the_cores_are_those_of_the_server(
    shell: Shell, clickhouse: ClickHouse, trips: str
) -> None:
    server = clickhouse
    to = f"clickhouse://{server.user}@127.0.0.1:{server.http_port}/default"
    env = {"ROWFALL_PASSWORD": server.password}
    args = ("scale", trips, "--to", to, "--rate", "25MB", "--json")
    cores = shell.ok("plan", trips, "--to", to, "--json", env=env).document["facts"]["cores"]
    assert shell.ok(*args, env=env).document["node"]["cores"] == cores
    assert shell.ok(*args, "--cores", "16", env=env).document["node"]["cores"] == 16


@pytest.mark.long
def test_a_million_files_on_a_thousand_nodes(shell: Shell) -> None:
    source = "simulate://csv.gz?files=1e6&size=25MB&sigma=1&prefixes=1000"
    one = ("--nodes", "1000", "--cores", "32", "--attempt-bytes", "1TB")
    # In a process of its own, whose memory is that of the command alone.
    done = shell.cli("scale", source, *one, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (each,) = found["projections"]
    assert found["files"] == 1_000_000
    assert each["imbalance"] < 0.001
    assert each["limit"] == "largest file"
    assert each["makespan"] == each["lower_bound"]  # no other assignment is better
    assert found["planning_cpu_seconds"] < MOST_SECONDS
    assert found["peak_memory"] < MOST_BYTES


def test_text_shows_formula_limits_and_cost(shell: Shell) -> None:
    source = "simulate://csv.gz?files=1000&size=900MB&rows=100G"
    done = shell.ok(
        "scale", source, "--nodes", "1,2,10", "--cores", "16", "--rate", "25.82MB",
        "--price", "0.8", "--attempt-bytes", "1TB",
    )  # fmt: skip
    text = " ".join(done.out.split())
    assert "1,000 files, 900 GB" in text
    assert "1, 2: the cores: each node loads 413 MB/s" in text
    assert "10: too few files: 6.25 for each of 160 cores" in text
    assert "10 4 min 5 s 40.8 0.54 409M 100 0 % files" in text
    rate = "min(16 cores x 25.8 MB/s, network 1.25 GB/s, store 22.8 GB/s / nodes)"
    assert f"node rate = {rate}" in text
    assert "time = start 0.3 s + the attempts of the slowest node" in text
    assert "core rate = 25.8 MB/s: as given" in text


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x.csv", "--nodes", "one"), "'one' is not a number of nodes"),
        (("x.csv", "--nodes", "1,0"), "'0' is not a number of nodes"),
        (("x.csv", "--price", "cheap"), "--price cheap is not a price"),
        (("x.csv", "--zone-price", "-1"), "--zone-price -1 is not a price"),
        (("x.csv", "--rate", "0"), "--rate must be above zero"),
        (("x.csv", "--network", "fast"), "'fast' is not a size"),
        (("x.csv", "--store", "0"), "--store must be above zero"),
        (("x.csv", "--cores", "0"), "'--cores'"),
        (("x.csv", "--to", "null:"), "null: has none"),
        (("-",), "the size of stdin is not known"),
        (("simulate://csv.gz?files=0",), "files=0 is not possible"),
        (("simulate://csv.gz", "x.csv"), "simulate:// cannot be combined"),
    ],
)
def test_what_makes_no_sense(shell: Shell, args: tuple[str, ...], said: str) -> None:
    shell.write("x.csv", csv([(1, 2)], "a", "b"))
    assert said in shell.ends(2, "scale", *args).talk


def test_no_such_file(shell: Shell) -> None:
    shell.ends(4, "scale", "none/*.csv")


class _NoLength(BaseHTTPRequestHandler):
    """Answers without saying how long the answer is."""

    def do_GET(self) -> None:
        self.do_HEAD()
        if self.command == "GET":
            self.wfile.write(b"a,b\n1,2\n")

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    with SilentServer(("127.0.0.1", 0), _NoLength) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/a.csv"
        server.shutdown()
        thread.join()


def test_a_source_of_unknown_size(shell: Shell, endless: str) -> None:
    talk = shell.ends(2, "scale", endless).talk
    assert f"the size of {endless} is not known" in talk
    assert "simulate://" in talk


def test_some_unknown_sizes_count_as_the_mean(shell: Shell, web: Web, endless: str) -> None:
    urls = [web.put(f"{size}.csv", b"1,2\n" * size) for size in (1000, 3000)]
    found = shell.ok("scale", *urls, endless, "--rate", "25MB", "--json").document
    assert (found["files"], found["bytes"]) == (3, 4 * 6000)
    assert found["notes"] == [
        "The sizes of 1 of 3 files are not known; each counts as the average."
    ]


def test_traffic_between_zones_and_its_fee(shell: Shell) -> None:
    many = ("scale", "simulate://csv.gz?files=1000&size=25MB&rows=1e10", "--cores", "16", "--price",
            "1.5", "--replicas", "3", "--zone-price", "0.02", "--nodes", "1,4,100")  # fmt: skip
    found = shell.ok(*many, "--json").document
    assert [each["zone_bytes"] for each in found["projections"]] == [5e10] * 3
    assert [each["zone_cost"] for each in found["projections"]] == [1.0] * 3
    text = shell.ok(*many).out
    table = text.partition("Projection")[2].partition("Limited by")[0]
    assert "50.0 GB  1.00" in table
    assert max(map(len, table.splitlines())) <= 80
