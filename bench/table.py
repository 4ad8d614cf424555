"""Results as Markdown: tables, aims, and honest words about both. Pure text, no measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.measure import Result, fastest, median, overlap, ratio
from rowfall.core import units

MET, OPEN, NOT_MET = "met", "too close to call", "not met"
PLAN_SECONDS, PLAN_BYTES = 30, 500_000_000
_HEAD = ("side", "wall s", "CPU s", "rows/s", "parts", "peak memory", "ratio to rowfall")

HOW = """\
Each side is a whole process, from start to exit, that loads into a fresh folder on the same
disk; the sides take turns (A B C A B C ...), and the tables show medians with the fastest and the
slowest round. Dirty pages are written out before every run, and the source files are in the page
cache. CPU seconds are user and system time of the process and of everything it started; the S3
service runs on the same cores and is not counted. Peak memory is that of the largest process of a
side. Parts are the active ones when the process has ended. Every table is read again afterwards
by the plain engine: rows, definition and a checksum over all columns have to be the same on all
sides, or the case fails. Where a case has merges, the plain engine then merges what each side has
left: first the partitions of several parts, then all that OPTIMIZE FINAL finds to do.

The engine's sides are plain chDB scripts with `INSERT INTO t SELECT * FROM ...` and the table's
structure given. "Tuned as in 100B rows" sets max_threads and max_insert_threads to the cores,
input_format_parallel_parsing to 0 and min_insert_block_size_rows to 5 M. "Tuned by formula" sets
max_insert_threads to half the cores, min_insert_block_size_rows to 0 and
min_insert_block_size_bytes to memory / (3 x insert threads), where memory is half of what is
free, as rowfall takes it. "Best of the sweep" is the fastest cell of insert threads x block rows
x parallel parsing, found beforehand for each case and then measured again with the others. The
opponent is the fastest of these four. `rowfall load` gets no setting at all, only the columns and
the keys of the table. Read-only sides store nothing: they are what reading alone costs.

A ratio above 1 means that the side takes that many times as long as rowfall. Where the rounds of
the two overlap, the difference may be noise and is called too close to call."""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, aligned in the source as well; all columns but the first to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    lines = [
        "| "
        + " | ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in cells
    ]
    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return [lines[0], "| " + " | ".join(rule) + " |", *lines[1:]]


def sides_table(results: Sequence[Result], base: Result) -> list[str]:
    """One line a side; ``base`` is what the ratios are to."""
    rows = []
    for result in results:
        wall = median(result.wall)
        rows.append((
            result.name,
            f"{wall:.2f} ({min(result.wall):.2f}-{max(result.wall):.2f})",
            f"{median(result.cpu):.2f}",
            units.count(result.rows[-1] / wall),
            f"{median(result.parts):,.0f}" if result.parts else "-",
            units.memory(median(result.largest)),
            f"{ratio(result, base):.2f}",
        ))  # fmt: skip
    return markdown(_HEAD, rows)


def merged_table(results: Sequence[Result], base: Result) -> list[str]:
    """One line a side whose merges were measured: the load, and the merges behind it."""
    rows = []
    for result in results:
        if not result.final:
            continue
        cells = [result.name]
        for which in ("single", "final"):
            for at in (0, 1):
                took = merged_seconds(result, which, at)
                ours = merged_seconds(base, which, at)
                cells.append(f"{took:.2f} ({took / ours:.2f})")
        rows.append(cells)
    head = ("side", "one part each: wall s", "CPU s", "FINAL: wall s", "CPU s")
    return markdown(head, rows) if rows else []


def merged_seconds(result: Result, which: str, at: int) -> float:
    """Median of load and merges together: wall seconds (0) or CPU seconds (1)."""
    loads = (result.wall, result.cpu)[at]
    merges = [took[at] for took in getattr(result, which)]
    return median(load + merge for load, merge in zip(loads, merges, strict=True))


def opponent(results: Sequence[Result]) -> Result:
    """The fastest of the engine's own ways to load."""
    return fastest(result for result in results if result.kind == "engine")


