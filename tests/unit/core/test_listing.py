"""Ids of splits: what later runs know what is loaded by."""

from __future__ import annotations

from rowfall.core.listing import Listing, overlap, range_of, ranges_by_stream, without_salt


def streams(*ranges: tuple[str, int, int], key: str = "t") -> list[str]:
    listing = Listing(continued=True)
    for uri, start, stop in ranges:
        listing.add(uri, "1", None, start, stop)
    return [split.id for split in listing.splits(key)]


def test_a_continued_split_tells_its_range() -> None:
    (first, second, other) = streams(("k/0", 0, 10), ("k/0", 10, 15), ("k/1", -7, -1))
    assert range_of(first) == (first[:32], 0, 10)
    assert first[:32] == second[:32] != other[:32]
    assert range_of(other) == (other[:32], -7, -1)
    assert range_of(first[:32]) is None
    assert streams(("k/0", 0, 10), key="u") != [first]
    assert ranges_by_stream([second, first, other[:32], second]) == {
        first[:32]: [(0, 10), (10, 15)]
    }


def test_negative_bounds_are_bounds() -> None:
    listing = Listing(continued=True)
    listing.add("k", "1", None, -1, 0)
    (split,) = listing.splits("t")
    assert (split.start, split.stop, split.name) == (-1, 0, "k[-1:0]")
    assert (listing.unit, listing.rows(0), listing.total_rows) == ("range", 1, 1)


def test_ranges_with_sizes_are_not_counted_as_rows() -> None:
    listing = Listing(continued=True)
    listing.add("k", "1", 100, 0, 50)
    assert (listing.rows(0), listing.total_rows, listing.total_size) == (None, None, 100)


def test_a_generated_range_keeps_the_id_that_it_had() -> None:
    listing = Listing()
    listing.add("generate://trips", "1", None, 0, 10)
    (split,) = listing.splits("t")
    assert range_of(split.id) is None
    assert (len(split.id), split.whole, split.continued) == (32, "", False)


def test_what_force_adds_to_an_id_is_taken_off() -> None:
    (one,) = streams(("k/0", 0, 10))
    assert without_salt(f"{one}0a1b2c3d4e") == one
    assert without_salt(one) == one
    assert without_salt("f" * 32 + "0a1b2c3d4e") == "f" * 32


def test_ranges_overlap_by_their_numbers() -> None:
    mine = streams(("k/0", 0, 10), ("k/0", 10, 20), ("k/1", 0, 10))
    assert overlap(mine, streams(("k/0", 9, 12))) == set(mine[:2])
    assert overlap(mine, streams(("k/0", 20, 25))) == set()
    assert overlap(mine, mine[2:]) == {mine[2]}
    assert overlap(["a", "b"], ["b"]) == {"b"}
