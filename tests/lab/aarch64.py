"""The crate for aarch64 on x86-64: compiled by a cross-compiler, run by qemu; all of it Debian's.

    python -m lab.aarch64 cargo test --target aarch64-unknown-linux-gnu

runs a command with the environment that cargo needs for that. Debian's rustc is the one that has a
standard library for both (``rustup target add`` has to reach its own server).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import debian

TARGET = "aarch64-unknown-linux-gnu"
_PACKAGES = (
    "rustc-web", "libstd-rust-web-dev:arm64", "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross", "qemu-user-static",
)  # fmt: skip
# libc.so of the cross-compiler is a script that names files from the root.
_LINKER = """#!/bin/sh
exec "${0%/bin/*}/bin/aarch64-linux-gnu-gcc" --sysroot="${0%/usr/bin/*}" "$@"
"""


def environment() -> dict[str, str]:
    """Return the variables for cargo, rustc and the crates that compile C.

    Raises:
        ServiceError: the packages cannot be had.
    """
    root = (
        debian.unpacked("aarch64", *_PACKAGES, needs=True, also="arm64", then=_add_linker) / "usr"
    )
    compiler = str(root / "bin/cross-cc")
    of_target = TARGET.upper().replace("-", "_")
    return {
        "RUSTC": str(root / "bin/rustc"),
        "LD_LIBRARY_PATH": str(root / "lib/x86_64-linux-gnu"),
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        f"CC_{of_target.lower()}": compiler,
        f"AR_{of_target.lower()}": str(root / "bin/aarch64-linux-gnu-ar"),
        f"CARGO_TARGET_{of_target}_LINKER": compiler,
        f"CARGO_TARGET_{of_target}_RUNNER":
            f"{root / 'bin/qemu-aarch64-static'} -L {root / 'aarch64-linux-gnu'}",
    }  # fmt: skip


def _add_linker(root: Path) -> None:
    script = root / "usr/bin/cross-cc"
    script.write_text(_LINKER)
    script.chmod(0o755)


def main(command: Sequence[str]) -> int:
    return subprocess.run(command, env={**os.environ, **environment()}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