def loader(results: Sequence[Result]) -> Result:
    return next(result for result in results if result.kind == "rowfall")


def verdict(results: Sequence[Result]) -> str:
    """Whether rowfall is faster than the opponent."""
    ours, theirs = loader(results), opponent(results)
    if overlap(ours, theirs):
        return OPEN
    return MET if ratio(theirs, ours) > 1 else NOT_MET


def verdict_words(results: Sequence[Result]) -> str:
    """One sentence about a case, in wall time and in CPU time."""
    ours, theirs = loader(results), opponent(results)
    times = ratio(theirs, ours)
    cpu = median(theirs.cpu) / median(ours.cpu)
    word = (
        f"is {times:.2f} times as fast as"
        if times >= 1
        else f"takes {1 / times:.2f} times as long as"
    )
    doubt = "; their rounds overlap, so this is too close to call" if overlap(ours, theirs) else ""
    return (
        f"rowfall {word} the fastest engine side ({theirs.name}) and uses "
        f"{1 / cpu:.0%} of its CPU seconds{doubt}."
    )


def sweep_table(cells: Sequence[Result]) -> list[str]:
    """The cells of the sweep, fastest first."""
    ordered = sorted(cells, key=lambda cell: median(cell.wall))
    rows = [
        (
            cell.name,
            f"{median(cell.wall):.2f}",
            f"{median(cell.cpu):.2f}",
            f"{median(cell.parts):,.0f}",
            units.memory(median(cell.largest)),
        )
        for cell in ordered
    ]
    head = ("insert threads x block rows", "wall s", "CPU s", "parts", "peak memory")
    return markdown(head, rows)


