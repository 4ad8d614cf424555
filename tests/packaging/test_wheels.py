"""Wheels: made by `make wheels`, installed into an empty environment, used there."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from deltalake import write_deltalake

from lab import debian, lake_tables
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka
from lab.mariadb import MariaDB
from lab.otelcol import Receiver
from lab.postgresql import PostgresqlServer
from lab.seaweed import Seaweed
from rowfall.core.version import __version__

ROOT = Path(__file__).parents[2]
# Built once, and by one at a time: both kinds of builds make their environment in build/.
pytestmark = pytest.mark.xdist_group("packaging")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_there_is_one_version() -> None:
    crate = ROOT / "crates/rowfall-decode"
    cargo = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))
    wheel = tomllib.loads((crate / "pyproject.toml").read_text(encoding="utf-8"))
    assert cargo["package"]["version"] == wheel["project"]["version"] == __version__
    assert f"rowfall-decode=={__version__}" in "".join(PROJECT["dependencies"])


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both wheels; ROWFALL_WHEELS names one where they are built already."""
    if given := os.environ.get("ROWFALL_WHEELS"):
        return Path(given)
    made = tmp_path_factory.mktemp("wheels")
    _make_wheels(made, "x86_64", "quick")
    return made


def _make_wheels(folder: Path, processor: str, profile: str) -> None:
    how = (f"DIST={folder}", f"WHEELS_FOR={processor}", f"WHEELS_PROFILE={profile}")
    said = subprocess.run(
        ["make", "wheels", *how],  # noqa: S607
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr


class Installation:
    """An environment of its own, with both wheels and what an extra brings."""

    def __init__(
        self, folder: Path, dist: Path, extra: str = "", pip: str = "", python: str = sys.executable
    ) -> None:
        self.folder = folder
        self.bin = folder / "env/bin"
        self.env: dict[str, str] = {}
        subprocess.run([python, "-m", "venv", folder / "env"], check=True)
        if pip:
            self.python("-m", "pip", "install", "-q", f"pip=={pip}")
        own = ["--no-index", "--no-deps", "--find-links", dist, "rowfall", "rowfall-decode"]
        for what in (
            own,
            [f"rowfall[{extra}]" if extra else "rowfall"],
        ):
            self.python("-m", "pip", "install", "-q", *what)

    def python(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run(self.bin / "python", *words, check=check)

    def rowfall(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run(self.bin / "rowfall", *words, check=check)

    def _run(self, *words: str | Path, check: bool) -> subprocess.CompletedProcess[str]:
        keep = {k: v for k, v in os.environ.items() if k in ("TMPDIR", "LANG", *_PIP)}
        home = {"HOME": str(self.folder), "PATH": f"{self.bin}:/usr/bin:/bin"}
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=home | keep | self.env,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done

    def size(self) -> int:
        """Return the bytes of what was installed, pip and what Python compiles left out."""
        packages = next((self.folder / "env/lib").glob("python3*/site-packages"))
        files = [path for path in packages.rglob("*") if path.is_file()]
        kept = [p for p in files if not {"pip", "setuptools", "__pycache__"} & set(p.parts)]
        return sum(path.stat().st_size for path in [*kept, self.bin / "rowfall-decode"])


# Where pip finds an index, if the machine says it by its environment.
_PIP = tuple(name for name in os.environ if name.startswith(("PIP_", "SSL_", "HTTP")))


@pytest.mark.long
@pytest.mark.timeout(1800)  # the decoder is compiled
def test_wheels_hold_what_they_should(dist: Path) -> None:
    (pure,) = dist.glob("rowfall-*.whl")
    (decoder,) = dist.glob("rowfall_decode-*x86_64.whl")  # there may be one for aarch64, too
    assert pure.name == f"rowfall-{__version__}-py3-none-any.whl"
    assert re.fullmatch(
        rf"rowfall_decode-{__version__}-py3-none-manylinux.*x86_64\.whl", decoder.name
    )
    packed = zipfile.ZipFile(decoder)
    program = packed.read(
        next(name for name in packed.namelist() if name.endswith("/rowfall-decode"))
    )
    # Servers that it is copied into may be old, and their images without the compiler's library.
    assert max(int(version) for version in re.findall(rb"GLIBC_2\.(\d+)", program)) <= 17
    assert b"libgcc_s" not in program
    held = zipfile.ZipFile(pure).namelist()
    assert "rowfall/py.typed" in held
    assert "rowfall/core/keywords.py" in held
    assert not [name for name in held if name.startswith(("tests", "bench"))]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_small_installation_loads_into_a_server(
    dist: Path, tmp_path: Path, clickhouse: ClickHouse
) -> None:
    own = Installation(tmp_path, dist)
    # Without link-time optimisation, as wheels are built here, the decoder is 7 MB larger.
    assert own.size() < (45e6 if "ROWFALL_WHEELS" in os.environ else 45e6 + 7e6)
    assert own.rowfall("--version").stdout == f"rowfall {__version__}\n"
    (tmp_path / "in.csv").write_text("id,name\n1,a\n2,b\n")
    to = clickhouse.uri("default")
    made = json.loads(
        own.rowfall("load", "in.csv", "--to", to, "--table", "small", "--json").stdout
    )
    assert (made["outcome"], made["rows"]) == ("done", 2)
    assert "in.csv" in own.rowfall("plan", "in.csv", "--to", to, "--table", "small2").stdout
    assert clickhouse.query("SELECT sum(id) FROM default.small") == "3\n"
    lists = pa.array([[1, 2], []], pa.list_(pa.int32()))
    pq.write_table(pa.table({"id": [3, 4], "tags": lists}), tmp_path / "in.parquet")
    own.rowfall("load", "in.parquet", "--to", to, "--table", "small_parquet")
    assert clickhouse.query("SELECT sum(id) FROM default.small_parquet") == "7\n"
    (tmp_path / "in.json").write_text('[{"id": 3},\n {"id": 4}]\n')
    (tmp_path / "in.fwf").write_text("id   name \n3    a    \n4    b    \n")
    (tmp_path / "in.log").write_text("id=3 name=a\nid=4 name=b\n")
    ids = pa.table({"id": [3, 4]})
    with pa.ipc.new_file(tmp_path / "in.arrow", ids.schema) as writer:
        writer.write_table(ids)
    for file, *how in (
        ("in.json",), ("in.fwf", "--widths", "5,5"), ("in.log", "--format", "logfmt"),
        ("in.arrow",),
    ):  # fmt: skip
        table = f"small_{file.partition('.')[2]}"
        own.rowfall("load", file, "--to", to, "--table", table, *how)
        assert clickhouse.query(f"SELECT sum(id) FROM default.{table}") == "7\n", file
    # What is missing is named with the command that brings it, and nothing is made.
    for extra, words in (
        ("embedded", ["load", "in.csv", "--to", "./folder"]),
        ("postgresql", ["load", "postgresql://a@127.0.0.1/b/c", "--to", to]),
        ("mysql", ["load", "mysql://a@127.0.0.1/b/c", "--to", to]),
        ("kafka", ["load", "kafka://127.0.0.1/topic", "--to", to]),
        ("duckdb", ["load", "in.csv", "--to", "file.duckdb"]),
        ("excel", ["load", "book.xlsx", "--to", to]),
        ("aws", ["load", "s3://bucket/in.csv", "--to", to, "--s3-profile", "nobody"]),
    ):
        done = own.rowfall(*words, check=False)
        assert done.returncode == 2, (extra, done.stderr)
        assert f"Install it: pip install 'rowfall[{extra}]'" in done.stderr
    assert not (tmp_path / "folder").exists()


@pytest.mark.long
@pytest.mark.timeout(1800)  # 300 MB are installed
def test_the_embedded_engine_is_an_extra(dist: Path, tmp_path: Path) -> None:
    own = Installation(tmp_path, dist, "embedded")
    (tmp_path / "in.csv").write_text("id,name\n1,a\n2,b\n")
    made = json.loads(own.rowfall("load", "in.csv", "--decoder", "always", "--json").stdout)
    assert (made["outcome"], made["rows"]) == ("done", 2)
    asked = own.rowfall("query", "SELECT * FROM `in` ORDER BY id", "--format", "CSV").stdout
    assert asked == '1,"a"\n2,"b"\n'
    code = "import rowfall; print(list(rowfall.query('SELECT id FROM `in` ORDER BY id')))"
    assert own.python("-c", code).stdout == "[(1,), (2,)]\n"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("extra", ["postgresql", "mysql", "duckdb,embedded"])
def test_each_driver_is_an_extra(
    dist: Path, tmp_path: Path, extra: str, clickhouse: ClickHouse, request: pytest.FixtureRequest
) -> None:
    """A source with its driver into a server; what has types is read by the embedded engine."""
    own = Installation(tmp_path, dist, extra)
    table = f"default.by_{extra.partition(',')[0]}"
    if "duckdb" in extra:
        make = "import duckdb; duckdb.connect('s.duckdb').sql('CREATE TABLE t AS SELECT 7 AS id')"
        own.python("-c", make)
        source = "duckdb:///s.duckdb/t".replace("///", f"//{tmp_path}/")
    else:
        server = request.getfixturevalue("postgresql" if extra == "postgresql" else "mariadb")
        source = _with_a_row(server)
    own.rowfall("load", source, "--to", clickhouse.uri("default"), "--table", table)
    assert clickhouse.query(f"SELECT id FROM {table}") == "7\n"
    # Text goes into the database without the engine.
    (tmp_path / "in.csv").write_text("id,name\n1,a\n2,b\n")
    to = "made.duckdb" if "duckdb" in extra else source.rpartition("/")[0]
    made = own.rowfall("load", "in.csv", "--to", to, "--table", "packed_text", "--json").stdout
    assert json.loads(made)["rows"] == 2


def _with_a_row(server: PostgresqlServer | MariaDB) -> str:
    """Return the address of a new table of one row, with its password."""
    if isinstance(server, PostgresqlServer):
        server.run("CREATE TABLE packed AS SELECT 7 AS id")
        return f"{server.uri.replace('@', f':{server.password}@', 1)}/packed"
    server.query("CREATE DATABASE packed", "CREATE TABLE packed.t AS SELECT 7 AS id")
    return server.uri("packed/t")


@dataclass
class Place:
    """Where an extra is tried: an installation with it, and a table for the ids 1 and 2."""

    own: Installation
    folder: Path
    to: str
    table: str
    service: Callable[[str], Any]

    def load(self, source: str, *words: str) -> str:
        """Load into the table; returns what the command said."""
        made = self.own.rowfall("load", source, "--to", self.to, "--table", self.table, *words)
        return made.stdout + made.stderr


def _aws(place: Place) -> None:
    s3: Seaweed = place.service("s3")
    bucket = f"extra-{os.getpid()}"
    s3.create_bucket(bucket)
    s3.put(bucket, "in.csv", ROWS.encode())
    (place.folder / ".aws").mkdir()
    (place.folder / ".aws/credentials").write_text(
        f"[lab]\naws_access_key_id = {s3.access_key}\naws_secret_access_key = {s3.secret_key}\n"
    )
    (place.folder / ".aws/config").write_text(f"[profile lab]\nendpoint_url = {s3.endpoint}\n")
    place.load(f"s3://{bucket}/in.csv", "--s3-profile", "lab")


def _arrow(place: Place) -> None:
    place.own.python(
        "-c",
        "import sys, pyarrow, rowfall; table = pyarrow.table({'id': [1, 2]}); "
        "rowfall.load(table, to=sys.argv[1], table=sys.argv[2])",
        place.to, place.table,
    )  # fmt: skip


def _read(place: Place) -> None:
    code = (
        "import rowfall, sys; rows = rowfall.read('in.csv'); "
        "print([batch.to_pylist() for batch in rows]); "
        "sys.exit('pyarrow' in sys.modules)"
    )
    asked = place.own.python("-c", code).stdout
    assert asked == "[[{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}]]\n"
    place.load("in.csv")


def _kafka(place: Place) -> None:
    broker: Kafka = place.service("kafka")
    topic = broker.create()
    broker.send(topic, [b"1,a", b"2,b"])
    source = f"kafka://{broker.servers}/{topic}"
    place.load(source, "--format", "CSV", "--schema", "id UInt32, name String")


def _iceberg(place: Place) -> None:
    lake_tables.iceberg(str(place.folder / "lake"), pa.table({"id": [1, 2]}))
    place.load(f"iceberg+{place.folder}/lake")


def _delta(place: Place) -> None:
    write_deltalake(place.folder / "lake", pa.table({"id": [1, 2]}))
    place.load(f"delta+{place.folder}/lake")


def _excel(place: Place) -> None:
    with xlsxwriter.Workbook(str(place.folder / "in.xlsx")) as book:
        sheet = book.add_worksheet()
        for row, cells in enumerate((("id", "name"), (1, "a"), (2, "b"))):
            sheet.write_row(row, 0, cells)
    place.load("in.xlsx")


def _metrics(place: Place) -> None:
    assert "metrics: http://127.0.0.1:" in place.load("in.csv", "--metrics-port", "0")


def _otel(place: Place) -> None:
    with Receiver() as receiver:
        place.own.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
        said = place.load("in.csv")
        assert "warning" not in said
        assert [span["name"] for span in receiver.spans()].count("load") == 1


def _openlineage(place: Place) -> None:
    (place.folder / "openlineage.yml").write_text(
        "transport: {type: file, log_file_path: lineage.json, append: true}\n"
    )
    place.load("in.csv")
    lines = (place.folder / "lineage.json").read_text().splitlines()
    states = [json.loads(line)["eventType"] for line in lines]
    assert (states[0], states[-1]) == ("START", "COMPLETE")


def _ray(place: Place) -> None:
    assert "of Ray" in place.load("in.csv", "--on", "ray", "--workers", "1")


_ASK_MCP = """
import asyncio, sys
from mcp import Client, StdioServerParameters
table = sys.argv[1]
command = StdioServerParameters(command=sys.executable, args=["-m", "rowfall", "mcp"])
async def call(client, tool, **arguments):
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    return found.structured_content
async def main():
    async with Client(command) as client:
        plan = await call(client, "plan", source=["in.csv"], to="lab", table=table)
        print(await call(client, "load", plan_id=plan["plan_id"]))
asyncio.run(main())
"""


def _mcp(place: Place) -> None:
    """By a connection of rowfall.toml, as agents see no secrets."""
    parts = urlsplit(place.to)
    assert parts.password
    (place.folder / "password").write_text(parts.password)
    (place.folder / "rowfall.toml").write_text(
        "[connections.lab]\n"
        f'uri = "{place.to.replace(f":{parts.password}@", "@")}"\n'
        'password = "file:password"\n'
    )
    place.own.python("-c", _ASK_MCP, place.table)


ROWS = "id,name\n1,a\n2,b\n"
LOADS: dict[str, Callable[[Place], None]] = {
    "aws": _aws, "arrow": _arrow, "read": _read, "kafka": _kafka, "iceberg": _iceberg,
    "delta": _delta, "excel": _excel, "metrics": _metrics, "otel": _otel,
    "openlineage": _openlineage, "ray": _ray, "mcp": _mcp,
}  # fmt: skip

# The engine is asked for the types of the files of a lake, and about messages.
WITH_ENGINE = ("kafka", "iceberg", "delta")


def test_every_extra_is_tried() -> None:
    elsewhere = {"embedded", "postgresql", "mysql", "duckdb"}  # by tests above
    assert set(LOADS) | elsewhere == set(PROJECT["optional-dependencies"])


@pytest.mark.long
@pytest.mark.timeout(1800)  # an environment of up to 300 MB is made
@pytest.mark.parametrize("extra", LOADS)
def test_each_other_extra_loads_into_a_server(
    dist: Path, tmp_path: Path, extra: str, clickhouse: ClickHouse, request: pytest.FixtureRequest
) -> None:
    """Nothing but the extra and what rowfall itself needs is there; without need, no engine."""
    own = Installation(tmp_path, dist, f"{extra},embedded" if extra in WITH_ENGINE else extra)
    (tmp_path / "in.csv").write_text(ROWS)
    table = f"extra_{extra}_{os.getpid()}"
    to = clickhouse.uri("default")
    LOADS[extra](Place(own, tmp_path, to, table, request.getfixturevalue))
    assert clickhouse.query(f"SELECT sum(id), count() FROM default.{table}") == "3\t2\n"
    if extra not in WITH_ENGINE:
        assert own.python("-c", "import chdb", check=False).returncode == 1
    clickhouse.query(f"DROP TABLE default.{table}")


@pytest.mark.long
@pytest.mark.timeout(1800)  # the decoder is compiled once more
def test_the_program_for_aarch64_reads_the_same(
    dist: Path, tmp_path: Path, clickhouse: ClickHouse
) -> None:
    """Run by qemu on another processor; all that it needs of the system is the C library."""
    made = dist
    if not list(made.glob("rowfall_decode-*aarch64.whl")):
        made = tmp_path / "dist"
        _make_wheels(made, "aarch64", "demo")
    own = Installation(tmp_path, dist)
    with zipfile.ZipFile(next(made.glob("rowfall_decode-*aarch64.whl"))) as packed:
        (name,) = [each for each in packed.namelist() if each.endswith("/rowfall-decode")]
        program = Path(packed.extract(name, tmp_path / "packed"))
    program.chmod(0o755)
    root = debian.unpacked("qemu-aarch64", "qemu-user-static", "libc6-arm64-cross") / "usr"
    words = [root / "bin/qemu-aarch64-static", "-L", root / "aarch64-linux-gnu", program]
    (own.bin / "rowfall-decode").unlink()
    (own.bin / "rowfall-decode").write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
    (own.bin / "rowfall-decode").chmod(0o755)
    rows = [{"id": n, "f": n / 7, "s": f"ä{n % 99}"} for n in range(20_000)]
    text = "id,f,s\n" + "".join(f'{n},{f!r},"{s}"\n' for n, f, s in map(dict.values, rows))
    (tmp_path / "in.csv").write_text(text)
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    right = "count(), uniqExact(id), countIf(f = id / 7), countIf(s = concat('ä', id % 99))"
    for name in ("in.csv", "in.csv.gz", "in.jsonl", "in.parquet"):
        table = f"aarch64_{os.getpid()}_{name.replace('.', '_')}"
        to = ("--to", clickhouse.uri("default"), "--table", table)
        own.rowfall("load", name, *to, "--decoder", "always")
        found = clickhouse.query(f"SELECT {right} FROM default.{table}").split()
        assert found == ["20000"] * 4, name
        clickhouse.query(f"DROP TABLE default.{table}")


# Came with Python 3.11.0; older ones do not run there.
OLD_PIP = "22.3"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_old_pip_installs_it(dist: Path, tmp_path: Path) -> None:
    own = Installation(tmp_path, dist, pip=OLD_PIP)
    assert own.python("-m", "pip", "--version").stdout.startswith(f"pip {OLD_PIP} ")
    assert own.rowfall("--version").stdout == f"rowfall {__version__}\n"
    (tmp_path / "in.csv").write_text("id,name\n1,a\n")
    # Reads the file and says what is missing: all that the command needs is there.
    done = own.rowfall("plan", "in.csv", check=False)
    assert "Install it: pip install 'rowfall[embedded]'" in done.stderr


def _python(version: str) -> str | None:
    """Return the path of that Python on this machine; pyenv's own commands may name none."""
    kept = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    if kept:
        return str(kept[-1])
    return shutil.which(f"python{version}")


# The Debians whose Python is one that a machine of today may lack.
DEBIANS = {"3.13": "trixie", "3.14": "forky"}
# Makes folder and root one file system for the command that follows, and for no other process.
_INSIDE = """mount --bind "$0" "$1/mnt" && mount -t proc proc "$1/proc" && root=$1 && shift &&
exec chroot "$root" sh -c 'cd /mnt && exec "$@"' sh "$@"
"""


class DebianInstallation:
    """Both wheels, what they need and the engine, for another Debian's Python in a chroot."""

    def __init__(self, folder: Path, dist: Path, version: str) -> None:
        self.folder = folder
        self.version = version
        self.root = debian.system(DEBIANS[version], f"python{version}")
        needed = [each for each in PROJECT["dependencies"] if not each.startswith("rowfall-decode")]
        needed += PROJECT["optional-dependencies"]["embedded"]
        own = ["--no-index", "--find-links", dist, "--no-deps", "rowfall", "rowfall-decode"]
        for what in (needed, own):  # the second one makes the folder of programs anew
            # pip of this machine, for another Python: all the glibc that wheels of today ask for.
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:",
                 "--python-version", version, "--target", folder / "packages", "--upgrade",
                 "--no-compile", *(f"--platform=manylinux_2_{n}_x86_64" for n in range(17, 35)),
                 "--platform=manylinux2014_x86_64", *what],
                check=True,
            )  # fmt: skip

    def python(self, *words: str) -> None:
        env = {"HOME": "/mnt", "PATH": "/mnt/packages/bin:/usr/bin", "PYTHONPATH": "/mnt/packages"}
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", _INSIDE, self.folder, self.root,  # noqa: S607
             f"python{self.version}", *words],
            env={**env, "PATH": f"{env['PATH']}:{os.environ['PATH']}"}, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_each_python_installs_it_and_loads(
    dist: Path, tmp_path: Path, clickhouse: ClickHouse, version: str
) -> None:
    """Without a warning of what a later Python takes away."""
    python = _python(version)
    if python is None and version not in DEBIANS:
        pytest.fail(f"there is no Python {version} on this machine")
    own = (
        DebianInstallation(tmp_path, dist, version) if python is None
        else Installation(tmp_path, dist, python=python)
    )  # fmt: skip
    (tmp_path / "in.csv").write_text("id,name\n1,a\n2,b\n")
    table = f"python_{version.replace('.', '_')}"
    words = ("load", "in.csv", "--to", clickhouse.uri("default"), "--table", table)
    own.python("-W", "error", "-m", "rowfall", *words)
    assert clickhouse.query(f"SELECT sum(id) FROM default.{table}") == "3\n"
    clickhouse.query(f"DROP TABLE default.{table}")
    if isinstance(own, DebianInstallation):
        folder = ("--to", "folder", "--decoder", "always")
        own.python("-W", "error", "-m", "rowfall", "load", "in.csv", *folder)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_extra_that_is_missing_in_the_middle(
    dist: Path, tmp_path: Path, clickhouse: ClickHouse
) -> None:
    """Nothing is made before it is named, and the same command loads once it is not needed."""
    own = Installation(tmp_path, dist)
    to, table = clickhouse.uri("default"), f"middle_{os.getpid()}"
    for n in range(3):
        (tmp_path / f"{n}.csv").write_text(f"id,name\n{n},a\n{n},b\n")
    (tmp_path / "1.csv").write_text('id,name\n1,a\n1,"b"c\n')  # only the engine may judge it
    words = ("load", "0.csv", "1.csv", "2.csv", "--to", to, "--table", table)
    done = own.rowfall(*words, check=False)
    assert done.returncode == 2, done.stderr
    assert "Install it: pip install 'rowfall[embedded]'" in done.stderr
    assert clickhouse.query(f"EXISTS default.{table}") == "0\n"
    (tmp_path / "1.csv").write_text("id,name\n1,a\n1,b\n")
    own.rowfall(*words)
    assert clickhouse.query(f"SELECT sum(id), count() FROM default.{table}") == "6\t6\n"
    done = own.rowfall("export", table, "out.parquet", "--from", to, check=False)
    assert done.returncode == 2, done.stderr
    assert "Install it: pip install 'rowfall[embedded]'" in done.stderr
    assert not list(tmp_path.glob("*.parquet"))
    clickhouse.query(f"DROP TABLE default.{table}")
