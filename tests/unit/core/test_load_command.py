"""Commands that hints name load into the target of the load that they are about."""

from __future__ import annotations

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.load_command import hints_into, with_target

CAST = "Cast it: rowfall load postgresql://h/db --query 'SELECT 1' --table t"


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        (CAST, CAST.replace("load ", "load --to other ")),
        ("zcat F | rowfall load - --table N", "zcat F | rowfall load --to other - --table N"),
        ("Begin it: rowfall load SOURCE --to x", "Begin it: rowfall load SOURCE --to x"),
        ("Correct the file.", "Correct the file."),
    ],
)  # fmt: skip
def test_hints_name_the_target(hint: str, named: str) -> None:
    assert with_target(hint, "other") == named
    assert with_target(hint, "rowfall-data") == hint
    assert with_target(None, "other") is None


def test_errors_name_the_target_without_its_password() -> None:
    with pytest.raises(SourceError) as raised, hints_into("clickhouse://me:secret@h/db"):
        raise SourceError("no type", hint=CAST)
    assert raised.value.hint == CAST.replace("load ", "load --to clickhouse://me@h/db ")
