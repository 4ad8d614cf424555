"""Finds rowfall-decode, and says how it ends."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from enum import IntEnum
from pathlib import Path

from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex
from rowfall.core.version import __version__
from rowfall.decoder.documents import VERSION

PROGRAM = "rowfall-decode"


class ProgramExit(IntEnum):
    """Exit statuses of the program (crates/rowfall-decode/src/error.rs).

    ``REFUSED``: the document cannot be followed. ``DECLINED``: only the engine may judge what it
    has read. ``BROKEN``: it could not read or write. ``READER_LEFT``: nobody took what it wrote any
    more.
    """

    OK = 0
    REFUSED = 2
    DECLINED = 3
    BROKEN = 4
    READER_LEFT = 5


def program() -> str | None:
    """Return the path of the program: beside this Python, or on PATH; None for none that runs."""
    path = _found()
    return path if path is not None and not _foreign(path) else None


def absence() -> str:
    """Return why there is no program, a clause."""
    path = _found()
    return _foreign(path) if path is not None else f"{PROGRAM} is not installed"


def wrong() -> str:
    """Return what is wrong with the program that is installed, a clause; "" for nothing."""
    path = _found()
    return _foreign(path) if path is not None else ""


def _found() -> str | None:
    # Both look for what may be run: a copy without that right is none.
    return shutil.which(PROGRAM, path=Path(sys.executable).parent) or shutil.which(PROGRAM)


# e_machine of ELF (/usr/include/elf.h).
_HEADER_BYTES = 64
_MACHINES = {0x03: "x86", 0x28: "arm", 0x3E: "x86_64", 0xB7: "aarch64", 0xF3: "riscv"}


def _foreign(path: str) -> str:
    """Return what keeps a program from running here.

    It is for another processor or system, or a part of it is missing: a download that broke off, a
    full disk, a cache of packages that is damaged.
    """
    try:
        with open(path, "rb") as file, open("/proc/self/exe", "rb") as own:
            head, here = file.read(_HEADER_BYTES), own.read(20)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return ""
    if head[:2] == b"#!":
        return ""
    if not head or (head[:4] == b"\x7fELF" and size < _whole(head)):
        return f"{PROGRAM} at {path} is cut off after {size} bytes"
    if (head[:6], head[18:20]) == (here[:6], here[18:]):
        return ""
    made = _MACHINES.get(int.from_bytes(head[18:20], "little"), "unknown")
    kind = f"another processor ({made})" if head[:4] == b"\x7fELF" else "another system"
    return f"{PROGRAM} at {path} is a program for {kind}"


def _whole(head: bytes) -> int:
    """Return the bytes of an ELF file of 64 bits by its header: its table of sections ends it."""
    if head[4:5] != b"\x02":  # of 32 bits: for another machine
        return 0
    if len(head) < _HEADER_BYTES:
        return _HEADER_BYTES
    (sections,) = struct.unpack_from("<Q", head, 40)
    each, count = struct.unpack_from("<HH", head, 58)
    return int(sections) + int(each) * int(count)


def outdated(what: str) -> UsageError:
    """Return the error of a program that is not the one which belongs to this rowfall.

    Args:
        what: that it does not know.
    """
    return UsageError(
        f"{PROGRAM} at {program()} is of another version than rowfall {__version__}: it does not "
        f"know {what}",
        hint=f"Install the one that belongs to it: pip install --upgrade {PROGRAM}=={__version__}",
    )


# What programs of other versions say about what is asked of them, and what they do not know then.
_UNKNOWN = (
    (regex(r"unknown (?:field|variant) `([\w-]+)`"), "the word {!r} of a spec"),
    (regex(r"only version (\d+) of the spec is known"), f"version {VERSION} of a spec"),
    (regex(r"the spec ([a-z-]+): No such file"), "--spec {}"),
    (regex(r"usage: (rowfall-decode)"), "what it was asked to do"),
)


def check_known(said: str) -> None:
    """Check that the program has not ended because it is of another version.

    Args:
        said: what it wrote to stderr.

    Raises:
        UsageError: it is.
    """
    for pattern, what in _UNKNOWN:
        if found := pattern.search(said):
            raise outdated(what.format(found[1]))
