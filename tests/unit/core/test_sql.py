"""SQL as the engine formats it, taken apart."""

from __future__ import annotations

import pytest

from rowfall.core.sql import closing, find_last, identifier, items, tokens


def test_tokens() -> None:
    sql = "SELECT `a``b`, \"c\\\"d\", 'e''f\\'g' /* h ) */, i.j1 -- k\n, 1.5, x[2]"
    assert "".join(tokens(sql)) == sql
    words = [w for w in tokens(sql) if not w.isspace()]
    assert words[:8] == [
        "SELECT", "`a``b`", ",", '"c\\"d"', ",", "'e''f\\'g'", "/* h ) */", ",",
    ]  # fmt: skip
    assert [identifier(w) for w in words[1:6:2]] == ["a`b", 'c"d', None]
    assert closing(tokens("f(a, (b), ')')(c)"), 1) == 11
    assert items(tokens("a, f(b, c), 'd, e', [f, g]")) == ["a", "f(b, c)", "'d, e'", "[f, g]"]


@pytest.mark.parametrize("text", ["(a, (b)", "('a, b)"])
def test_brackets_without_an_end(text: str) -> None:
    with pytest.raises(ValueError, match="without an end"):
        closing(tokens(text), 0)


def test_the_last_word_outside_of_brackets() -> None:
    words = tokens("a SETTINGS (SETTINGS) b")
    assert find_last(words, "SETTINGS") == 2
    assert find_last(words, "ORDER") == len(words)
