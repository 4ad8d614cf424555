"""Tell whether a server runs on this machine, as far as its address and its name say so."""

from __future__ import annotations

import ipaddress
import socket


def failed_tls(text: str) -> bool:
    """Tell whether a driver's message is about TLS: then a server runs, and is not trusted."""
    return "certificate" in text.lower() or "SSL error" in text or "SSL routines" in text


def is_loopback(host: str) -> bool:
    """Tell whether a host is an address of this machine.

    It may also be the end of a tunnel, or of a container.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_own_name(name: str) -> bool:
    """Tell whether a server that calls its machine so runs on this one."""
    return name.partition(".")[0] == socket.gethostname().partition(".")[0]
