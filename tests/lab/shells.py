"""zsh and fish as Debian has them."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab import debian

PACKAGES = ("zsh", "zsh-common", "fish", "fish-common", "libpcre2-32-0")


def unpacked() -> Path:
    """The folder that holds ``bin/zsh`` and ``usr/bin/fish``."""
    return debian.unpacked("shells", *PACKAGES, then=_place)


def _place(root: Path) -> None:
    # fish looks for these beside itself.
    shutil.move(root / "etc", root / "usr/etc")
