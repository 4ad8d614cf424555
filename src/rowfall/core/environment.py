"""The environment of the processes that rowfall starts: what they need, and no secret.

Few imports: the engine's process is started before all else.
"""

from __future__ import annotations

import os

# Where programs, libraries and certificates are; language, time zone and folders of the user. Named
# one by one, because the names of secrets are known to nobody.
_KEPT = frozenset((
    "PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TZDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
))  # fmt: skip
# The way to the internet. Its address may have a password, which is no better kept elsewhere: it
# comes from the environment of this process, and only its user can read that of either.
_PROXIES = frozenset((
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
))  # fmt: skip
_KEPT_BEGINNINGS = ("LC_", "LD_", "MALLOC_", "GLIBC_", "PYTHON")


def of_child(*, internet: bool = True) -> dict[str, str]:
    """Return the variables for a child process; whatever it may read comes to it another way.

    Passwords and keys of rowfall's own environment would otherwise be in the memory of each child,
    and an engine would use ``AWS_*`` for sources that were asked to be anonymous.

    Args:
        internet: it may read what is elsewhere, through a proxy.
    """
    kept = _KEPT | _PROXIES if internet else _KEPT
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or name.startswith(_KEPT_BEGINNINGS)
    }
