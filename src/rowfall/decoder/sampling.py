"""Asks rowfall-decode how the values of a sample are written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rowfall.core import environment
from rowfall.decoder import installed
from rowfall.decoder.documents import SampleRequest, encode


class TextFacts(NamedTuple):
    """Rows of a sample, and facts about each column, by name (crates/.../src/sample.rs)."""

    rows: int
    columns: Sequence[Mapping[str, Any]]


def measure(program: str, sample: SampleRequest) -> TextFacts | None:
    """Return the facts about a sample; None where the program declines it, or there are no rows.

    Raises:
        UsageError: the program is of another version.
    """
    # No time limit: it reads files that the engine would read as long.
    done = subprocess.run(
        [program, "sample", "--spec", "-"],
        input=encode(sample).encode(), capture_output=True, env=environment.of_child(), check=False,
    )  # fmt: skip
    if done.returncode:
        installed.check_known(done.stderr.decode(errors="replace"))
        return None
    found = json.loads(done.stdout)
    return TextFacts(found["rows"], found["columns"]) if found["rows"] else None
