"""The environment of the processes that rowfall starts: what they need, and no secret.

Few imports: the engine's process is started before all else.
"""

from __future__ import annotations

import os

# Where programs, libraries and certificates are; language, time zone and folders of the user; the
# way to the internet. Named one by one, because the names of secrets are known to nobody.
_KEPT = frozenset((
    "PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TZDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
))  # fmt: skip
_KEPT_BEGINNINGS = ("LC_", "LD_", "MALLOC_", "GLIBC_", "PYTHON")


def of_child() -> dict[str, str]:
    """Return the variables for a child process; whatever it may read comes to it another way.

    Passwords and keys of rowfall's own environment would otherwise be in the memory of each child,
    and an engine would use ``AWS_*`` for sources that were asked to be anonymous.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
    }
