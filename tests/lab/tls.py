"""A certificate for servers of the lab that speak TLS."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab.process import ServiceError


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and localhost that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ServiceError("openssl is not installed; the tests of TLS need it")
    made, key = folder / "server.crt", folder / "server.key"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
    done = subprocess.run(
        [*command, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
         "-keyout", str(key), "-out", str(made)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ServiceError(f"openssl: {done.stderr.strip()}")
    return made, key
