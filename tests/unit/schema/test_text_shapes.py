"""What the sniffer says of hundreds of texts, against the truth."""

from __future__ import annotations

from collections import Counter

from unit.schema.text_shapes import PAGE, RIGHT, WRONG, judged, page


def test_hundreds_of_texts_are_found_to_be_what_they_are() -> None:
    verdicts = Counter(verdict for _, verdict, _ in judged())
    total = sum(verdicts.values())
    assert total >= 300
    assert verdicts[WRONG] == 0
    assert verdicts[RIGHT] >= 0.99 * total


def test_the_page_of_the_reference_is_current() -> None:
    assert PAGE.read_text() == page(), "run: python tests/unit/schema/text_shapes.py"
