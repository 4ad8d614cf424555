"""``make bench`` for a server: rowfall's pull and push against the client and INSERT SELECT.

One private server on this machine. Writes ``bench/RESULTS-server.md`` and ``results-server.json``
at full size; any other scale writes beside its data.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import data, table
from bench.data import BUCKET, ROWFALL, Case, report
from bench.measure import BenchError, Result, Sample, agree, fastest, median, ratio, run
from lab.clickhouse import ClickHouse, binary
from rowfall.core.sql import literal, settings_clause
from rowfall.decoder.installed import PROGRAM

HERE = Path(__file__).resolve().parent
CASES = {
    "trips": Case("trips", "trips, csv.gz", "trips", "csv.gz", "CSV"),
    "taxi": Case("taxi", "taxi, csv.gz", "taxi", "csv.gz", "CSV"),
}
# As the articles set them: one thread a core for reading and writing, blocks of 5 M rows.
TUNED = {
    "max_threads": os.cpu_count() or 1,
    "max_insert_threads": os.cpu_count() or 1,
    "input_format_parallel_parsing": 0,
    "min_insert_block_size_rows": 5_000_000,
}
# What a load may take of this machine's memory; the server's default of nearly all would be shared
# with the client, the object store and the page cache.
SERVER_MEMORY = 8_000_000_000
HOW = """\
One ClickHouse server, the S3 service, client and rowfall share this machine. The sides take turns
into a table that is empty each time; medians with the fastest and the slowest round. CPU seconds
are those of the client's side (all its processes) and of the server together, the S3 service not
counted. Peak memory is the server's own high-water mark of that run. The files are in the page
cache. All sides have to store the same rows (checksum over all columns, floats rounded, because the
server's own reader takes 1.239 for 1.2389999999999999). `--direct` inserts into the table itself,
without staging. `clickhouse client` is of the same version; "tuned" is INSERT
SELECT with the settings of the 100-billion-row article."""


@dataclass(frozen=True, slots=True)
class Side:
    """A name for the table, what it is compared with, and the command."""

    name: str
    kind: str
    command: Callable[[], Sequence[str | Path]]


class Bench:
    """One case on one server."""

    def __init__(self, case: Case, server: ClickHouse, files: Sequence[Path], rows: int,
                 s3: tuple[str, dict[str, str]], state: Path) -> None:  # fmt: skip
        self.case, self.server, self.files, self.rows, self.state = case, server, files, rows, state
        self.endpoint, self.env = s3
        self.table = data.table(case.table)

    def sides(self) -> list[Side]:
        return [
            Side("client, one file after another", "client", lambda: self._client(1)),
            Side("client, 4 at once", "client", lambda: self._client(4)),
            Side("INSERT SELECT FROM s3(), defaults", "select", lambda: self._select({})),
            Side("INSERT SELECT FROM s3(), tuned", "select", lambda: self._select(TUNED)),
            Side("rowfall --push (files here)", "push", lambda: self._rowfall("--push")),
            Side("rowfall (S3), as it plans", "plan", lambda: self._rowfall()),
            Side("rowfall --pull (S3)", "pull", lambda: self._rowfall("--pull")),
            Side("rowfall --pull, decoder installed", "inside", lambda: self._rowfall("--pull")),
            Side("rowfall --pull --direct (S3)", "direct",
                 lambda: self._rowfall("--pull", "--direct")),
            Side("rowfall --spare-servers (S3)", "spare",
                 lambda: self._rowfall("--spare-servers")),
        ]  # fmt: skip

    def _base(self) -> list[str | Path]:
        return [binary(), "client", "--port", str(self.server.tcp_port), "--user",
                self.server.user, "--password", self.server.password]  # fmt: skip

    def _client(self, at_once: int) -> list[str | Path]:
        base = " ".join(shlex.quote(str(part)) for part in self._base())
        # xargs replaces {} by the file's name.
        insert = (
            f"INSERT INTO bench.t FROM INFILE '{{}}' COMPRESSION 'gzip' FORMAT {self.case.format}"
        )
        names = "\\n".join(str(path) for path in self.files)
        return ["bash", "-c", f"printf '%b\\n' {shlex.quote(names)} | "
                f"xargs -P{at_once} -I{{}} {base} --query {shlex.quote(insert)}"]  # fmt: skip

    def _select(self, settings: dict[str, int]) -> list[str | Path]:
        keys = (self.env["AWS_ACCESS_KEY_ID"], self.env["AWS_SECRET_ACCESS_KEY"])
        url = f"{self.endpoint}/{BUCKET}/part_*.{self.case.suffix}"
        place = ", ".join(map(literal, (url, *keys, self.case.format, self.table.structure)))
        query = f"INSERT INTO bench.t SELECT * FROM s3({place}){settings_clause(settings)}"
        return [*self._base(), "--query", query]

    def _rowfall(self, *how: str) -> list[str | Path]:
        source = f"s3://{BUCKET}/part_*.{self.case.suffix}"
        if "--push" in how:
            source = str(self.files[0].parent / f"part_*.{self.case.suffix}")
        to = self.server.uri("bench")
        return [ROWFALL, "load", source, *how, "--to", to, "--table", "t", "--json"]

    def once(self, side: Side, result: Result) -> None:
        """Run a side once into the empty table, and add what was measured and stored."""
        self._equip(side.kind == "inside")
        self.server.query("DROP TABLE IF EXISTS bench.t SYNC")
        self.server.query("DROP TABLE IF EXISTS bench._rowfall_journal SYNC")
        self.server.query(
            f"CREATE TABLE bench.t ({self.table.structure}) ENGINE = MergeTree "
            f"ORDER BY {self.table.order_by}"
        )
        os.sync()
        pid = self.server.pid
        if pid is None:
            raise BenchError("the server has ended")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the high-water mark starts anew
        before = cpu_seconds(pid)
        # rowfall keeps its ledger apart, and finds the keys where any AWS tool would.
        env = {"ROWFALL_HOME": str(self.state / str(len(result.wall))), **self.env}
        try:
            sample = run(side.command(), env=env)
        except BenchError as error:
            raise BenchError(f"{side.name}: {error}") from None
        server = cpu_seconds(pid) - before
        if side.kind not in ("client", "select"):
            told = report(sample.output)
            kept = ("seconds", "phases", "limited_by")
            result.notes.append({name: told.get(name) for name in kept})
        result.notes.append({"server_cpu": server, "merged_cpu": self._merged(pid) - before})
        rows, parts, checksum = self._stored()
        result.add(Sample(sample.wall, sample.cpu + server, _peak(pid), 0, b""), rows)
        result.parts.append(parts)
        result.checksums.append(checksum)

    def _merged(self, pid: int) -> float:
        """Merge what is left; returns the CPU seconds of the server so far."""
        self.server.query("OPTIMIZE TABLE bench.t FINAL")
        return cpu_seconds(pid)

    def _equip(self, installed: bool) -> None:
        """Give the server rowfall-decode, or take it away."""
        folder = self.server.folder / "user_scripts"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        (folder / PROGRAM).unlink(missing_ok=True)
        if installed:
            run([ROWFALL, "install-decoder", "--to", self.server.uri("bench")])

    def _stored(self) -> tuple[int, int, str]:
        names = ", ".join(rounded(name, kind) for name, kind in self.table.columns)
        text = self.server.query(
            "SELECT count(), (SELECT count() FROM system.parts WHERE active AND database = 'bench' "
            f"AND table = 't'), sum(cityHash64(toString(tuple({names})))) FROM bench.t"
        )
        rows, parts, checksum = text.split()
        return int(rows), int(parts), checksum


def rounded(name: str, kind: str) -> str:
    """A column for the checksum: the server's own reader of 24.10 takes 1.239 for
    1.2389999999999999, which rowfall does not."""
    if "Float64" in kind:
        return f"toFloat32(`{name}`)"
    return f"round(`{name}`, 3)" if "Float32" in kind else f"`{name}`"


def cpu_seconds(pid: int) -> float:
    """User and system seconds of the server and of programs that it has started and seen end."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def measure(bench: Bench, rounds: int) -> dict[str, Any]:
    """All sides in turns. Raises BenchError when their rows differ."""
    turns = bench.sides()
    results = [Result(side.name, side.kind) for side in turns]
    for number in range(1, rounds + 1):
        for side, result in zip(turns, results, strict=True):
            bench.once(side, result)
            print(f"  round {number}  {result.wall[-1]:8.2f} s wall {result.cpu[-1]:8.2f} s CPU  "
                  f"{side.name}", flush=True)  # fmt: skip
    checksum = agree(results, bench.rows)
    return {
        "title": bench.case.title, "rows": bench.rows, "files": len(bench.files),
        "bytes": sum(path.stat().st_size for path in bench.files), "rounds": rounds,
        "date": datetime.now(UTC).date().isoformat(), "checksum": checksum,
        "sides": [result.to_json() for result in results],
    }  # fmt: skip


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["# Benchmark results: a server", "", HOW, "",
             f"{found['cores']} cores, ClickHouse {found['server']}; load average before "
             f"{found['load']:.2f}.", ""]  # fmt: skip
    for case in found["cases"].values():
        results = [Result.from_json(side) for side in case["sides"]]
        kinds = "client", "select", "push", "plan", "pull", "inside", "direct", "spare"
        by = {kind: [r for r in results if r.kind == kind] for kind in kinds}
        push, plan, pull, inside, direct = (
            by[kind][0] for kind in ("push", "plan", "pull", "inside", "direct")
        )
        client, select = fastest(by["client"]), fastest(by["select"])
        lines += [
            f"## {case['title'].capitalize()}",
            "",
            f"{case['rows']:,} rows in {case['files']} files, {case['bytes'] / 1e6:.0f} MB as "
            f"stored; {case['rounds']} rounds; {case['date']}.",
            "",
            *table.sides_table(results, plan),
            "",
            f"Push takes {_share(push, client)} of the client's best way ({client.name}); from S3 "
            f"rowfall takes {_share(plan, select)} of the best INSERT SELECT ({select.name}) as it "
            f"plans, {_share(inside, select)} where it pulls and the server has the decoder, "
            f"{_share(pull, select)} where it pulls without. Staging, checks and publishing: "
            f"pull takes {_share(pull, direct)} of what it takes with `--direct`, which does "
            "without them.",
            "",
        ]
        for spare in by["spare"]:  # older results have none
            lines += [
                f"With --spare-servers the server itself takes {_server(spare):.2f} CPU seconds, "
                f"and {_server(select):.2f} for {select.name}; all in one part for each partition, "
                f"{_server(spare, 'merged_cpu'):.2f} and {_server(select, 'merged_cpu'):.2f}.",
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _share(one: Result, other: Result) -> str:
    return (f"{ratio(one, other):.2f} of the time and "
            f"{median(one.cpu) / median(other.cpu):.2f} of the CPU")  # fmt: skip


def _server(one: Result, what: str = "server_cpu") -> float:
    """The server's own CPU seconds of a side."""
    return median([note[what] for note in one.notes if what in note])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure rowfall against a server's own ways.")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/rowfall-bench")
    options = parser.parse_args(arguments)
    out = HERE if options.scale == 1 else options.data
    options.data.mkdir(parents=True, exist_ok=True)
    before = out / "results-server.json"
    # Cases that are not measured now keep what was measured before; each has its date.
    cases = json.loads(before.read_text())["cases"] if before.exists() else {}
    found: dict[str, Any] = {"load": os.getloadavg()[0], "cores": os.cpu_count(), "cases": cases}
    with ClickHouse(memory=SERVER_MEMORY) as server:
        server.query("CREATE DATABASE IF NOT EXISTS bench")
        found["server"] = server.query("SELECT version()").strip()
        for name in options.cases.split(","):
            case = CASES[name]
            print(f"\n{case.title}", flush=True)
            rows = data.scaled(case.table, options.scale)
            files = data.make(options.data, case.table, case.suffix, rows, data.FILES[case.table])
            state = options.data / f"state-{os.getpid()}-{name}"
            with data.served(files) as s3:
                bench = Bench(case, server, files, rows, s3, state)
                found["cases"][name] = measure(bench, options.rounds)
            (out / "results-server.json").write_text(json.dumps(found, indent=1) + "\n")
            (out / "RESULTS-server.md").write_text(page(found))
    print(f"\nwritten: {out / 'RESULTS-server.md'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
