"""A stream goes on behind what is loaded, wherever earlier runs have cut it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from rowfall.contracts.destination import Session
from rowfall.core.listing import Listing, overlap
from rowfall.core.options import Options
from rowfall.destinations.clickhouse.server import ServerTables
from rowfall.plan.continued import continue_streams, joined, names_now


@dataclass
class Stream:
    """Two streams of ``ends`` numbers, cut into pieces of ``step``."""

    ends: tuple[int, int]
    step: int = 7
    version: str = "1"
    notes: tuple[str, ...] = ()
    asked: list[Mapping[str, Sequence[tuple[int, int]]]] = field(default_factory=list)

    def listing(self) -> Listing:
        return self.listing_after({})

    def listing_after(self, loaded: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        self.asked.append(loaded)
        found = Listing(continued=True)
        for number, end in enumerate(self.ends):
            gone = {n for a, b in loaded.get(f"s/{number}", ()) for n in range(a, b)}
            at = 0
            while at < end:
                stop = at
                while stop < min(end, at + self.step) and stop not in gone:
                    stop += 1
                if stop > at:
                    found.add(f"s/{number}", self.version, None, at, stop)
                at = max(stop, at + 1)
        return found


def session(source: Stream, table: str = "t") -> Session:
    """What continue_streams reads of a session."""
    made = _Session(source, source.listing(), ServerTables(), table, Options(), None)
    return cast("Session", made)


@dataclass(frozen=True)
class _Session:
    source: Stream
    listing: Listing
    destination: ServerTables
    target_key: str
    options: Options
    ledger: Any


def todo(listing: Listing, known: set[str], key: str = "t") -> list[str]:
    return [s.name for s in listing.splits(key) if s.id not in known]


def ids(found: Session) -> set[str]:
    return {s.id for s in found.listing.splits(found.target_key)}


def test_the_first_run_takes_the_listing_as_it_is() -> None:
    first = session(Stream((10, 0)))
    assert continue_streams(first, {"f" * 32}) == (first.listing, {"f" * 32})


def test_the_next_run_takes_what_follows() -> None:
    first = ids(session(Stream((10, 3))))
    second = session(Stream((12, 3)))
    found, known = continue_streams(second, first)
    assert todo(found, known) == ["s/0[10:12]"]
    assert len(found) == 4
    assert cast("Stream", second.source).asked[-1] == {"s/0": [(0, 10)], "s/1": [(0, 3)]}


def test_another_version_table_or_projection_begins_anew() -> None:
    first = ids(session(Stream((7, 0))))
    for other in (session(Stream((7, 0), version="2")), session(Stream((7, 0)), "u")):
        assert todo(*continue_streams(other, first), other.target_key) == ["s/0[0:7]"]
    other = session(Stream((7, 0)))
    other.listing.projection = "WHERE x"
    assert todo(*continue_streams(other, first)) == ["s/0[0:7]"]


def test_a_table_that_was_renamed_knows_its_ranges() -> None:
    first = ids(session(Stream((10, 0)), "old"))
    now = session(Stream((12, 0)), "new")
    names = names_now(now, "old", first | {"f" * 32})
    assert set(names) == first
    assert todo(*continue_streams(now, set(names.values())), "new") == ["s/0[10:12]"]


@given(
    ends=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=5),
    steps=st.lists(st.integers(1, 20), min_size=5, max_size=5),
    lost=st.lists(st.integers(0, 12), min_size=5, max_size=5),
)
def test_runs_that_cut_otherwise_load_every_number_once(
    ends: list[tuple[int, int]], steps: list[int], lost: list[int]
) -> None:
    """Each run lands all of its splits but some, with another length of pieces."""
    loaded: set[str] = set()
    most = (max(a for a, _ in ends), max(b for _, b in ends))
    for end, step, skip in zip([*ends, most], [*steps, 3], [*lost, 99], strict=False):
        now, known = continue_streams(session(Stream(end, step)), set(loaded))
        new = [s.id for s in now.splits("t") if s.id not in known]
        assert not overlap(new, loaded)
        loaded |= {id_ for n, id_ in enumerate(new) if n != skip}
    found, known = continue_streams(session(Stream(most)), loaded)
    loaded |= {s.id for s in found.splits("t") if s.id not in known}
    for number, count in enumerate(most):
        name = f"s/{number}"
        ranges = sorted(
            (s.start or 0, s.stop or 0)
            for s in continue_streams(session(Stream(most)), loaded)[0].splits("t")
            if s.uri == name
        )
        assert sum(b - a for a, b in ranges) == count
        assert joined(ranges) == ([(0, count)] if count else [])
