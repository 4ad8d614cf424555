"""Commands of both sides, each a process of its own, measured from its start to its exit."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall.core.bench_results import BenchRound, PublishedFigure
from rowfall.core.dataclass import dataclass
from rowfall.core.sql import literal, settings_clause, structure
from rowfall.lab.cluster import Lab
from rowfall.lab.process import find_clickhouse
from rowfall.measure.bench.places import Places, UnavailableError, settle
from rowfall.measure.processes import BenchError, cpu_of, run
from rowfall.sources.generate import recipe_of

# What a user's script does and nothing that costs: no progress, no result kept. Statements come by
# stdin, so that keys never travel in the arguments.
_ENGINE = """
import json, os, sys, time, chdb
asked = json.load(sys.stdin)
os.chdir("/")
engine = chdb.connect(asked["path"])
for statement in asked["run"]:
    engine.query(statement, "Null")
told = {}
if asked["fewer"]:
    count = lambda: int(bytes(engine.query(asked["parts"], "TSV").bytes()))
    told["parts"], began = count(), time.perf_counter()
    engine.query("SYSTEM START MERGES", "Null")
    while count() >= asked["fewer"] and time.perf_counter() - began < asked["patience"]:
        time.sleep(0.02)
    told["merged"], told["left"] = time.perf_counter() - began, count()
told["rows"] = int(bytes(engine.query(asked["count"], "TSV").bytes())) if asked["count"] else 0
engine.close()
sys.stdout.write(json.dumps(told))
sys.stdout.flush()
os._exit(0)
"""
_COUNT_PARTS = "SELECT count() FROM system.parts WHERE active AND rows > 0 AND table = 't'"
# Merges of small tables take seconds; a table that cannot get there must not hold all others up.
_MERGE_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table of the benchmark: generator, columns, and how it is stored.

    Attributes:
        name: of the generator.
        columns: names and types.
        tail: engine, partition key and sorting key of CREATE TABLE.
        more: columns that the files do not have, with their defaults, as ``name definition``.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    tail: str
    more: str = ""

    @property
    def structure(self) -> str:
        return structure(self.columns)

    def ddl(self, name: str, on: str = "", tail: str = "") -> str:
        """Return CREATE TABLE; ``on``: ON CLUSTER, ``tail``: another engine and keys."""
        more = f"{self.more}, " if self.more else ""
        return f"CREATE TABLE {name}{on} ({more}{self.structure}) {tail or self.tail}"

    @property
    def names(self) -> str:
        return ", ".join(f"`{name}`" for name, _ in self.columns)

    def select(self, relation: str) -> str:
        return f"SELECT {self.names} FROM {relation}"


def table_of(name: str, tail: str, more: str = "") -> TableShape:
    """Return the table of a generator."""
    made = recipe_of(name).schema
    return TableShape(name, tuple((c.name, c.type) for c in made.columns), tail, more)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to load; ``once`` runs it and raises UnavailableError where it cannot."""

    name: str
    side: str
    once: Callable[[], BenchRound]
    published: PublishedFigure | None = None


@dataclass(frozen=True, slots=True)
class ArticleTable:
    """Methods that take turns; ``rows``: that each has to load."""

    article: str
    title: str
    rows: int
    methods: Sequence[Method]


@dataclass(frozen=True, slots=True)
class PipedFrom:
    """A command that writes rows for another one to read, and the variables that it needs."""

    command: Sequence[str]
    env: Mapping[str, str]


