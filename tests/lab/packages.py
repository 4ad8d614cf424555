"""Python packages that only some tests need: pinned with their hashes, fetched once, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.process import ServiceError


def packages(pinned: Path) -> Path:
    """The folder of the packages that a list of hashes pins, fetched once for all processes."""
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    name = f"{pinned.parent.name}-{pinned.stem}"
    path = cache / f"{name}-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:16]}"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                made = Path(folder, "made")
                command = [
                    sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes",
                    "--target", str(made), "-r", str(pinned),
                ]  # fmt: skip
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=600, check=False,
                )  # fmt: skip
                if done.returncode != 0:
                    raise ServiceError(f"cannot fetch {pinned}: {done.stderr.strip()[-800:]}")
                made.rename(path)
    return path
