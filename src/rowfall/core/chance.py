"""Names and pauses that nobody else has. ``secrets`` loads OpenSSL, 5 ms of every start."""

from __future__ import annotations

import os


def token_hex(count: int) -> str:
    """Return so many random bytes as hexadecimal digits."""
    return os.urandom(count).hex()


def below(limit: int) -> int:
    """Return a random number from 0 on, less than ``limit``."""
    return int.from_bytes(os.urandom(8), "big") % limit