def document(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The whole of RESULTS.md.

    Args:
        results: what results.json holds.
        titles: case name -> title, in the order of the page.
    """
    about, cases = results["about"], results["cases"]
    lines = ["# Benchmark results", "", *_machine(about), ""]
    lines += ["## Aims", "", *_aims(results, titles), "", "## How it was measured", "", HOW]
    for name, title in titles.items():
        if name in cases:
            title, found = f"## {title[0].upper()}{title[1:]}", cases[name]
            lines += ["", title, "", *_case(found, _earlier(found, about))]
    if small := results.get("small"):
        earlier = _earlier(small, about)
        said = [f"Measured on {small['date']}{earlier}.", ""] if earlier else []
        lines += ["", "## Small figures", "", *said, *_small(small)]
    return "\n".join(lines) + "\n"


def _machine(about: Mapping[str, Any]) -> list[str]:
    rows = [
        ("cores", str(about["cores"])),
        ("CPU", about["cpu"]),
        ("memory", units.memory(about["memory"])),
        ("kernel", about["kernel"]),
        ("rowfall", about["rowfall"]),
        ("chDB", f"{about['chdb']} (engine {about['engine']})"),
        ("Python", about["python"]),
        ("date", about["date"]),
        ("load average before", f"{about['load']:.2f}"),
    ]
    lines = markdown(("machine", ""), rows)
    if about["scale"] != 1:
        lines += ["", f"**Scale {about['scale']:g}: a rehearsal. Its figures say nothing about "
                      "full-size loads.**"]  # fmt: skip
    if about.get("changed"):
        lines += ["", "**The code changed during the run.**"]
    if about["load"] > about["cores"] / 4:
        lines += ["", "**The machine was not idle before the run.**"]
    return lines


def _results(found: Sequence[Mapping[str, Any]]) -> list[Result]:
    return [Result.from_json(item) for item in found]


def _earlier(measured: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """What is said of figures that another state of the code has."""
    return "" if measured["source"] == about["source"] else ", an earlier state of rowfall"


def _case(case: Mapping[str, Any], earlier: str) -> list[str]:
    facts = (
        f"{case['rows']:,} rows in {case['files']} files, {units.size(case['bytes'])} as stored; "
        f"{case['rounds']} rounds; {case['date']}{earlier}."
    )
    if case.get("error"):
        return [facts, "", "**Failed, so there are no figures:**", "", "```", case["error"], "```"]
    results = _results(case["sides"])
    swept = sweep_table(_results(case["sweep"]))
    merged = merged_table(results, loader(results))
    if merged:
        what = "Load and merges together, until each partition is one part and until OPTIMIZE FINAL"
        merged = ["", f"{what} is done (in brackets the ratio to rowfall):", "", *merged, ""]
    return [
        facts, "", *sides_table(results, loader(results)), "", verdict_words(results), *merged,
        f"All sides stored the same rows (checksum {case['checksum']}).", "",
        f"<details><summary>The sweep (rounds: {case['sweep_rounds']})</summary>", "", *swept, "",
        "</details>",
    ]  # fmt: skip


def _aims(results: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    rows = []
    for name, title in titles.items():
        case = results["cases"].get(name)
        if case is None:
            rows.append((f"faster than the best engine side: {title}", "not measured", "-"))
        elif case.get("error"):
            rows.append((f"faster than the best engine side: {title}", "failed", NOT_MET))
        else:
            sides = _results(case["sides"])
            times = f"{ratio(opponent(sides), loader(sides)):.2f} times as fast"
            rows.append((f"faster than the best engine side: {title}", times, verdict(sides)))
    small = results.get("small")
    if small:
        rows += _small_aims(small)
    return markdown(("aim", "measured", "result"), rows)


def _small_aims(small: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    plan = small["plan"]
    seconds = plan["listing_seconds"] + plan["plan_seconds"]
    objects = f"{plan['objects']:,} objects"
    rows = [
        (f"{objects} listed and planned in {PLAN_SECONDS} s", f"{seconds:.1f} s",
         _met(seconds <= PLAN_SECONDS)),
        (f"{objects} planned in {PLAN_BYTES / 1e6:.0f} MB", f"{plan['peak'] / 1e6:.0f} MB",
         _met(plan["peak"] <= PLAN_BYTES)),
    ]  # fmt: skip
    for load in small["memory"]:
        aim = f"{load['files']:,} files with --memory {load['limit_text']}: all processes below it"
        rows.append((aim, units.memory(load["together"]), _met(load["together"] <= load["limit"])))
    return rows


def _met(yes: bool) -> str:
    return MET if yes else NOT_MET


def _small(small: Mapping[str, Any]) -> list[str]:
    tiny, plan = small["tiny"], small["plan"]
    rows = [
        (f"`rowfall --help`, median of {len(small['help']['all'])}",
         f"{small['help']['wall']:.3f} s"),
        (f"load of a CSV file with {tiny['rows']:,} rows, everything included, median of "
         f"{len(tiny['all'])}", f"{tiny['wall']:.2f} s"),
        (f"building a listing of {plan['objects']:,} objects", f"{plan['listing_seconds']:.2f} s"),
        (f"planning it ({plan['attempts']:,} attempts)", f"{plan['plan_seconds']:.2f} s"),
        ("peak memory of the process that did both", units.memory(plan["peak"])),
    ]  # fmt: skip
    loads = [
        (
            f"{load['files']:,} files, --memory {load['limit_text']}",
            f"{load['wall']:.2f}",
            f"{load['cpu']:.2f}",
            units.memory(load["together"]),
            units.memory(load["largest"]),
            str(load["retries"]),
        )
        for load in small["memory"]
    ]
    head = ("load", "wall s", "CPU s", "all processes", "largest process", "retries")
    return [
        *markdown(("figure", ""), rows), "",
        "The same trips in few and in many files, against a memory limit. The sum of resident "
        "memory counts pages that two processes share twice; it is looked at 50 times a second.",
        "", *markdown(head, loads),
    ]  # fmt: skip
