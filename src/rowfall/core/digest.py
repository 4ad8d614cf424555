"""Short digests of text that only rowfall compares: BLAKE2b.

``hashlib`` loads OpenSSL, 4 ms of every start, for functions that nothing here needs.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b


def hexdigest(data: bytes, size: int) -> str:
    """Return the digest of ``size`` bytes as hexadecimal digits."""
    return blake2b(data, digest_size=size).hexdigest()
