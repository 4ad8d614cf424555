"""What a followed listing held the last time, by digests of its chunks."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rowfall.run.name_chunks import LEAST, MOST, ChunkPass, NameChunks
from rowfall.sources.base import ListedObject


def passed(
    before: NameChunks, names: Sequence[tuple[str, str]], undone: set[str] | None = None
) -> tuple[NameChunks, list[str]]:
    """Return the chunks after a pass, and the names that were asked about."""
    asked: list[str] = []

    def judge(objects: Sequence[ListedObject]) -> list[bool]:
        asked.extend(item.name for item in objects)
        return [item.name not in (undone or ()) for item in objects]

    one = ChunkPass(before, judge)
    for start in range(0, len(names), 700):
        one.add([ListedObject(n, v, 1) for n, v in names[start : start + 700]])
    return one.end(), asked


def test_only_chunks_that_have_changed_are_asked_about() -> None:
    names = [(f"n{i:06}", "1") for i in range(20_000)]
    chunks, asked = passed(NameChunks(), names)
    assert len(asked) == 20_000
    assert len(chunks.starts) == 20
    chunks, asked = passed(chunks, names)
    assert asked == []
    names[5_000] = ("n005000", "2")
    chunks, asked = passed(chunks, sorted([*names, ("n000001x", "1"), ("zz", "1")]))
    assert {"n005000", "n000001x", "zz"} <= set(asked)
    assert len(asked) <= 3 * LEAST + 3


def test_a_chunk_with_something_undone_is_asked_about_again() -> None:
    names = [(f"n{i:06}", "1") for i in range(5_000)]
    chunks, _ = passed(NameChunks(), names, {"n002500"})
    chunks, asked = passed(chunks, names)
    assert len(asked) == LEAST
    assert "n002500" in asked
    assert passed(chunks, names)[1] == []


def test_chunks_stay_of_a_size_while_names_come_everywhere() -> None:
    draw = random.Random(1)
    names: dict[str, str] = {}
    chunks = NameChunks()
    for _ in range(30):
        for _ in range(1_000):
            names[f"{draw.randrange(1 << 60):015x}"] = "1"
        chunks, _ = passed(chunks, sorted(names.items()))
    assert len(names) / MOST <= len(chunks.starts) <= 2 * len(names) / LEAST
    for name in list(names)[::2]:
        del names[name]
    chunks, _ = passed(chunks, sorted(names.items()))
    assert passed(chunks, sorted(names.items()))[1] == []


def test_a_pass_that_breaks_off_keeps_what_it_has_not_come_to() -> None:
    names = [(f"n{i:06}", "1") for i in range(10_000)]
    chunks, _ = passed(NameChunks(), names)
    one = ChunkPass(chunks, lambda objects: [True] * len(objects))
    one.add([ListedObject(n, v, 1) for n, v in names[:4_500]])
    chunks, asked = passed(one.end(complete=False), names)
    assert len(asked) == LEAST
    assert "n004499" in asked
