"""Quotes of TSV that are marks, and those that are letters."""

from __future__ import annotations

from rowfall.core.dialect import DialectOptions, TextSample
from rowfall.schema.text.tsv_marks import with_tsv_marks


def test_a_quote_with_backslashes_in_it_is_one_around_a_column_of_tsv() -> None:
    for text, quote in (
        ('id\tname\n1\t"C. \\\\& D"\n2\t"E"\n', '"'),
        ('id\tname\n1\t"C. \\" D"\n2\t"E"\n', ""),
        ('id\tname\n1\t"C. \\\\& D\n2\t"E"\n', ""),
    ):
        sample = TextSample("a.tsv", text.encode(), True)
        assert with_tsv_marks([sample], DialectOptions()).marks.quote == quote
