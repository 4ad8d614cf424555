"""Secrets that mask themselves: they never enter a log, the ledger, a report or printed SQL."""

from __future__ import annotations

import re
from typing import final

from rowfall.core.patterns import regex

MASK = "[HIDDEN]"


@final
class Secret:
    """A string that shows as ``[HIDDEN]`` everywhere except through :meth:`reveal`.

    Not a ``str`` subclass on purpose: f-strings, ``json`` and ``logging`` must never see the value.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the real value; only engines and object-store clients may call this."""
        return self._value

    def __repr__(self) -> str:
        return "Secret([HIDDEN])"

    def __str__(self) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret cannot be pickled")


# Parameters of addresses that are shown, because what they say is about the data and not about who
# may read it. All else in a query is hidden: there is no list of all names of secrets (`key`,
# `code`, `sid`, `jwt`, `subscription-key`, ...), and one name too many that is hidden costs nothing
# but its sight in messages.
_HOW_WRITTEN = """
    format fmt type ext extension output raw accept accepttype compression compress encoding charset
    delimiter separator header headers alt download dl export
    response-content-type response-content-disposition response-content-encoding
"""
_WHICH_ROWS = """
    columns fields select sort sort_by sortby order order_by orderby desc asc limit offset page
    per_page perpage page_size pagesize size count rows first last top skip start end from to since
    until before after date day month year week quarter hour minute period interval granularity
    lat lon lang language locale tz timezone region country unit units
"""
_WHICH_OBJECT = """
    file filename name table dataset database sheet gid list prefix path version versionid v rev
    revision ref branch tag snapshot generation part partnumber partition shard chunk range
"""
_OF_ROWFALL_AND_DRIVERS = """
    by cluster schema http op user.name length sslmode sslrootcert sslcert target_session_attrs
    ssl_ca application_name connect_timeout bytes seed role quota profile compatibility
"""
_SHOWN = frozenset(
    f"{_HOW_WRITTEN} {_WHICH_ROWS} {_WHICH_OBJECT} {_OF_ROWFALL_AND_DRIVERS}".split()
)
# In addresses that are no URLs of the web, which name settings of servers and drivers.
_SECRET_WORD = regex(
    r"pass|pwd|secret|token|signature|credential|(?:\A|[^a-z])sig(?:\Z|[^a-z])|auth|jwt|bearer|cookie"
    r"|sessi?on|sid(?:\Z|[^a-z])|code(?:\Z|[^a-z])|key(?:\Z|[^a-z])|otp(?:\Z|[^a-z])|pin(?:\Z|[^a-z])"
    r"|\.pem\Z|license|config\Z",
    re.IGNORECASE,
)
# Of databases and librdkafka: columns, files, numbers of seconds, and names of methods.
_NO_SECRETS = regex(
    r"\A(?:key|sslkey|session_timezone|.*(?:\.location|\.ms|\.method|\.sources|client\.id|\.type))\Z",
    re.IGNORECASE,
)
# Parameters whose value is an address, shown where that is a host and a path alone.
_ADDRESSES = frozenset({"schema.registry.url"})
_BARE_ADDRESS = regex(r"https?://[\w.:\[\]-]+(?:/[\w./-]*)?")
# A value may be an address, with a user and a parameter of its own.
_ADDRESS = regex(r"://|@|%40|%3a(?:%2f){2}", re.IGNORECASE)
_PLAIN_VALUE = regex(r"-?\d{1,12}|true|false", re.IGNORECASE)


def is_shown(name: str, value: str, *, web: bool) -> bool:
    """Tell whether a parameter of an address is shown, because it is known to hold no secret.

    Args:
        name: as typed. ``value``: may be percent-encoded.
        web: the address is one of HTTP, where anybody may invent names. Others name settings of
            servers, brokers and drivers; of those all are shown but what sounds like a secret.
    """
    if _ADDRESS.search(value):
        return not web and name.lower() in _ADDRESSES and bool(_BARE_ADDRESS.fullmatch(value))
    if name.lower() in _SHOWN:
        return True
    if web:
        return False
    if _NO_SECRETS.fullmatch(name):
        return True
    plain = bool(_PLAIN_VALUE.fullmatch(value))
    if _SECRET_WORD.search(name):
        return plain and "_" in name  # max_sessions_for_user=10
    return plain or "_" in name or "." in name


# Engines repeat addresses in a form of their own: one of several in braces, encoded another way.
_WEB = regex(r"https?://[^\s'\"<>)\]]+", re.I)
_USER = regex(r"\A(\w+://)[^/?#]*@")
_IN_WEB = regex(r"([?&;])([^=&;#\s]*)(=?)([^&;#\s]*)")
# Of all schemes: a person may write an address into a query, and the engine repeats it.
_LOGIN = regex(r"(\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}:/{1,2}[^\s'\"/?#:@]{0,200}:)[^\s'\"/?#]{1,2000}@")
# Behind a # in an address: a place in a page, as errors name those of documentation.
_PLACE = regex(r"[a-z_.,-]*")
_PARAMETER = regex(r"([?&])([\w.%-]+)=([^&\s'\")]+)")


def redact(text: str, *secrets: Secret | None) -> str:
    """Return ``text`` with every given secret masked: for foreign text (engine errors).

    Parameters of addresses are masked whatever is given, but for those known to be harmless.
    """
    # Most texts hold no address at all.
    if "?" in text or "&" in text or ":/" in text:
        text = _WEB.sub(lambda found: _without_parameters(found[0]), text)
        text = _LOGIN.sub(rf"\1{MASK}@", text)
        text = _PARAMETER.sub(_parameter, text)
    for secret in secrets:
        # Shorter values would punch holes into ordinary words and give away nothing anyway.
        if secret is not None and len(secret.reveal()) >= 4:
            text = text.replace(secret.reveal(), MASK)
    return text


def _without_parameters(url: str) -> str:
    url = _USER.sub(rf"\1{MASK}@", url)
    url, mark, behind = url.partition("#")
    if not _PLACE.fullmatch(behind):
        behind = MASK
    return f"{_known_parameters(url)}{mark}{behind}"


def _known_parameters(url: str) -> str:
    at = min((at for mark in "?;" if (at := url.find(mark)) >= 0), default=len(url))
    return url[:at] + _IN_WEB.sub(_in_web, url[at:])


def _in_web(found: re.Match[str]) -> str:
    mark, name, equals, value = found.groups()
    if not (name or value) or is_shown(name, value, web=True):
        return found[0]
    return f"{mark}{name}={MASK}" if equals else f"{mark}{MASK}"


def _parameter(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return found[0] if is_shown(name, value, web=False) else f"{mark}{name}={MASK}"
