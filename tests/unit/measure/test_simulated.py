"""Listings that nobody has."""

from __future__ import annotations

import statistics

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.model import Kind
from rowfall.core.options import Options
from rowfall.measure.simulated import Simulated, simulate


def made(text: str) -> Simulated:
    return simulate(text, Options())


def sizes(text: str) -> list[int]:
    listing = made(text).listing
    return [listing.size(i) or 0 for i in range(len(listing))]


def test_equal_files() -> None:
    assert sizes("simulate://csv.gz?files=5&size=2MB") == [2_000_000] * 5


def test_files_of_all_sizes_have_the_mean_that_was_asked_for() -> None:
    found = sizes("simulate://csv.gz?files=1e5&size=25MB&sigma=1")
    assert statistics.mean(found) == pytest.approx(25e6, rel=0.02)
    # Of a lognormal distribution the median is below the mean by exp(sigma^2 / 2).
    assert statistics.median(found) == pytest.approx(25e6 / 1.6487, rel=0.02)


def test_the_same_text_gives_the_same_sizes() -> None:
    text = "simulate://csv?files=100&sigma=1"
    assert sizes(text) == sizes(text)
    assert sizes(text) != sizes(text + "&seed=2")


def test_names_tell_format_and_compression() -> None:
    assert made("simulate://tsv.zst?files=1").encoding.compression == "zstd"
    assert made("simulate://parquet?files=1").encoding.kind is Kind.TYPED
    default = made("simulate://?files=1").encoding
    assert (default.format, default.compression) == ("CSV", "gzip")


def test_prefixes_and_rows() -> None:
    found = made("simulate://csv.gz?files=6&prefixes=3&rows=1.5G")
    folders = {found.listing.uri(i).rpartition("/")[0] for i in range(6)}
    assert len(folders) == found.prefixes == 3
    assert found.rows == 1_500_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("simulate://csv.gz?file=1", "no parameter 'file'"),
        ("simulate://csv.gz?files=0", "files=0 is not possible"),
        ("simulate://csv.gz?files=many", "files=many is not possible"),
        ("simulate://csv.gz?files=1e9", "files=1e9 is not possible"),
        ("simulate://csv.gz?prefixes=-1", "prefixes=-1 is not possible"),
        ("simulate://csv.gz?size=0", "nothing to load"),
        ("simulate://csv.gz?size=big", "'big' is not a size"),
        ("simulate://csv.gz?sigma=9", "sigma=9 is not possible"),
        ("simulate://csv.gz?sigma=nan", "sigma=nan is not possible"),
        ("simulate://csv.gz?seed=x", "seed=x is no whole number"),
        ("simulate://csv.gz?rows=few", "'few' is not a number of rows"),
        ("simulate://odd?files=1", "does not end with the extension of a known format"),
    ],
)
def test_what_makes_no_sense(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(text)
