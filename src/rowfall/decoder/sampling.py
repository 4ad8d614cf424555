"""Asks rowfall-decode how the values of a sample are written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rowfall.core import environment
from rowfall.decoder import installed
from rowfall.decoder.documents import SampleRequest, encode

# Samples take some MiB; a row of Parquet that says it has millions of elements took 2 GiB. Then the
# program ends itself, and the engine is asked, which knows --memory.
_MOST_MEMORY = 256 << 20


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
    with subprocess.Popen(
        [program, "sample", "--spec", "-"], env=environment.of_child(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        _limit_memory(process.pid)  # it waits for the document
        out, err = process.communicate(encode(sample).encode())
    if process.returncode:
        installed.check_known(err.decode(errors="replace"))
        return None
    found: dict[str, Any] = json.loads(out)
    return found


def _limit_memory(pid: int) -> None:
    """Let the system refuse a process more than :data:`_MOST_MEMORY`, where it can do that."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError):  # it has ended
            resource.prlimit(pid, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
