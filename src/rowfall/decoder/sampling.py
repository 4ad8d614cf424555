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
    found = _asked(program, sample)
    if found is None or not found["rows"]:
        return None
    return TextFacts(found["rows"], found["columns"])


def first_objects(program: str, sample: SampleRequest) -> list[str] | None:
    """Return the texts of the first JSON objects; None where the program declines what it reads.

    Raises:
        UsageError: the program is of another version.
    """
    found = _asked(program, sample)
    return None if found is None else [text for texts in found["texts"] for text in texts]


def typed_files(program: str, sample: SampleRequest) -> dict[str, Any] | None:
    """Return what is asked about Parquet files; None where the program declines one.

    Raises:
        UsageError: the program is of another version.
    """
    return _asked(program, sample)


def _asked(program: str, sample: SampleRequest) -> dict[str, Any] | None:
    # No time limit: it reads files that the engine would read as long.
    done = subprocess.run(
        [program, "sample", "--spec", "-"],
        input=encode(sample).encode(), capture_output=True, env=environment.of_child(), check=False,
    )  # fmt: skip
    if done.returncode:
        installed.check_known(done.stderr.decode(errors="replace"))
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found
