"""How the objects of an attempt are shared among the programs inside a server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowfall.inside import shares
from rowfall.model import Split


def splits(sizes: list[int | None]) -> list[Split]:
    return [Split(id=str(n), uri=f"s3://b/{n}", version="", size=s) for n, s in enumerate(sizes)]


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**9)), min_size=1, max_size=50),
       st.integers(1, 9))  # fmt: skip
def test_every_object_is_in_one_share(sizes: list[int | None], most: int) -> None:
    found = shares(splits(sizes), most)
    assert len(found) == min(most, len(sizes))
    assert all(found)
    assert sorted(int(s.id) for share in found for s in share) == list(range(len(sizes)))
