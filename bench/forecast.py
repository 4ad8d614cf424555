"""What ``rowfall plan`` forecasts, beside the load that follows.

    python bench/forecast.py [--scale 1] [--rounds 3] [--tables trips,taxi] [--formats csv.gz]
        [--places s3]

Rows should be within 10 %, seconds and memory within 25 %. Memory is that of all processes of the
load together. What else the machine does only makes a load slower, so the fastest of ``--rounds``
counts, and its seconds are shown as they would be without the work of others
(rowfall.measure.machine). Writes ``bench/results-forecast.json`` at scale 1, and otherwise prints
only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.data import BUCKET, ROWFALL, served
from bench.measure import BenchError, adopt_orphans, is_release, run
from lab.postgresql import PostgresqlServer
from rowfall.measure.machine import contention

OUT = Path(__file__).with_name("results-forecast.json")
ROWS = {"trips": 20_000_000, "taxi": 1_000_000, "lineitem": 3_000_000, "hits": 500_000}
FORMATS = ("csv.gz", "json.gz", "parquet")
PLACES = ("local", "s3", "postgresql")
FILES = 8
NEAR = {"rows": 0.10, "seconds": 0.25, "memory": 0.25}


def report(arguments: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run([ROWFALL, *arguments, "--json"], env=env).output)
    return found


def made(table: str, suffix: str, rows: int, folder: Path) -> list[Path]:
    """Return files of a table, written once."""
    own = folder / f"{table}-{rows}-{suffix}"
    if not own.exists():
        header = ["--to-format", "CSVWithNames"] if suffix.startswith("csv") else []
        to = ["--to", f"{own}/{{n}}.{suffix}", "--files", str(FILES), *header]
        made_by = ["load", f"generate://{table}?rows={rows}", *to]
        report(made_by, {"ROWFALL_HOME": str(folder / "made")})
    return sorted(own.glob(f"*.{suffix}"))


@contextlib.contextmanager
def source(
    place: str, table: str, suffix: str, rows: int, folder: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """Give a source and the variables that it needs."""
    if place == "postgresql":
        csv = made(table, "csv.gz", rows, folder)[0].parent
        with PostgresqlServer() as server:
            env = {"PGPASSWORD": server.password, "ROWFALL_PASSWORD": server.password}
            report(["load", f"{csv}/*.csv.gz", "--to", server.uri, "--table", "t"],
                   {**env, "ROWFALL_HOME": str(folder / f"pg-{server.port}")})  # fmt: skip
            server.run("ANALYZE t")
            yield f"{server.uri}/t", {"PGPASSWORD": server.password}
        return
    files = made(table, suffix, rows, folder)
    if place == "local":
        yield f"{files[0].parent}/*.{suffix}", {}
        return
    with served(files) as (_, env):
        yield f"s3://{BUCKET}/*.{suffix}", dict(env)


def compare(
    place: str, table: str, suffix: str, folder: Path, scale: float, rounds: int
) -> dict[str, Any]:
    """Plan and load, and return both; of several loads the fastest."""
    rows = round(ROWS[table] * scale)
    with source(place, table, suffix, rows, folder) as (text, env):
        own = Path(tempfile.mkdtemp(dir=folder))
        env = {**env, "ROWFALL_HOME": str(own / "home")}
        target = ["--to", str(own / "data"), "--table", "t"]
        plan = report(["plan", text, *target], env)["forecast"]
        fastest: tuple[dict[str, float], dict[str, float]] | None = None
        for _ in range(rounds):
            one = _load(text, target, env)
            if fastest is None or one[0]["seconds"] < fastest[0]["seconds"]:
                fastest = one
            shutil.rmtree(own / "data")
            shutil.rmtree(own / "home", ignore_errors=True)  # the ledger of a folder is in it
        if fastest is None:
            raise BenchError("there is nothing to compare without a round")
        measured, more = fastest
        shutil.rmtree(own)
    return {
        "place": place, "table": table, "format": suffix, "forecast": plan, "measured": measured,
        **more, "off": {name: off(plan.get(name), measured[name]) for name in measured},
    }  # fmt: skip


def _load(
    text: str, target: list[str], env: dict[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Load once; return what a plan forecasts, and what else is to be told of it."""
    os.sync()
    with contention() as busy:
        sample = run([ROWFALL, "load", text, *target, "--json"], env=env, together=True)
    load = json.loads(sample.output)
    stored = report(["query", "SELECT sum(bytes_on_disk) AS b FROM system.parts WHERE active "
                     "AND table = 't'", *target[:2]], env)  # fmt: skip
    cpu = load["cpu_seconds"] + load["cpu_seconds_here"]
    seconds = busy.without(load["seconds"], cpu, os.cpu_count() or 1)
    measured = {"rows": load["rows"], "seconds": seconds, "memory": sample.together,
                "parts": load["parts_written"], "disk": int(stored["data"][0]["b"])}  # fmt: skip
    return measured, {"wall": load["seconds"], "cpu": cpu, "busy": round(busy.factor, 2)}


def off(said: float | None, was: float) -> float | None:
    """Return by how much a forecast was off, as a share of what was measured."""
    return None if said is None or not was else round(said / was - 1, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare forecasts with loads.")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", default=",".join(ROWS))
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--data", type=Path, help="keep the files in this folder")
    given = parser.parse_args()
    adopt_orphans()
    cases = []
    with tempfile.TemporaryDirectory(prefix="rowfall-forecast-") as name:
        folder = given.data or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        print("| source | format | table | rows | seconds | memory | parts | disk | CPU s |")
        print("|---|---|---|---:|---:|---:|---:|---:|---:|")
        for place in given.places.split(","):
            for table in given.tables.split(","):
                formats = ["table"] if place == "postgresql" else given.formats.split(",")
                for suffix in formats:
                    one = compare(place, table, suffix, folder, given.scale, given.rounds)
                    cases.append(one)
                    cells = (_cell(name, one) for name in one["measured"])
                    shown = f"{' | '.join(cells)} | {one['cpu']:.2f} |"
                    print(f"| {place} | {suffix} | {table} | {shown}", flush=True)
    missed = [one for one in cases for name, near in NEAR.items()
              if one["off"][name] is None or abs(one["off"][name]) > near]  # fmt: skip
    wrong = len({id(one) for one in missed})
    print(f"\n{len(cases) - wrong} of {len(cases)} within 10 % of the rows and 25 % of time and "
          f"memory; load average {os.getloadavg()[0]:.1f}")  # fmt: skip
    if not is_release():
        print("rowfall-decode is the one for tests: run 'make decoder'; no results are written")
    elif given.scale == 1 and len(cases) > FILES:
        document = {"cores": os.cpu_count(), "rounds": given.rounds,
                    "load": os.getloadavg()[0], "cases": cases}  # fmt: skip
        OUT.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _cell(name: str, one: Mapping[str, Any]) -> str:
    """Return what was said, what was measured, and by how much it was off."""
    said, was, by = one["forecast"].get(name), one["measured"][name], one["off"][name]
    if said is None:
        return f"not said / {_short(was)}"
    share = "-" if by is None else f"{by:+.0%}"
    return f"{_short(said)} / {_short(was)} ({share})"


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.1f}M"
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
