"""Take the methods of the articles in turns, write down each round, and go on where a run ended."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rowfall.core import units
from rowfall.core.bench_results import BenchReport, BenchRound, BenchRow, PublishedFigure
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Interrupted, RowfallError, TargetError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.machine import free_memory, total_memory, usable_cores
from rowfall.core.nearest import did_you_mean
from rowfall.core.version import __version__
from rowfall.lab.process import closed
from rowfall.measure.bench import a1, a2, a3, a4, a5
from rowfall.measure.bench.places import Places, UnavailableError
from rowfall.measure.bench.published import TITLES
from rowfall.measure.bench.ways import ArticleTable, BenchWorkshop, Method
from rowfall.measure.processes import BenchError, adopt_orphans

ARTICLES: Mapping[str, Callable[[BenchWorkshop], Iterator[ArticleTable]]] = {
    "A1": a1.comparisons,
    "A2": a2.comparisons,
    "A3": a3.comparisons,
    "A4": a4.comparisons,
    "A5": a5.comparisons,
}
ALL = "all"
SCALES: Mapping[str, float] = {"tiny": 0.002, "small": 0.1, "medium": 0.3, "full": 1.0}
"""Names of ``--scale``, as a share of the full size."""
RESULTS = "results.json"
_VERSION = 1
# Bytes on disk at the full size, in files, objects, tables and databases together at most; and what
# is needed at any size, as the logs of servers. Measured with `du` at "small", rounded up.
_DISK = {"A1": 4.0e9, "A2": 4.5e9, "A3": 14.0e9, "A4": 14.0e9, "A5": 6.0e9}
_DISK_LEAST = 1.5e9
# Four servers of a cluster with 1 GiB each, an S3 service and a load.
_MEMORY_LEAST = 6 << 30
_SERVER_MEMORY = 6 << 30


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """Articles to run, how large, how often and where.

    Attributes:
        articles: names of :data:`ARTICLES` in their order.
        scale: rows as a share of the full size.
        rounds: of each method; ``budget``: seconds for an article, 0 for no limit.
        folder: of files, servers and results; it stays, with the results alone.
        services: addresses of services that somebody else runs.
        fresh: forget earlier results. ``keep``: leave files for the next run.
    """

    articles: tuple[str, ...]
    scale: float
    rounds: int
    budget: float
    folder: Path
    services: Mapping[str, str]
    fresh: bool = False
    keep: bool = False


def parse_articles(names: Sequence[str]) -> tuple[str, ...]:
    """Return the articles that are named, in their order; all of them for ``all``.

    Raises:
        UsageError: no such article, or none is named.
    """
    if not names:
        raise UsageError(
            "no article is named",
            hint="'rowfall bench all' runs all of them, 'rowfall bench --list' shows them.",
        )
    known = [*ARTICLES, ALL]
    wanted = set()
    for name in names:
        found = next((one for one in known if one.lower() == name.lower()), None)
        if found is None:
            raise UsageError(
                f"no article is called {name}",
                hint=f"{did_you_mean(name, known)}Articles are {', '.join(known)}.",
            )
        wanted |= set(ARTICLES) if found == ALL else {found}
    return tuple(name for name in ARTICLES if name in wanted)


def parse_scale(text: str) -> float:
    """Return a scale by its name or number.

    Raises:
        UsageError: neither, or not above 0.
    """
    if (named := SCALES.get(text.lower())) is not None:
        return named
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1e5:
        raise UsageError(
            f"--scale {text} is no size",
            hint=f"{did_you_mean(text, SCALES)}Write {', '.join(SCALES)}, or a number: 1 is full.",
        )
    return scale


def needed_disk(articles: Sequence[str], scale: float) -> int:
    """Return the bytes that a run takes on disk at most: articles follow each other."""
    return round(_DISK_LEAST + scale * max(_DISK[name] for name in articles))


def run_bench(
    request: BenchRequest, listener: Listener, document: Callable[[BenchReport], dict[str, Any]]
) -> BenchReport:
    """Run the articles, and return all rows that the results file then holds.

    Args:
        document: makes what the results file holds.

    Raises:
        TargetError: the folder cannot be written, or has too little room.
        UsageError: its results are of another scale, or the memory does not suffice.
    """
    folder = request.folder.absolute()
    _check(request, folder)
    results = _Results(folder / RESULTS, request, document)
    adopt_orphans()
    served = folder / "services"
    if closed(served):  # servers that root starts run as nobody, who may not enter it
        served = Path(tempfile.mkdtemp(prefix="rowfall-bench-"))
        served.chmod(0o711)
    places = Places(served, request.services, _SERVER_MEMORY)
    shop = BenchWorkshop(folder, places, request.scale, usable_cores())
    began = time.monotonic()
    stopped = ""
    try:
        for article in request.articles:
            listener(Note("info", f"{article}: {TITLES[article]}"))
            _Article(article, shop, results, request, listener).run()
            if not request.keep:
                shutil.rmtree(folder / "data", ignore_errors=True)
    except (KeyboardInterrupt, Interrupted):
        stopped = "stopped by Ctrl-C; the same command goes on"
    finally:
        places.close()
        shop.clear()
        shutil.rmtree(served, ignore_errors=True)
        if not request.keep:
            shutil.rmtree(folder / "data", ignore_errors=True)
        results.spent += time.monotonic() - began
        results.save(stopped)
    return results.report


def _check(request: BenchRequest, folder: Path) -> None:
    """Raise where the run cannot be finished on this machine."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Servers that root starts run as another user, who has to enter it.
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise TargetError(
            f"cannot write the results into {folder}: {error.strerror}",
            hint="Name another folder with --folder.",
        ) from None
    needs, servers = needed_disk(request.articles, request.scale), {"A1", "A2", "A5"}
    free = shutil.disk_usage(folder).free
    if needs > free:
        raise TargetError(
            f"a run at this scale takes up to {units.size(needs)} in {folder}, and "
            f"{units.size(free)} are free",
            hint="Choose a smaller --scale, or another disk with --folder.",
        )
    memory = free_memory()
    if memory < _MEMORY_LEAST and servers & {*request.articles}:
        raise UsageError(
            f"the clusters of {', '.join(sorted(servers & {*request.articles}))} take "
            f"{units.memory(_MEMORY_LEAST)} of memory, and {units.memory(memory)} are free",
            hint="End other programs, or run A3 and A4 alone: rowfall bench A3 A4",
        )


