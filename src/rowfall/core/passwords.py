"""Passwords of servers that this process was given beside their addresses, as by a variable.

A source is named by its address, which is recorded and shown; who has the password elsewhere (a
reference in ``rowfall.toml``) says it here, before the source is opened. Nothing is written down.
"""

from __future__ import annotations

from rowfall.core.masked import Secret
from rowfall.core.patterns import regex

# Scheme, user without a password, and hosts: postgresql://me@host:5432
_SERVER = regex(r"\A([a-zA-Z][a-zA-Z0-9+.-]*://)(?:([^/?#@:]*)(?::[^/?#]*)?@)?([^/?#]*)")

_known: dict[tuple[str | None, ...], Secret] = {}


def remember(address: str, password: Secret) -> None:
    """Use a password for every source at the scheme, user and hosts of an address."""
    _known[_server(address)] = password


def given(address: str) -> Secret | None:
    """Return the password for a source whose address has none; None where nobody gave one."""
    return _known.get(_server(address)) if _known else None


def _server(address: str) -> tuple[str | None, ...]:
    found = _SERVER.match(address)
    return found.groups() if found is not None else (address,)
