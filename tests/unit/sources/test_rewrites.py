"""What became of files that are loaded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowfall.sources.base import File, TableRewrite
from rowfall.sources.rewrites import follow


def step(removed: str, added: str, *, same: bool = True) -> TableRewrite:
    """A change of files that are called by one letter each."""
    files: list[tuple[File, ...]] = [tuple((c, "") for c in text) for text in (removed, added)]
    return TableRewrite(f"{removed} to {added}", "before", files[0], files[1], same)


def loaded(files: str, *steps: TableRewrite) -> str:
    return "".join(sorted(name for name, _ in follow(((c, "") for c in files), steps).loaded))


def test_files_made_of_loaded_files_are_loaded() -> None:
    assert loaded("abc", step("ab", "x"), step("xc", "y")) == "abcxy"
    assert loaded("c", step("ab", "x")) == "c"  # none of them: they are loaded as they are now


def test_files_made_of_loaded_and_other_files_are_told_with_the_first_cause() -> None:
    steps = [step("ab", "x"), step("xc", "y")]
    found = follow([("a", ""), ("c", "")], steps)
    assert found.changed == {("x", ""): steps[0], ("y", ""): steps[0]}
    assert found.removed is None


def test_changed_rows_are_told_and_so_are_removed_ones() -> None:
    found = follow([("a", "")], [step("a", "x", same=False), step("b", "", same=False)])
    assert list(found.changed) == [("x", "")]
    assert found.removed is None
    gone = step("a", "", same=False)
    assert follow([("a", "")], [gone]).removed is gone


@given(st.data())
def test_rows_of_a_table_that_is_compacted_at_random_land_once(data: st.DataObject) -> None:
    """Files hold numbered rows; whatever was merged, what is loaded and what counts as loaded cover
    every row once, or the load is refused."""
    rows: dict[str, frozenset[int]] = {f"f{n}": frozenset({n}) for n in range(6)}
    live, steps = set(rows), list[TableRewrite]()
    done = {name for name in sorted(live) if data.draw(st.booleans())}
    loaded = frozenset().union(*(rows[name] for name in done))
    for number in range(data.draw(st.integers(0, 4))):
        taken = data.draw(st.sets(st.sampled_from(sorted(live)), min_size=1))
        made = f"m{number}"
        rows[made] = frozenset().union(*(rows[name] for name in taken))
        live = (live - taken) | {made}
        removed = tuple((name, "") for name in sorted(taken))
        steps.append(TableRewrite(made, "", removed, ((made, ""),), same_rows=True))
    found = follow(((name, "") for name in done), steps)
    rest = {name for name in live if (name, "") not in found.loaded}
    if any((name, "") in found.changed for name in rest):
        assert any(rows[name] & loaded for name in rest)  # refused for a reason only
        return
    counts = sorted(n for name in rest for n in rows[name])
    assert sorted([*counts, *loaded]) == list(range(6))
