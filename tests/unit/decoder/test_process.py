"""The process of rowfall-decode."""

from __future__ import annotations

import os
from pathlib import Path

from rowfall.decoder.documents import Spec
from rowfall.decoder.process import DecoderFailure, DecoderProcess


def test_a_program_that_leaves_the_cores_to_others(tmp_path: Path) -> None:
    """It has its priority before it has the spec, and so before it has threads."""
    program, said = tmp_path / "program", tmp_path / "said"
    program.write_text(f"#!/bin/sh\nread spec\nnice > {said}\n")
    program.chmod(0o755)
    spec = Spec(inputs=(), format="CSV", columns=(), outputs=())
    process = DecoderProcess(str(program), spec, nice=7)
    process.wait()
    process.result()
    assert int(said.read_text()) == min(19, os.nice(0) + 7)


def test_a_program_that_ends_itself_says_why(tmp_path: Path) -> None:
    """What was shown was the advice of Rust behind it, to set a variable."""
    program = tmp_path / "program"
    said = "memory allocation of 9 bytes failed\nnote: run with `RUST_BACKTRACE=1` to see more"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'E'\n{said}\nE\nkill -ABRT $$\n")
    program.chmod(0o755)
    process = DecoderProcess(str(program), Spec((), "CSV", (), ()))
    process.wait()
    failed = process.result()
    assert isinstance(failed, DecoderFailure)
    assert failed.message == "rowfall-decode gave up: memory allocation of 9 bytes failed"
