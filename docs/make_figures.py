"""Write the measured figures of README.md and docs from ``bench/results*.json``: ``make figures``.

A text between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->`` is made here, from the
results that ``make bench`` writes. A test compares, so the words never disagree with the evidence.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/guides/install.md", "docs/concepts/comparison.md")
# Nothing but a comment that Markdown leaves out; the block is all that is between the two.
_BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n).*?(<!-- end of figures -->)", re.S)
# vCPUs and seconds for 100 billion rows, as published: see bench/hundred_billion.py.
_PUBLISHED_VCPU_SECONDS = 1115.4 * 32
_WIDTH = 120


def results(name: str) -> Any:
    """Return the document of ``bench/NAME.json``."""
    return json.loads((ROOT / "bench" / f"{name}.json").read_text())


def case(name: str) -> Mapping[str, Any]:
    """Return a case of the embedded benchmark."""
    found: Mapping[str, Any] = results("results")["cases"][name]
    return found


def side(of: Mapping[str, Any], *kinds: str) -> tuple[float, float]:
    """Return seconds and CPU seconds, by medians, of the fastest side of these kinds."""
    found = [
        (statistics.median(one["wall"]), statistics.median(one["cpu"]))
        for one in of["sides"]
        if one["kind"] in kinds
    ]
    return min(found)


def headline() -> str:
    """Return the first figure of README.md."""
    trips = case("trips-disk")
    (ours, _), (theirs, _) = side(trips, "rowfall"), side(trips, "engine")
    cores = results("results")["about"]["cores"]
    return (
        f"**{trips['rows'] / 1e6:.0f} million rows from {trips['files']} csv.gz files in "
        f"{ours:.1f} seconds on {_word(cores)} cores**; the engine's own\nfastest statement takes "
        f"{theirs:.1f} ([how this was measured](#how-fast))."
    )


def hundred_billion() -> str:
    """Return what became of 100 billion rows."""
    found = results("results-100b")
    rate, published = found["rows"] / found["cpu"], 100e9 / _PUBLISHED_VCPU_SECONDS
    return _filled(
        f'[100 billion rows](bench/RESULTS-100b.md) went into the partitioned table of "Loading '
        f'100B Rows in Minutes" on {_word(found["cores"])} cores, killed '
        f"{('not once', 'once', 'twice')[found['kills']]} on the way: exact to the checksum after "
        f"{found['cpu'] / 60:.0f} CPU minutes, {rate / 1e6:.1f} M rows for each CPU second, where "
        f"the published servers loaded {published / 1e6:.1f} M for each second of a vCPU."
    )


def how_fast() -> str:
    """Return the table of seconds beside those of the engine."""
    server = results("results-server")["cases"]
    trips, taxi = server["trips"], server["taxi"]
    of_server = ("select",)
    rows = [
        (f"{_rows(case('trips-disk'))} of three integers, {case('trips-disk')['files']} csv.gz, "
         "embedded", side(case("trips-disk"), "rowfall"), side(case("trips-disk"), "engine")),
        ("the same files from S3 into a server that has the decoder", side(trips, "inside"),
         side(trips, *of_server)),
        ("the same files pushed to a server, against the client, four at once",
         side(trips, "push"), side(trips, "client")),
        (f"{_rows(case('taxi-csv'))} of 51 columns, csv.gz, embedded",
         side(case("taxi-csv"), "rowfall"), side(case("taxi-csv"), "engine")),
        ("the same, json.gz, embedded", side(case("taxi-json"), "rowfall"),
         side(case("taxi-json"), "engine")),
        ("the same, Parquet, embedded", side(case("taxi-parquet"), "rowfall"),
         side(case("taxi-parquet"), "engine")),
        (f"{_rows(case('hits-tsv'))} of 105 columns, tsv.gz, embedded",
         side(case("hits-tsv"), "rowfall"), side(case("hits-tsv"), "engine")),
    ]  # fmt: skip
    lines = ["| | rowfall | the engine's fastest |", "|---|---:|---:|"]
    lines += [f"| {name} | {_both(ours)} | {_both(theirs)} |" for name, ours, theirs in rows]
    slow = [side(one, "pull")[0] / side(one, *of_server)[0] for one in (trips, taxi)]
    lines += [
        "",
        _filled(
            "The engine's statements check nothing; rowfall finds out how the text is written, "
            "stages and checks all rows, and flushes them to disk. A server that pulls text "
            f"without the decoder takes {slow[0]:.1f} times as long as its best statement for "
            f"three integers and {slow[1]:.1f} times for 51 columns. So install the decoder."
        ),
    ]
    return "\n".join(lines)


def install_size() -> str:
    """Return what an installation takes on disk, to ten MB."""
    found: Mapping[str, int] = results("results-install")["bytes"]

    def of(*names: str) -> int:
        return round(sum(found[name] for name in names) / 1e7) * 10

    return _filled(
        f"An installation without the decoder takes {of(*found)} MB on disk: "
        f"{of('chdb', 'chdb-core')} the embedded ClickHouse, {of('pyarrow', 'pandas', 'numpy')} "
        "pyarrow, pandas and numpy, which chDB asks for, "
        f"{of('botocore', 'obstore')} the clients of object stores."
    )


def compared() -> str:
    """Return each case of the embedded benchmark beside the engine's fastest statement."""
    lines = ["| load | rowfall | the engine's fastest statement | times as fast | of its CPU |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    for name, title in _TITLES.items():
        of = case(name)
        ours, theirs = side(of, "rowfall"), side(of, "engine")
        lines.append(f"| {_rows(of)}: {title} | {_both(ours)} | {_both(theirs)} | "
                     f"{theirs[0] / ours[0]:.1f} | {ours[1] / theirs[1]:.0%} |")  # fmt: skip
    return "\n".join(lines)


# Cases of bench/data.py in the order of the table.
_TITLES = {
    "trips-disk": "trips (3 columns), csv.gz on disk",
    "trips-s3": "trips, csv.gz in S3",
    "trips-partitioned": "trips, csv.gz, into 56 partitions",
    "taxi-csv": "taxi (51 columns), csv.gz",
    "taxi-json": "taxi, json.gz",
    "taxi-parquet": "taxi, Parquet",
    "hits-tsv": "hits (105 columns), tsv.gz",
    "hits-parquet": "hits, Parquet",
}
MADE: Mapping[str, Callable[[], str]] = {
    "headline": headline,
    "hundred-billion": hundred_billion,
    "how-fast": how_fast,
    "install-size": install_size,
    "compared": compared,
}


def _rows(of: Mapping[str, Any]) -> str:
    return f"{of['rows'] / 1e6:g} M rows"


def _both(found: tuple[float, float]) -> str:
    return f"{found[0]:.1f} s, {found[1]:.1f} CPU s"


def _word(count: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
    return words[count] if count < len(words) else str(count)


def _filled(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def made(text: str) -> str:
    """Return a page with all its blocks made anew.

    Raises:
        KeyError: a block has a name that nothing makes.
    """
    return _BLOCK.sub(lambda found: f"{found[1]}{MADE[found[2]]()}\n{found[3]}", text)


def blank(text: str) -> str:
    """Return a page without its blocks: what people have written."""
    return _BLOCK.sub("", text)


def main(pages: Sequence[str] = PAGES) -> int:
    for name in pages:
        path = ROOT / name
        before = path.read_text()
        if (after := made(before)) != before:
            path.write_text(after)
            sys.stdout.write(f"written: {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
