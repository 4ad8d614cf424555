"""How the objects of an attempt are shared among the programs inside a server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.deliver.decode import shares
from rowfall.deliver.ranges import Ranges, length

CSV = Encoding("CSV", "none", Kind.TEXT)


def splits(sizes: list[int | None]) -> list[Split]:
    return [Split(id=str(n), uri=f"s3://b/{n}", version="", size=s) for n, s in enumerate(sizes)]


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**9)), min_size=1, max_size=50),
       st.integers(1, 9))  # fmt: skip
def test_every_object_is_in_one_share(sizes: list[int | None], most: int) -> None:
    found = shares(Ranges(tuple(splits(sizes)), CSV, ("a",)), most)
    assert len(found) == min(most, len(sizes))
    assert all(share.splits and (share.encoding, share.names) == (CSV, ("a",)) for share in found)
    assert sorted(int(s.id) for share in found for s in share.splits) == list(range(len(sizes)))


def test_ranges_of_one_object_are_shared_by_their_length() -> None:
    stops = [60, 90, 100]
    starts = [0, *stops[:-1]]
    cut = [Split("0", "s3://b/0", "", 100, *pair) for pair in zip(starts, stops, strict=True)]
    found = shares(Ranges(tuple(cut), CSV), 2)
    assert sorted(sum(map(length, share.splits)) for share in found) == [40, 60]
