"""Cores and memory of this machine, or of the cgroup that this process may not leave."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return the CPU cores for this process: affinity, then the cgroup's quota (rounded up)."""
    cores = len(os.sched_getaffinity(0))
    quota = _read(_CGROUP / "cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        cores = min(cores, max(1, math.ceil(int(quota[0]) / int(quota[1]))))
    return max(1, cores)


def total_memory() -> int:
    """Return the memory of this machine, or of its cgroup; 0 where that is not known."""
    found = 0
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemTotal:"):
            found = int(line.split()[1]) * 1024
    limit = _read(_CGROUP / "memory.max").strip()
    return min(found or int(limit), int(limit)) if limit.isdigit() else found


def free_memory() -> int:
    """Return the bytes to take without swapping: MemAvailable, or less by the cgroup's limit."""
    available = 0
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit, used = _read(_CGROUP / "memory.max").strip(), _read(_CGROUP / "memory.current").strip()
    if limit.isdigit() and used.isdigit():
        # Page cache counts as used in a cgroup but is given back on demand.
        cache = sum(
            int(line.split()[1])
            for line in _read(_CGROUP / "memory.stat").splitlines()
            if line.startswith("inactive_file ")
        )
        available = min(available or int(limit), max(0, int(limit) - int(used) + cache))
    return available


def local_timezone() -> str:
    """Return the name of this machine's time zone as ClickHouse finds it; UTC where it has none."""
    named = os.environ.get("TZ", "").removeprefix(":") or "/etc/localtime"
    path = os.path.realpath(named) if named.startswith("/") else named
    zone = path.rpartition("/zoneinfo/")[2]
    return "UTC" if zone.startswith("/") or zone in ("Etc/UTC", "") else zone


def resident(pid: int) -> tuple[int, int]:
    """Return the bytes resident in a process now and at its highest; zeros when it is gone.

    Not ``ru_maxrss``: that begins with what the parent held when it started the program.
    """
    found = {"VmRSS": 0, "VmHWM": 0}
    for line in _read(Path(f"/proc/{pid}/status")).splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) * 1024
    return found["VmRSS"], found["VmHWM"]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
