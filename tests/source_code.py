"""The code of rowfall as trees, for the tests that read it."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/rowfall"
# Tests of one group run on one worker, which parses the code once.
ONE_WORKER = pytest.mark.xdist_group("source code")


@functools.cache
def trees() -> Mapping[str, ast.Module]:
    """Parse each file; return the trees by their paths below ``src/rowfall``."""
    gc.disable()  # a million nodes, none of them garbage, are parsed in 1 s instead of 4
    found = {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    gc.freeze()
    gc.enable()
    return found
