"""zsh and fish as Debian has them: fetched by apt, unpacked into a cache, not installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.process import ServiceError

PACKAGES = ("zsh", "zsh-common", "fish", "fish-common", "libpcre2-32-0")


def unpacked() -> Path:
    """The folder that holds ``bin/zsh`` and ``usr/bin/fish``."""
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "shells"
    with (cache / "shells.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                _unpack(Path(folder))
                os.rename(Path(folder) / "root", path)
    return path


def _unpack(folder: Path) -> None:
    if shutil.which("apt-get") is None:
        raise ServiceError("zsh and fish come from apt-get, which is not there")
    try:
        _run(folder, "apt-get", "download", *PACKAGES)
    except ServiceError:  # no lists of packages yet, or old ones
        _run(folder, "apt-get", "update")
        _run(folder, "apt-get", "download", *PACKAGES)
    for package in folder.glob("*.deb"):
        _run(folder, "dpkg", "-x", str(package), "root")
    # fish looks for these beside itself.
    shutil.move(folder / "root/etc", folder / "root/usr/etc")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ServiceError(f"{' '.join(command)}: {done.stderr[-500:]}")
