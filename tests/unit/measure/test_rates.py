"""Which files of a source a sample takes."""

from __future__ import annotations

import pytest

from rowfall.core.listing import Listing
from rowfall.measure.rates import some_files


def listed(*sizes: int) -> Listing:
    listing = Listing()
    for number, size in enumerate(sizes):
        listing.add(f"/data/{number}.csv.gz", "v", size)
    return listing


@pytest.mark.parametrize(
    ("sizes", "wanted", "taken"),
    [
        ([100] * 8, 400, 4),
        ([100] * 8, 130, 1),
        ([100] * 8, 67, 1),  # half as much again
        ([100] * 8, 66, None),
        ([10**9] * 8, 10**7, None),  # one of them would take minutes
        ([10**9], 10**7, None),
        ([10**9, 10**9, 10], 10, 1),
        ([0, 0], 10, None),
    ],
)
def test_no_file_is_much_larger_than_what_is_wanted(
    sizes: list[int], wanted: float, taken: int | None
) -> None:
    found = some_files(listed(*sizes), wanted, 1.0, 1.5)
    assert (None if found is None else len(found)) == taken
