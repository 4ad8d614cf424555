"""Who runs a load: a process that others can tell to be alive or dead, without trusting clocks."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@cache
def machine() -> str:
    """This boot of this machine and this process-number space; "" where the kernel tells neither.

    Process numbers are unique only within both: two containers of one host count on their own.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def me() -> str:
    """This process, as text for :func:`dead`: machine, process number, and when it started."""
    return f"{machine()} {os.getpid()} {_started(os.getpid())}"


def dead(text: str) -> bool:
    """Whether the process that called itself ``text`` (and maybe more) has certainly ended.

    False for a process of another machine: nothing is known about it.
    """
    where, number, started, *_ = (*text.split(" "), "", "", "")
    if not where or where != machine() or not number.isdigit():
        return False
    return _started(int(number)) != started


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot; "" when there is none (or a zombie).

    A process number comes back after a while; together with this it does not.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
