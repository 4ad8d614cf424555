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


def five() -> str:
    """Return five things that rowfall does, with a figure each."""
    trips, cores = case("trips-disk"), _word(results("results")["about"]["cores"])
    (ours, _), (theirs, _) = side(trips, "rowfall"), side(trips, "engine")
    whole = results("results-100b")
    rate, published = whole["rows"] / whole["cpu"], 100e9 / _PUBLISHED_VCPU_SECONDS
    size = results("results-cluster")["sizes"]["10"]
    shards = max(size["clusters"], key=int)
    sides = {s["name"]: statistics.median(s["wall"]) for s in size["clusters"][shards]["sides"]}
    planned, views = sides.pop("local, as it plans"), sides["views"]
    pairs = results("results-doctor")["cases"].values()
    off = [statistics.median(abs(o["predicted"] / o["measured"] - 1) for o in one) for one in pairs]
    lines = [
        f"**Fast.** {trips['rows'] / 1e6:.0f} million rows of {trips['files']} csv.gz files take "
        f"{ours:.1f} seconds on {cores} cores; the engine's own fastest statement takes "
        f"{theirs:.1f}.",
        "**Exactly once**, after any crash of rowfall, the engine or the machine: "
        f"[100 billion rows](bench/RESULTS-100b.md) on {_word(whole['cores'])} cores, killed "
        f"{('not once', 'once', 'twice')[whole['kills']]}, were exact to the checksum, at "
        f"{rate / 1e6:.1f} M rows for each CPU second where the published servers loaded "
        f"{published / 1e6:.1f} M. [The promise](docs/concepts/exactly-once.md).",
        f"**Clusters without engineering.** {size['rows'] / 1e6:.0f} M rows of S3 into "
        f"{_word(int(shards))} shards take {planned:.1f} seconds; hand-made views that give files "
        f"to shards take {views:.1f}. [Clusters](docs/guides/cluster.md).",
        "**Nothing changes in silence.** 300 does not become 44 in a `UInt8`: what does not fit is "
        "an error with file, line and column. [Strictness](docs/concepts/strictness.md).",
        "**It says why.** `rowfall doctor` measures every link of a load, and its forecast was "
        f"within {statistics.median(off):.0%} of the load that followed for half of {len(off)} "
        "kinds of load. [Doctor](docs/guides/doctor.md).",
    ]
    return "\n".join(
        f"{n}. " + fill(line, _WIDTH - 3, subsequent_indent="   ", break_long_words=False,
                        break_on_hyphens=False)
        for n, line in enumerate(lines, 1)
    )  # fmt: skip


def servers() -> str:
    """Return the table of seconds of a server beside those of its own ways."""
    server = results("results-server")["cases"]
    trips, taxi = server["trips"], server["taxi"]
    of_server = ("select",)
    rows = [
        (f"{_rows(trips)} of three integers, {trips['files']} csv.gz in S3, into a server that has "
         "the decoder", side(trips, "inside"), side(trips, *of_server)),
        ("the same files pushed to a server, against the client, four at once",
         side(trips, "push"), side(trips, "client")),
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
    """Return what an installation takes on disk, in MB."""
    found: Mapping[str, int] = results("results-install")["bytes"]
    small = sum(size for name, size in found.items() if name not in _OF_EXTRAS)

    def of(*names: str) -> str:
        return f"{round(sum(found[name] for name in names) / 1e7) * 10} MB"

    return _filled(
        f"`rowfall` takes {small / 1e6:.0f} MB on disk before Python compiles what it imports. "
        f"`embedded` brings another {of(*_EMBEDDED)}: {of('chdb', 'chdb-core')} the engine, the "
        "rest pyarrow, pandas and numpy, which chDB asks for."
    )


_EMBEDDED = ("chdb", "chdb-core", "numpy", "pandas", "pyarrow", "python-dateutil", "six")
_OF_EXTRAS = frozenset({*_EMBEDDED, "botocore", "jmespath", "urllib3"})


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


def articles() -> str:
    """Return the articles' loads: published rows for each vCPU beside those of a core here."""
    found = results("results-articles")
    lines = ["| article | load | published | by hand | rowfall |", "|---|---|---:|---:|---:|"]
    tables: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        tables.setdefault((row["article"], row["table"]), []).append(row)
    for (article, title), rows in tables.items():
        ran = [row for row in rows if row["rounds"]]
        # The first of rowfall's methods does what was published and is done by hand; loads that
        # nobody does by hand were not published as such either.
        ours = next((r for r in ran if r["side"] == "rowfall"), None)
        theirs = max((r for r in ran if r["side"] == "by hand"), key=_per_core, default=None)
        published = next((r["published"] for r in (ours, theirs) if r and r["published"]), None)
        each = published and published["rows_per_vcpu_second"]
        if ours and theirs and each:
            here = f"{_thousands(_per_core(theirs))} | {_thousands(_per_core(ours))}"
            lines.append(f"| {article} | {title} | {_thousands(each)} | {here} |")
    busy = [one["load"] for row in found["rows"] for one in row["rounds"]]
    cores, rounds = found["machine"]["cores"], found["rounds"]
    how = (
        f"{cores} cores, {rounds} {'round' if rounds == 1 else 'rounds'}, at {found['scale']} of "
        "the rows of a full run. "
    )
    if max(busy) > 4 * cores:  # the loads that are measured are none of it
        how += (
            f"Others used the machine meanwhile (load average {min(busy):.0f} to {max(busy):.0f}), "
            "and rates are of wall time: small differences may be theirs. "
        )
    how += "What was published was measured on other machines."
    return "\n".join([*lines, "", fill(how, 120)])


def _per_core(row: Mapping[str, Any]) -> float:
    return float(row["rows_per_core_second"] or 0)


def _thousands(rate: float) -> str:
    return f"{rate / 1e3:,.0f}" if rate >= 1e4 else f"{rate / 1e3:.1f}"


MADE: Mapping[str, Callable[[], str]] = {
    "five": five,
    "servers": servers,
    "install-size": install_size,
    "compared": compared,
    "articles": articles,
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
