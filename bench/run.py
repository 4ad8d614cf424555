"""``make bench``: rowfall against the engine's own INSERT SELECT, hand-tuned. See RESULTS.md.

Data are made once into ``--data``. A run at full size writes ``bench/RESULTS.md`` and
``bench/results.json``; any other scale is a rehearsal and writes beside its data. Cases that an
earlier run on the same machine has measured are kept, so that a long run may be done case by case;
the page says which of them an earlier state of the code was measured with.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rowfall
from bench import sides, small, table
from bench.data import CASES, SMALL, Case, Input, opened, select
from bench.measure import BenchError, Result, adopt_orphans, agree, fastest, run
from rowfall import __version__
from rowfall.core.machine import free_memory, usable_cores

HERE = Path(__file__).resolve().parent
DEFAULT_DATA = Path.home() / ".cache/rowfall-bench"
LEAST_ROUNDS = 3
# What must be the same for older cases to stand beside new ones.
_SAME = ("cores", "cpu", "memory", "chdb", "python", "scale")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    # As an installer leaves it: byte code made once, not at every start.
    compileall.compile_dir(Path(rowfall.__file__).parent, quiet=1)
    try:
        return _bench(options)
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 2


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure rowfall against the engine.")
    names = ", ".join([*CASES, SMALL])
    parser.add_argument("--cases", metavar="A,B", help=f"some of: {names}; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--sweep-rounds", type=int, default=2, help="rounds of the sweep")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full row counts")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder for the data")
    parser.add_argument("--out", type=Path, help="folder for RESULTS.md and results.json")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.sweep_rounds) < 1 or options.scale <= 0:
        parser.error("--rounds, --sweep-rounds and --scale must be above zero")
    if options.scale == 1 and options.rounds < LEAST_ROUNDS:
        parser.error(f"at full size --rounds must be at least {LEAST_ROUNDS}")
    return options


def _bench(options: argparse.Namespace) -> int:
    names = select(options.cases)
    adopt_orphans()
    root = options.data.expanduser().resolve()
    root.mkdir(parents=True, exist_ok=True)
    full_size = options.scale == 1
    out = options.out or (HERE if full_size else root)
    out.mkdir(parents=True, exist_ok=True)
    lock = _alone(root)
    # One fixed name: what a killed run left is removed by the next.
    work = root / "work"
    results = kept(out / "results.json", _about(options.scale, work))
    failed = False
    try:
        for name in names:
            if name == SMALL:
                figures = small.figures(root, work, options.scale)
                results["small"] = {"source": _source_digest(), "date": _today(), **figures}
            else:
                results["cases"][name] = measured = _case(CASES[name], root, work, options)
                failed = failed or bool(measured.get("error"))
            if _source_digest() != results["about"]["source"]:
                # Figures of two states of the code on one page; the next run starts anew.
                results["about"]["changed"] = True
            write(out, results)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(lock)
    print(f"\nwritten: {out / 'RESULTS.md'}")
    return 1 if failed else 0


def _alone(root: Path) -> int:
    """Two benchmarks at once would measure each other. Returns the lock's descriptor."""
    lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BenchError("another benchmark is running on the same data") from None
    return lock


def _case(case: Case, root: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Sweep, then the interleaved rounds. A failure is the case's result, not the run's end."""
    print(f"\n{case.title}", flush=True)
    with opened(case, root, options.scale) as given:
        found: dict[str, Any] = {
            "date": _today(), "source": _source_digest(),
            "rows": given.rows, "files": given.files, "bytes": given.size,
            "rounds": options.rounds, "sweep_rounds": options.sweep_rounds,
        }  # fmt: skip
        try:
            return {**found, **_measure(given, work, options)}
        except BenchError as error:
            print(f"FAILED: {error}", file=sys.stderr, flush=True)
            return {**found, "error": _without_paths(str(error), root)}
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _without_paths(text: str, root: Path) -> str:
    """The page is for everybody: no places of this machine on it."""
    places = {sys.prefix: "VENV", str(HERE.parent): "CHECKOUT", str(root): "DATA"}
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text


def _measure(given: Input, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    cores, memory = usable_cores(), free_memory() // 2
    text = given.case.format != "Parquet"
    cells = sides.sweep(cores, text=text)
    swept = _rounds(cells, given, work, options.sweep_rounds, "sweep")
    agree(swept, given.rows)
    best = next(cell for cell in cells if cell.name == fastest(swept).name)
    turns = sides.final(sides.published(cores, memory), best)
    results = _rounds(turns, given, work, options.rounds, "round")
    checksum = agree([*swept, *results], given.rows)
    print("\n".join(["", *table.sides_table(results, table.loader(results)), ""]))
    print(table.verdict_words(results), flush=True)
    return {
        "sweep": [result.to_json() for result in swept],
        "sides": [result.to_json() for result in results],
        "best_cell": best.name,
        "checksum": checksum,
    }


def _rounds(
    turns: Sequence[sides.Side], given: Input, work: Path, rounds: int, word: str
) -> list[Result]:
    """Every side once, then every side once more: a slow minute of the machine hits all alike."""
    results = [side.result() for side in turns]
    for number in range(1, rounds + 1):
        for side, result in zip(turns, results, strict=True):
            os.sync()  # nobody pays for the dirty pages of the side before
            # Not in the sweep: its cells are compared by their loads.
            merged = given.case.merged and word == "round"
            sides.once(side, given, work, result, merged=merged)
            print(f"  {word} {number}  {result.wall[-1]:8.2f} s wall {result.cpu[-1]:8.2f} s CPU  "
                  f"{side.name}", flush=True)  # fmt: skip
    return results


def _about(scale: float, work: Path) -> dict[str, Any]:
    """The machine and the versions; asked before anything is measured."""
    load = os.getloadavg()[0]
    request = {"path": str(work / "ask"), "run": [], "ask": ["SELECT version()"]}
    script = HERE / "engine_load.py"
    answer = json.loads(run([sys.executable, script], stdin=json.dumps(request).encode()).output)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": _today(),
        "scale": scale,
        "load": load,
        "cores": usable_cores(),
        "cpu": _cpu_model(),
        "memory": memory,
        "kernel": f"{platform.system()} {platform.release()}",
        "rowfall": __version__,
        "source": _source_digest(),
        "chdb": version("chdb"),
        "engine": answer["answers"][0][0][0],
        "python": platform.python_version(),
    }


def _source_digest() -> str:
    """Tells apart states of the code that share a version."""
    code = hashlib.blake2b(digest_size=8)
    package, crate = HERE.parent / "src/rowfall", HERE.parent / "crates/rowfall-decode/src"
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.xml"), *crate.rglob("*.rs")]):
        code.update(path.read_bytes())
    return code.hexdigest()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def kept(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Earlier results on the same machine, or none."""
    fresh: dict[str, Any] = {"about": about, "cases": {}, "small": {}}
    if not path.exists():
        return fresh
    old = json.loads(path.read_text())
    if old["about"].get("changed") or any(old["about"].get(name) != about[name] for name in _SAME):
        return fresh
    of = {"source": old["about"]["source"], "date": old["about"]["date"]}
    cases = {name: {**of, **case} for name, case in old["cases"].items()}
    return {**fresh, "cases": cases, "small": old["small"] and {**of, **old["small"]}}


def write(out: Path, results: dict[str, Any]) -> None:
    """After every case, so that an interrupted run keeps what it has."""
    titles = {name: case.title for name, case in CASES.items()}
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "RESULTS.md").write_text(table.document(results, titles))


if __name__ == "__main__":
    raise SystemExit(main())
