"""URIs as users type them: schemes, parts, masking. Pure; paths and ``-`` are URIs, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from rowfall.core.errors import UsageError
from rowfall.core.masked import MASK, Secret

FILE, STDIN = "file", "stdin"
_NO_QUERY = frozenset({FILE, "s3", "gs", "az"})  # "?" is a wildcard or a letter there

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
# Everything up to the last "@" before the path: passwords may hold an unescaped "@" or ":".
_USERINFO = re.compile(r"\A([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)@")
_SECRET_WORD = re.compile(r"password|passwd|secret|token|signature|credential|sig\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI in parts, percent-decoded; ``text`` holds no secrets.

    Attributes:
        text: as typed, password and secret parameters masked.
        scheme: lower case; ``file`` for paths, ``stdin`` for ``-``.
        host, port, user: "" and None where absent.
        password: None when there is none.
        path: with its leading slash; the whole text for a plain path.
        query: parameters, the last one wins.
    """

    text: str
    scheme: str
    path: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: Secret | None = None
    query: Mapping[str, str] = field(default_factory=dict)


def scheme_of(text: str) -> str:
    """Return ``file`` for paths, ``stdin`` for ``-``, else the lower-case scheme."""
    if text == "-":
        return STDIN
    if text.startswith("null:"):
        return "null"
    match = _SCHEME.match(text)
    return match[1].lower() if match else FILE


def parse(text: str) -> Uri:
    """Parse a URI into its parts.

    Raises:
        UsageError: empty text, a port that is no number, a malformed host.
    """
    if not text:
        raise UsageError("the empty text is not a path or URI")
    scheme = scheme_of(text)
    if scheme == FILE:
        return Uri(text, FILE, file_path(text))
    if scheme in (STDIN, "null"):
        return Uri(text, scheme, "")
    userinfo = _USERINFO.match(text)
    bare = text if userinfo is None else userinfo[1] + text[userinfo.end() :]
    user, colon, password = userinfo[2].partition(":") if userinfo else ("", "", "")
    try:
        parts = urlsplit(bare)
        port = parts.port
        host = parts.hostname or ""
    except ValueError as error:
        raise UsageError(
            f"{mask(text)!r} is not a URI: {str(error).lower()}",
            hint="A URI looks like scheme://user@host:port/path?name=value.",
        ) from None
    return Uri(
        mask(text),
        scheme,
        unquote(parts.path),
        host,
        port,
        unquote(user),
        Secret(unquote(password)) if colon else None,
        dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def file_path(text: str) -> str:
    """Return the path of ``file:///a%20b`` or of a plain path, which is taken letter by letter.

    Raises:
        UsageError: a ``file://`` URI names another host.
    """
    match = _SCHEME.match(text)
    if match is None:
        return text
    host, slash, rest = text[match.end() :].partition("/")
    if host not in ("", "localhost"):
        raise UsageError(
            f"{text!r} names the host {host!r}, but files are read from this machine",
            hint="Write file:///absolute/path with three slashes.",
        )
    return unquote(slash + rest)


def mask(text: str) -> str:
    """Return ``text`` without its password and without parameters whose name says secret."""
    match = _USERINFO.match(text)
    if match and ":" in match[2]:
        user = match[2].partition(":")[0]
        text = f"{match[1]}{user}:{MASK}@{text[match.end() :]}"
    if scheme_of(text) in _NO_QUERY:
        return text
    head, mark, query = text.partition("?")
    if not mark:
        return text
    return head + mark + "&".join(_mask_parameter(item) for item in query.split("&"))


def secret_values(text: str) -> tuple[Secret, ...]:
    """Return what :func:`mask` hides, decoded and as typed, for masking foreign text."""
    found: list[str] = []
    match = _USERINFO.match(text)
    if match and ":" in match[2]:
        password = match[2].partition(":")[2]
        found += [password, unquote(password)]
    if scheme_of(text) not in _NO_QUERY:
        for item in text.partition("?")[2].split("&"):
            name, _, value = item.partition("=")
            if value and _SECRET_WORD.search(name):
                found += [value, unquote(value)]
    return tuple(Secret(value) for value in dict.fromkeys(found) if value)


def encode(path: str, safe: str = "/") -> str:
    """Percent-encode everything but letters, digits, ``-._~`` and ``safe``."""
    return quote(path, safe=safe)


def _mask_parameter(item: str) -> str:
    name, equals, _ = item.partition("=")
    return f"{name}={MASK}" if equals and _SECRET_WORD.search(name) else item
