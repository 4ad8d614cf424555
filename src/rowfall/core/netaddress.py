"""What the name of a host tells without asking anybody."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Tell whether a host is an address of this machine, as far as its name says so.

    It may also be the end of a tunnel, or of a container.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
