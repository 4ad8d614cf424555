"""Some of the drawn files, loaded by the command: values as they were written, in the table."""

from __future__ import annotations

import json
import re

import pytest

from e2e.tools import Shell
from unit.schema.dialect_draws import as_meant, draw, with_iso_days, with_points

# The test of the sniffer tells about thousands.
SEEDS = range(0, 400, 5)


def value(found: object) -> str:
    """Return a value as text: what is missing is empty, and a number is written in one way."""
    text = "" if found is None else str(found).strip()
    text = text.lower() if text in ("True", "False") else text
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text):
        return repr(float(text))
    return text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_file_is_loaded_as_it_was_written(shell: Shell, seed: int) -> None:
    one = draw(seed)
    shell.write(f"x{one.suffix}", one.data)
    done = shell.run("load", f"x{one.suffix}")
    if done.code:
        assert done.code in (1, 2, 4), done.err
        assert one.ragged or "not UTF-8" in done.err, f"{one.quirks}\n{done.err}"
        return
    seen = shell.ok("query", "SELECT * FROM x", "--format", "JSONCompactEachRow").out
    rows = [[value(v) for v in json.loads(line)] for line in seen.splitlines()]
    meant = [one.rows] if one.ragged else [one.rows, as_meant(one.rows)]
    meant += map(with_iso_days, meant[:])
    meant += map(with_points, meant[:])
    assert sorted(rows) in [sorted([value(v) for v in row] for row in own) for own in meant], (
        one.quirks
    )
    assert not one.ragged
