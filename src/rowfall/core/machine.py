"""Cores and memory of this machine, or of the cgroup that this process may not leave."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_ZONES = Path("/usr/share/zoneinfo")


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


def limit_memory(more: int) -> None:
    """Limit the memory of this process to what it has now and ``more`` bytes.

    Addresses that Python and its libraries have by now are not all memory: a limit that counts them
    as such would be too low, and one with room for them on every machine too high. What a library
    only reserves does not count.
    """
    try:
        taken = next(
            int(line.split()[1]) << 10
            for line in _read(Path("/proc/self/status")).splitlines()
            if line.startswith("VmData:")
        )
    except StopIteration:
        taken = 512 << 20  # no Linux
    resource.setrlimit(resource.RLIMIT_DATA, (taken + more, taken + more))


def local_timezone() -> str:
    """Return the name of this machine's time zone as ClickHouse finds it; UTC where it has none.

    That is the name of the file below :data:`_ZONES`, or of one there that holds the same.
    """
    named = os.environ.get("TZ", "").removeprefix(":") or "/etc/localtime"
    if not named.startswith("/"):
        return "UTC" if named == "Etc/UTC" else named
    zone = os.path.realpath(named).rpartition("/zoneinfo/")[2]
    if zone.startswith("/"):  # a copy, as installers and images make it
        zone = _zone_like(Path(named))
    return "UTC" if zone in ("Etc/UTC", "") else zone


def _zone_like(path: Path) -> str:
    """Return the name of a zone whose file holds the same; "" where there is none."""
    try:
        held = path.read_bytes()
        for folder, _, names in os.walk(_ZONES):
            for found in (Path(folder, name) for name in names):
                if found.stat().st_size == len(held) and found.read_bytes() == held:
                    return str(found.relative_to(_ZONES))
    except OSError:
        pass
    return ""


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