class BenchWorkshop:
    """Where the methods of one run work: folders, files, services, commands.

    Attributes:
        folder: of the benchmark; ``places``: its services.
        cores: that this process may use.
    """

    def __init__(self, folder: Path, places: Places, scale: float, cores: int) -> None:
        self.folder, self.places, self.scale, self.cores = folder, places, scale, cores
        self.scratch = folder / "scratch"
        self.made: dict[str, str] = {}  # what one run makes once elsewhere, by name

    def rows(self, full: int) -> int:
        """Return the rows at this scale of a table that has ``full`` at 1."""
        return max(1_000, round(full * self.scale))

    # --- files ------------------------------------------------------------------------------------

    def files(self, name: str, rows: int, suffix: str, count: int, size: int = 0) -> list[Path]:
        """Return files of generated rows, made by rowfall itself where they are not there yet.

        Args:
            size: bytes of the payload of ``random``.
        """
        folder = self.folder / "data" / f"{name}{size or ''}-{rows}-{count}-{suffix}"
        bytes_ = f"&bytes={size}" if size else ""
        if not folder.exists():
            growing = folder.with_name(f"{folder.name}.growing")
            shutil.rmtree(growing, ignore_errors=True)
            # Header lines: what people have, and what tells rowfall the names.
            form = {"csv": "CSVWithNames", "csv.gz": "CSVWithNames", "tsv": "TSV"}.get(suffix)
            command = [*_rowfall("load", f"generate://{name}?rows={rows}{bytes_}"),
                       "--to", str(growing / f"part_{{n}}.{suffix}"), "--files", str(count),
                       *(("--to-format", form) if form else ())]  # fmt: skip
            self._report(run(command, env=self._home(growing), keep=self.places.pids()).output)
            shutil.rmtree(growing / "home", ignore_errors=True)
            growing.rename(folder)
        return sorted(folder.glob(f"part_*.{suffix}"))

    def fresh(self) -> Path:
        """Return a new empty folder that is gone when the round ends."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def clear(self) -> None:
        """Remove what rounds have made."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _home(self, folder: Path) -> dict[str, str]:
        # A ledger of its own: what is loaded is not loaded twice.
        return {"ROWFALL_HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "home")}

    # --- sides ------------------------------------------------------------------------------------

    def measured(
        self, command: Sequence[str | Path], *, stdin: bytes = b"",
        env: Mapping[str, str] | None = None, servers: Sequence[int] = (),
    ) -> tuple[BenchRound, bytes]:  # fmt: skip
        """Run a command and return what it took, without rows, and what it printed."""
        settle()
        load, before = os.getloadavg()[0], sum(map(cpu_of, servers))
        sample = run(command, stdin=stdin, env=env, together=True, keep=self.places.pids())
        if servers:
            settle()
        served = sum(map(cpu_of, servers)) - before
        return (
            BenchRound(sample.wall, sample.cpu, served, sample.together, 0, load), sample.output
        )  # fmt: skip

    def load(
        self, source: str, to: str, *arguments: str, env: Mapping[str, str] | None = None,
        password: str = "", servers: Sequence[int] = (),
    ) -> BenchRound:  # fmt: skip
        """Run ``rowfall load``; its own report says the rows.

        Raises:
            BenchError: it did not end as done.
        """
        own = self._home(self.fresh())
        if password:
            own |= {"ROWFALL_PASSWORD": password}
        command = [*_rowfall("load", source), "--to", to, *arguments]
        found, output = self.measured(command, env={**own, **(env or {})}, servers=servers)
        report = self._report(output)
        more = {"limited_by": report.get("limited_by") or ""}
        return replace(found, rows=int(report["rows"]), more=more)

    def _report(self, output: bytes) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(output)
        except ValueError:
            raise BenchError(f"rowfall printed no report: {output[:200]!r}") from None
        if found.get("outcome") != "done":
            raise BenchError(f"rowfall ended as {found.get('outcome')}: {found.get('failures')}")
        return found

    def engine(
        self, statements: Sequence[str], *, count: str = "SELECT count() FROM t",
        folder: Path | None = None, fewer: int = 0, piped: PipedFrom | None = None,
        servers: Sequence[int] = (),
    ) -> BenchRound:  # fmt: skip
        """Run statements in the embedded engine, in a folder that is new.

        Args:
            count: SELECT of the rows that are there; "" for none.
            fewer: wait until the table ``t`` has fewer active parts.
            piped: a command whose output the statements read as :data:`PIPE`.
        """
        folder = folder or self.fresh() / "data"
        asked = {"path": str(folder), "run": list(statements), "count": count, "fewer": fewer,
                 "parts": _COUNT_PARTS, "patience": _MERGE_PATIENCE}  # fmt: skip
        command: list[str] = [sys.executable, "-c", _ENGINE]
        if piped is not None:
            command = [sys.executable, "-c", _PIPED, json.dumps(list(piped.command)), *command]
        found, output = self.measured(
            command, stdin=json.dumps(asked).encode(), env=piped.env if piped else None,
            servers=servers,
        )  # fmt: skip
        told = json.loads(output)
        return replace(found, rows=told.pop("rows"), more=told)

    def client(self, lab: Lab, statements: Sequence[str]) -> BenchRound:
        """Run statements with the client of ClickHouse on the first node."""
        program = find_clickhouse()
        if program is None:
            raise UnavailableError("no program clickhouse on PATH")
        node = lab.nodes[0].config
        # The password is no argument: others see those.
        config = self.fresh() / "client.xml"
        config.write_text(f"<config><password>{node.password}</password></config>")
        command: list[str | Path] = [
            program, "client", "--config-file", config, "--port", str(node.ports.tcp), "--user",
            node.user, "--multiquery",
        ]  # fmt: skip
        text = ";\n".join(statements)
        return self.measured(command, stdin=text.encode(), servers=pids_of(lab))[0]


# Starts a command whose output the engine's statements find as FD 3.
_PIPED = """
import json, os, subprocess, sys
first = subprocess.Popen(json.loads(sys.argv[1]), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
os.dup2(first.stdout.fileno(), 3)
os.set_inheritable(3, True)
second = subprocess.Popen(sys.argv[2:], close_fds=False)
os.close(3); first.stdout.close()
sys.exit(second.wait() or first.wait())
"""
PIPE = "/dev/fd/3"
"""Where the engine reads the output of the command before it."""


def pids_of(lab: Lab) -> list[int]:
    """Return the processes of all nodes."""
    return [node.pid for node in lab.nodes if node.pid]


def _rowfall(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rowfall", *arguments, "--json"]


def files_relation(files: Sequence[Path], format: str, shape: TableShape) -> str:
    """Return ``file(...)`` of files that differ in their number only."""
    pattern = str(files[0].parent / f"part_*.{files[0].name.partition('.')[2]}")
    return f"file({literal(pattern)}, {literal(format)}, {literal(shape.structure)})"


def s3_relation(places: Places, url: str, format: str, shape: TableShape, cluster: str = "") -> str:
    """Return ``s3(...)``, or ``s3Cluster(...)`` of a cluster; keys are in it."""
    served = places.s3()
    at = url.replace("s3://", f"{served.endpoint}/")
    keys = (served.env["AWS_ACCESS_KEY_ID"], served.env["AWS_SECRET_ACCESS_KEY"])
    given = ", ".join(map(literal, (at, *keys, format, shape.structure)))
    return f"s3Cluster({literal(cluster)}, {given})" if cluster else f"s3({given})"


def with_settings(statement: str, **settings: int) -> str:
    """Return a statement with a SETTINGS clause."""
    return statement + settings_clause(settings)
