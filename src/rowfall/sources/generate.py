"""Rows made by the engine itself: ``generate://trips?rows=1e9&seed=1``, ``taxi``, ``hits`` ...

Every value is a function of row number and seed, so rows do not depend on threads, on how ranges
are cut, or on how many rows are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing, Split, split_id
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.core.units import parse_rows
from rowfall.sources import from_clause
from rowfall.sources.recipe_articles import cabs, downloads, lineitem
from rowfall.sources.recipe_hits import hits
from rowfall.sources.recipes import RANDOM, Recipe, random, taxi, trips

_PARAMETERS = {
    "trips": ("rows", "seed"),
    "taxi": ("rows", "seed"),
    "hits": ("rows", "seed"),
    "cabs": ("rows", "seed"),
    "downloads": ("rows", "seed"),
    "lineitem": ("rows", "seed"),
    "random": ("rows", "seed", "bytes"),
}
_MOST_BYTES = 1 << 20
_MOST_ROWS = 1 << 62
_SAMPLE_ROWS = 10_000
_RECIPE_VERSION = 1
"""Part of the identity of splits: raise it when a recipe makes other rows."""


class Generate:
    """Number ranges of a fixed size, or exactly ``options.files`` of them.

    The split size depends on the table alone, so a longer load takes up where a shorter one ended.
    """

    remote = False
    replayable = True
    secrets: tuple[Secret, ...] = ()
    notes: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        if len(texts) != 1:
            raise UsageError("generate:// takes one table", hint="Raise rows= instead.")
        self.text = texts[0]
        self._options = options
        self._name, self._rows, seed, size = _parse(self.text)
        self._recipe = recipe_of(self._name, seed, size)
        parameters = f"seed={seed}" + (f"&bytes={size}" if self._name == "random" else "")
        self._uri = f"generate://{self._name}?{parameters}"
        self.made: Schema | None = self._recipe.schema

    def listing(self) -> Listing:
        """Return half-open row ranges in order; sizes are unknown.

        Raises:
            UsageError: more files than rows are asked for.
        """
        listing = Listing()
        for start, stop in _ranges(self._rows, self._recipe.split_rows, self._options.files):
            listing.add(self._uri, f"v{_RECIPE_VERSION}", None, start, stop)
        return listing

    def encoding(self, listing: Listing) -> None:
        return None

    def stored(self) -> Encoding | None:
        return Encoding(RANDOM, "none", Kind.TYPED) if self._name == "random" else None

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return the first rows; nothing has to be inferred, but cardinalities may be asked for."""
        stop, version = min(self._rows, _SAMPLE_ROWS), f"v{_RECIPE_VERSION}"
        identity = split_id(self._uri, version, 0, stop, "")
        return [Split(identity, self._uri, version, None, 0, stop)]

    def relation(self, splits: Sequence[Split], encoding: object, structure: str) -> SqlText:
        """Return a SELECT over ``numbers_mt``; neighbouring ranges become one."""
        parts = []
        for start, stop in _merged(splits):
            numbers = f"numbers_mt({start}, {stop - start})"
            parts.append(SqlText.of(f"({self._recipe.select.replace('{range}', numbers)})"))
        return from_clause.union(parts)

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        return []


def _parse(text: str) -> tuple[str, int, int, int]:
    """Return table, rows, seed and payload bytes.

    Raises:
        UsageError: there is no such table or parameter, or a value is not possible.
    """
    parts = uri.parse(text)
    name = parts.host
    if name not in _PARAMETERS:
        raise UsageError(
            f"no generator is called {name!r}", hint=f"Generators: {', '.join(_PARAMETERS)}."
        )
    for parameter in parts.query:
        if parameter not in _PARAMETERS[name]:
            known = ", ".join(_PARAMETERS[name])
            raise UsageError(
                f"generate://{name} has no parameter {parameter!r}", hint=f"Parameters: {known}."
            )
    rows = _rows(parts.query.get("rows", "1M"))
    seed = _whole_number(parts.query.get("seed", "1"), "seed", 0, 2**63)
    size = _whole_number(parts.query.get("bytes", "512"), "bytes", 1, _MOST_BYTES)
    return name, rows, seed, size


def _rows(text: str) -> int:
    # People who load 100B rows write B, the metric prefix is G.
    rows = parse_rows(text[:-1] + "G" if text[-1:] in ("b", "B") else text)
    if rows > _MOST_ROWS:
        raise UsageError(f"{text} rows are more than the engine can number")
    return rows


def _whole_number(text: str, name: str, low: int, high: int) -> int:
    digits = text.replace("_", "")
    if not (digits.isascii() and digits.isdigit() and low <= int(digits) <= high):
        raise UsageError(
            f"{name}={text} is not possible", hint=f"Give a whole number from {low} to {high}."
        )
    return int(digits)


def recipe_of(name: str, seed: int = 1, size: int = 512) -> Recipe:
    """Return the recipe of a generator; ``size``: bytes of the payload of ``random``."""
    if name == "random":
        return random(seed, size)
    tables = {
        "trips": trips, "taxi": taxi, "hits": hits, "cabs": cabs, "downloads": downloads,
        "lineitem": lineitem,
    }  # fmt: skip
    return tables[name](seed)


def _ranges(rows: int, step: int, files: int | None) -> Iterator[tuple[int, int]]:
    if files is None:
        for start in range(0, rows, step):
            yield start, min(rows, start + step)
        return
    if not 0 < files <= rows:
        raise UsageError(
            f"{rows} rows cannot be cut into {files} files", hint="Lower --files or raise rows=."
        )
    bounds = [rows * n // files for n in range(files + 1)]
    yield from pairwise(bounds)


def _merged(splits: Sequence[Split]) -> Iterator[tuple[int, int]]:
    start, stop = -1, -1
    for split in splits:
        if split.start is None or split.stop is None:
            raise ValueError(f"a generated split has a range: {split.name}")
        if split.start == stop:
            stop = split.stop
            continue
        if stop >= 0:
            yield start, stop
        start, stop = split.start, split.stop
    if stop >= 0:
        yield start, stop
