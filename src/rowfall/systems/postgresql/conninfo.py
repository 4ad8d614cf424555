"""Addresses as people have them: what a URI leaves out is taken as libpq takes it.

In this order: the URI, the service that ``?service=`` or ``PGSERVICE`` names, ``PGHOST``,
``PGPORT`` and ``PGDATABASE`` (https://www.postgresql.org/docs/current/libpq-pgservice.html). Host,
port and database are needed here, as they name what is loaded. All else (``PGUSER``,
``PGPASSWORD``, ``~/.pgpass``, ``PGSSLMODE``, what else a service says) libpq takes by itself.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from rowfall.core import passwords, uri
from rowfall.core.errors import UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.patterns import regex

_URI = regex(r"\A([a-z]+://)(?:([^/?#]*)@)?([^/?#@]*)([^?#]*)(?:\?([^#]*))?\Z")
_PORT = regex(r"\A(.*?)(?::(\d+))?\Z")


def completed(text: str, said: list[str] | None = None) -> str:
    """Return an address with host, port and database in it; as it is where none is to be added.

    Args:
        said: gets a clause for each part that was taken from elsewhere, for people.

    Raises:
        UsageError: there is no such service, or its file cannot be read.
    """
    uri.check_password(text)
    found = _URI.match(text)
    if found is None:
        return text
    scheme, userinfo, authority, path, query = found.groups("")
    given = dict(parse_qsl(query, keep_blank_values=True))
    name = given.get("service") or os.environ.get("PGSERVICE", "")
    service = read_service(name) if name else {}

    def of(key: str, variable: str) -> str:
        if value := given.get(key):
            return value
        value = service.get(key) or os.environ.get(variable, "")
        if value and said is not None:
            where = f"the service {name}" if service.get(key) else variable
            said.append(f"{key} {value} by {where}")
        return value

    hosts, ports = _divided(authority)
    hosts = hosts or of("host", "PGHOST")
    ports = ports or of("port", "PGPORT")
    if not path.strip("/") and (database := given.pop("dbname", "") or of("dbname", "PGDATABASE")):
        path = f"/{quote(database, safe='')}"
    for key in ("host", "port"):
        given.pop(key, None)
    if "/" in hosts or "," in hosts + ports:
        given |= {"host": hosts, "port": ports or "5432"}
        authority = ""
    elif hosts or ports:
        authority = f"[{hosts}]" if ":" in hosts else hosts or "localhost"
        authority += f":{ports}" if ports else ""
    more = urlencode(given, quote_via=quote) if query or "host" in given else ""
    user = f"{userinfo}@" if userinfo else ""
    whole = f"{scheme}{user}{authority}{path}" + (f"?{more}" if more else "")
    secret = passwords.given(text)
    if secret is not None and whole != text:
        passwords.remember(whole, secret)
    return whole


def _divided(authority: str) -> tuple[str, str]:
    """Return hosts and ports of an authority, each with commas between them; "" for none."""
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        return host, port.removeprefix(":")
    parts = [_PORT.match(part) for part in authority.split(",")] if authority else []
    hosts = ",".join(part[1] for part in parts if part)
    ports = [part[2] or "" for part in parts if part]
    if len(ports) > 1 and any(ports):
        ports = [port or "5432" for port in ports]
    return hosts, ",".join(ports) if any(ports) else ""


def service_files() -> list[Path]:
    """Return the files that services are looked for in, the first one first."""
    own = os.environ.get("PGSERVICEFILE")
    files = [Path(own) if own else Path(os.path.expanduser("~/.pg_service.conf"))]
    system = os.environ.get("PGSYSCONFDIR")
    return [*files, Path(system) / "pg_service.conf"] if system else files


def _without_lines(error: Exception) -> str:
    """Return why a file cannot be read; its lines, which an error repeats, may hold a password."""
    if isinstance(error, configparser.ParsingError):  # that of a missing section, too
        numbers = [n for n, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", 0)]
        return f"line {', '.join(map(str, numbers[:5]))} is neither [name] nor key=value"
    return str(getattr(error, "strerror", None) or "it is not text").lower()


def read_service(name: str) -> Mapping[str, str]:
    """Return what a service says.

    Raises:
        UsageError: no file has it, or one cannot be read.
    """
    known: list[str] = []
    for file in service_files():
        parser = configparser.RawConfigParser(
            delimiters=("=",), comment_prefixes=("#",), default_section="\0", strict=False
        )
        try:
            parser.read_string(file.read_text(encoding="utf-8"), str(file))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            said = _without_lines(error)
            raise UsageError(
                f"the service {name} cannot be looked up in {file}: {said}",
                hint="Lines are [name] and, below it, key=value.",
            ) from None
        if parser.has_section(name):
            return dict(parser.items(name))
        known += parser.sections()
    places = " or ".join(map(str, service_files()))
    raise UsageError(
        f"there is no service {name} in {places}",
        hint=f"{did_you_mean(name, known)}Services: {', '.join(known) or 'none'}. PGSERVICEFILE "
        "names another file.",
    )