class _Article:
    """The comparisons of one article, within its time."""

    def __init__(
        self, name: str, shop: BenchWorkshop, results: _Results, request: BenchRequest,
        listener: Listener,
    ) -> None:  # fmt: skip
        self._name, self._shop, self._results = name, shop, results
        self._request, self._listener = request, listener
        self._deadline = time.monotonic() + request.budget if request.budget else 0.0

    def run(self) -> None:
        comparisons = list(ARTICLES[self._name](self._shop))
        for comparison in comparisons:  # all rows are there, also those that time forbids
            for method in comparison.methods:
                self._results.row(comparison, method)
        for comparison in comparisons:
            for number in range(self._request.rounds):
                self._round(comparison, number)

    def _round(self, comparison: ArticleTable, number: int) -> None:
        for method in comparison.methods:
            row = self._results.row(comparison, method)
            if len(row.rounds) > number or row.why:
                continue
            if self._deadline and time.monotonic() > self._deadline:
                row.why = "" if row.rounds else _NO_TIME
                continue
            self._once(comparison, method, row)
            self._results.save()
        self._shop.clear()

    def _once(self, comparison: ArticleTable, method: Method, row: BenchRow) -> None:
        try:
            found = method.once()
            if found.rows != comparison.rows:
                raise BenchError(f"{found.rows:,} rows are there instead of {comparison.rows:,}")
            row.rounds.append(found)
            said = f"{found.wall:.2f} s, {found.cpu + found.server_cpu:.2f} CPU s"
        except UnavailableError as error:
            said = row.why = error.message
        except (RowfallError, OSError, ValueError) as error:
            said = row.why = f"failed: {_one_line(str(error))}"
        text = f"{self._name} {comparison.title}: {method.name}: {said}"
        self._listener(Note("info", text))


_NO_TIME = "the time for this article was used up; the same command goes on"
_MOST_WHY = 300


def _one_line(text: str) -> str:
    """Return the line of a failure that says most: rowfall's own error, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line.lower() or "Exception" in line]
    return (errors or lines[-1:] or ["it said nothing"])[0][:_MOST_WHY]


class _Results:
    """The file of results: written anew after each round, all at once."""

    def __init__(
        self, path: Path, request: BenchRequest, document: Callable[[BenchReport], dict[str, Any]]
    ) -> None:
        self._path, self._request, self._document = path, request, document
        self._rows: dict[tuple[str, str, str, str], BenchRow] = {}
        self.spent = 0.0
        self.stopped = ""
        if path.exists() and not request.fresh:
            self._read()

    def _read(self) -> None:
        try:
            found = json.loads(self._path.read_text())
            if found["rowfall_bench"] != _VERSION:
                raise ValueError(found["rowfall_bench"])
            scale, rows = float(found["scale"]), [_row(row) for row in found["rows"]]
            self.spent = float(found["seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self._path} holds no results of this version ({type(error).__name__})",
                hint="--fresh begins anew, --folder names another place.",
            ) from None
        if scale != self._request.scale:
            raise UsageError(
                f"{self._path} holds results of the scale {scale:g}, not {self._request.scale:g}",
                hint="--fresh begins anew, --folder names another place.",
            )
        for row in rows:
            if row.article in self._request.articles:
                row.why = ""  # what could not run is tried again: a service may be there now
            self._rows[row.key] = row

    def row(self, comparison: ArticleTable, method: Method) -> BenchRow:
        """Return the row of a method, made where it is new."""
        made = BenchRow(
            comparison.article, comparison.title, method.name, method.side, method.published
        )
        row = self._rows.setdefault(made.key, made)
        row.published = method.published
        return row

    @property
    def report(self) -> BenchReport:
        """Return the rows of the articles that were asked for."""
        return self._report(self._request.articles)

    def _report(self, articles: Sequence[str]) -> BenchReport:
        rows = [row for row in self._rows.values() if row.article in articles]
        return BenchReport(
            _machine(), self._request.scale, self._request.rounds,
            sorted(rows, key=lambda row: row.article), self.spent, self.stopped,
            str(self._path.parent),
        )  # fmt: skip

    def save(self, stopped: str = "") -> None:
        """Write all that is known."""
        self.stopped = stopped
        text = units.as_json(self._document(self._report(tuple(ARTICLES))), indent=1)
        growing = self._path.with_suffix(".growing")
        growing.write_text(text + "\n")
        growing.replace(self._path)


def _row(found: Mapping[str, Any]) -> BenchRow:
    figure, measured = found["published"], found["rounds"]
    published = PublishedFigure(**_of(PublishedFigure, figure)) if figure else None
    return BenchRow(
        found["article"], found["table"], found["method"], found["side"], published,
        [BenchRound(**_of(BenchRound, one)) for one in measured], found["why"],
    )  # fmt: skip


def _of(kind: type, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a value that a document holds, without what it adds."""
    return {name: found[name] for name in kind.__annotations__ if name in found}


def _machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "cores": usable_cores(),
        "cpu": next(model, platform.machine()),
        "memory": total_memory(),
        "kernel": platform.release(),
        "rowfall": __version__,
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }
