"""rowfall-decode against the engine's own reader, on generated values of every type."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rowfall import decoding

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "crates/rowfall-decode/tests/differential.py"


def test_what_it_accepts_the_engine_reads_the_same() -> None:
    """A small seed; the script alone takes any number of them."""
    program = decoding.program()
    assert program, "make test builds it: make decoder"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--first", "1", "--seeds", "1", "--rows", "10"],
        env={
            **os.environ,
            "ROWFALL_DECODE": program,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    accepted = ran.stdout.rsplit("{", 1)[-1]
    assert "accepted" in accepted, ran.stdout[-500:]
