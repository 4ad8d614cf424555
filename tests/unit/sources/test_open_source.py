"""Options that only some sources know: others refuse them."""

from __future__ import annotations

import pytest

import rowfall
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.sources import open_source


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("postgresql://h/d/t", {"snapshot": "1"}, "--snapshot is for lake tables"),
        ("mysql://h/d/t", {"since": "1"}, "--since is for lake tables"),
        ("clickhouse://h/d/t", {"since": "1"}, "--since is for lake tables"),
        ("mysql://h/d/t", {"start_at": "earliest"}, "--from is for topics"),
        ("a.csv", {"until": "latest"}, "--until is for topics, and a.csv is none"),
        ("postgresql://h/d/t", {"format": "CSV"}, "--format is for files"),
        ("mysql://h/d/t", {"format": "CSV"}, "--format is for files"),
        ("clickhouse://h/d/t", {"format": "CSV"}, "--format is for files"),
    ],
)
def test_options_of_other_sources(text: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        open_source([text], Options(**options))  # type: ignore[arg-type]
    assert error.value.hint


@pytest.mark.parametrize(
    ("name", "said"),
    [("snapshot", "is for lake tables"), ("since", "is for lake tables"), ("format", "no format")],
)
def test_rows_in_memory_refuse_them_too(name: str, said: str) -> None:
    import pyarrow as pa

    given = {name: "CSV" if name == "format" else "1"}
    with pytest.raises(UsageError, match=said):
        rowfall.load(pa.table({"a": [1]}), table="t", **given)  # type: ignore[call-overload]
