"""A listing that nobody has: ``simulate://csv.gz?files=1e6&size=25MB&sigma=1``, for projections.

The host part is what the names of the files end in, which tells format and compression. Sizes are
lognormal: ``size`` is their mean, ``sigma`` the spread of their logarithm (0: all are equal).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from rowfall.core import formats, units, uri
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding
from rowfall.core.options import Options

SCHEME = "simulate"
DEFAULTS = {
    "files": "1000", "size": "100MB", "sigma": "0", "rows": "", "prefixes": "1", "seed": "1",
}  # fmt: skip
# Names cost 100 bytes each; ten million of them are what a laptop holds.
MOST_FILES = 10_000_000
# exp(sigma^2): beyond 5 one file holds nearly everything, and floats end.
MOST_SIGMA = 5.0
_EXAMPLE = "Write it as simulate://csv.gz?files=1e6&size=25MB&sigma=1."


@dataclass(frozen=True, slots=True)
class Simulated:
    """What was asked for.

    Attributes:
        text: as typed.
        rows: rows of all files, None when not given.
        prefixes: folders of the bucket that the files are spread over.
    """

    text: str
    listing: Listing
    encoding: Encoding
    rows: float | None
    prefixes: int


def simulate(text: str, options: Options) -> Simulated:
    """The listing of a ``simulate://`` URI; the same text always gives the same sizes.

    Raises:
        UsageError: a parameter that does not exist, or whose value makes no sense.
    """
    place = uri.parse(text)
    for name in place.query:
        if name not in DEFAULTS:
            known = ", ".join(DEFAULTS)
            raise UsageError(f"simulate:// has no parameter {name!r}", hint=f"Parameters: {known}.")
    ending = place.host or "csv.gz"
    encoding = formats.detect([f"x.{ending}"], options)
    values = DEFAULTS | dict(place.query)
    files, prefixes = _whole(values, "files"), _whole(values, "prefixes")
    listing = Listing()
    base = f"{SCHEME}://bucket"
    for index, size in enumerate(_sizes(values, files)):
        listing.add(f"{base}/{index % prefixes}/{index}.{ending}", "", size)
    rows = units.parse_rows(values["rows"]) if values["rows"] else None
    return Simulated(text, listing, encoding, rows, prefixes)


def _sizes(values: Mapping[str, str], files: int) -> list[int]:
    mean, sigma = units.parse_size(values["size"]), _sigma(values["sigma"])
    if mean < 1:
        raise UsageError("simulate:// with size=0 is nothing to load", hint=_EXAMPLE)
    chance = Random(_seed(values["seed"]))  # noqa: S311 - sizes, no secrets
    middle = math.log(mean) - sigma * sigma / 2  # so that the mean is what was asked for
    if not sigma:
        return [mean] * files
    return [max(1, round(chance.lognormvariate(middle, sigma))) for _ in range(files)]


def _whole(values: Mapping[str, str], name: str) -> int:
    try:
        number = units.parse_rows(values[name])
    except UsageError:
        number = 0
    if not 1 <= number <= MOST_FILES:
        raise UsageError(
            f"simulate:// with {name}={values[name]} is not possible: 1 to {MOST_FILES:,}",
            hint=_EXAMPLE,
        )
    return number


def _sigma(text: str) -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = math.nan
    if not 0 <= sigma <= MOST_SIGMA:
        raise UsageError(
            f"simulate:// with sigma={text} is not possible: 0 to {MOST_SIGMA:.0f}", hint=_EXAMPLE
        )
    return sigma


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"simulate:// with seed={text} is no whole number", hint=_EXAMPLE)
    return int(text)
