"""FROM clauses of ``url(...)``: of web servers, and of stores whose objects have an address."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from rowfall.core import formats
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.sources import _feed, _relation
from rowfall.sources.base import Probe

_REDIRECTS = 10
_RANGE = ".."  # the engine takes it for {1..9} wherever it stands inside braces
_EXPANDED = 1000  # names in braces that the engine accepts by default


def calls(
    addresses: Mapping[str, str], hidden: Set[str], encoding: Encoding | None, structure: str,
    signature: Secret | None = None, *, redirects: bool = False,
) -> list[_relation.Call]:  # fmt: skip
    """``url(...)`` of these objects; a missing one makes the engine raise.

    Args:
        addresses: name -> URL, encoded so that it holds nothing the engine takes for a pattern.
        hidden: names whose URL holds a secret.
        signature: the Authorization header.
        redirects: some addresses lead to others.
    """
    return [
        _relation.Call(
            _call(
                [addresses[name] for name in names], not hidden.isdisjoint(names), packed,
                structure, signature,
            ),
            settings=_settings(len(names), redirects),
        )
        for names, packed in _groups(list(addresses), encoding)
    ]  # fmt: skip


def _settings(count: int, redirects: bool) -> str:
    """What a call needs to follow redirects, to miss no file, and to take many at once."""
    found = []
    if redirects:
        found.append(f"max_http_get_redirects = {_REDIRECTS}")
    if count > 1:
        found.append("http_skip_not_found_url_for_globs = 0")
    if count > _EXPANDED:
        found.append(f"glob_expansion_max_elements = {count}")
    return " SETTINGS " + ", ".join(found) if found else ""


def probe(call: _relation.Call, size: int | None, head: bytes) -> Probe:
    """Size and first bytes of what a call of :func:`_relation.head` reads."""
    # Some versions give the size 0 or NULL where they did not ask for it.
    columns = "toString(nullIf(_size, 0)), " + _relation.base64(min(_relation.HEAD, size or 1))
    wanted = (
        ("size", "" if size is None else str(size)),
        ("beginning", base64.b64encode(head).decode()),
    )
    return Probe(_relation.probe(call, columns), wanted)


def _call(
    urls: Sequence[str], hidden: bool, encoding: Encoding | None, structure: str,
    signature: Secret | None,
) -> SqlText:  # fmt: skip
    address = urls[0] if len(urls) == 1 else _relation.braces(urls)
    tail: list[str | Secret] = [_relation.arguments(encoding, structure)]
    if signature:
        tail += [", headers('Authorization' = ", signature, ")"]
    first = Secret(address) if hidden else literal(address)
    return SqlText.of("url(", first, *tail, ")")


def _groups(
    names: Sequence[str], encoding: Encoding | None
) -> list[tuple[list[str], Encoding | None]]:
    """What one call can read together: one compression, no ``..`` in braces."""
    together: dict[str, list[str]] = {}
    alone: list[tuple[list[str], Encoding | None]] = []
    for name in names:
        own = encoding
        if encoding is not None and encoding.compression == formats.AUTO:
            # With braces, url() goes by the end of the whole pattern, not of each name.
            own = replace(encoding, compression=formats.by_name(_feed.path_of(name))[1])
        if _RANGE in name:
            alone.append(([name], own))
        else:
            together.setdefault(own.compression if own else "", []).append(name)
    joined: list[tuple[list[str], Encoding | None]] = [
        (group, replace(encoding, compression=packed) if encoding else None)
        for packed, group in together.items()
    ]
    return joined + alone
