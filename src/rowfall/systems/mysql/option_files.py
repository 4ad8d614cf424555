"""Addresses as people have them: what a URI leaves out is taken as the client of MySQL takes it.

In this order: the URI, the group ``[client]`` of ``~/.my.cnf`` or of the file that
``?defaults-file=`` names, then ``MYSQL_HOST``, ``MYSQL_TCP_PORT`` and ``MYSQL_UNIX_PORT``
(https://dev.mysql.com/doc/refman/8.4/en/environment-variables.html). Files of the system are not
read: they set the socket of a server on this machine, and an address without a host is TCP here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

from rowfall.core import passwords, uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.patterns import regex

_URI = regex(r"\A([a-z]+://)(?:([^/?#]*)@)?([^/?#@]*)([^?#]*)(?:\?([^#]*))?\Z")
_GROUPS = ("client", "client-server", "client-mariadb", "mysql", "mariadb", "mariadb-client")
_FILE = "defaults-file"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", "\\": "\\"}


def completed(text: str, said: list[str] | None = None) -> str:
    """Return an address with host, port, user and database in it, and the password remembered.

    Args:
        said: gets a clause for each part that was taken from elsewhere, for people.

    Raises:
        UsageError: a file of options is named, or is there, and cannot be read.
    """
    uri.check_password(text)
    found = _URI.match(text)
    if found is None:
        return text
    scheme, userinfo, authority, path, query = found.groups("")
    given = dict(parse_qsl(query, keep_blank_values=True))
    named = given.pop(_FILE, "")
    file = Path(os.path.expanduser(named or "~/.my.cnf"))
    options = read_options(file, named=bool(named))

    def of(key: str, variable: str = "") -> str:
        value = options.get(key) or os.environ.get(variable, "")
        if value and said is not None:
            said.append(f"{key} {value} by {file if options.get(key) else variable}")
        return value

    user, colon, password = userinfo.partition(":")
    own = options.get("user", "")
    same_user = not user or unquote(user) == own or not own
    if not authority:
        socket = given.get("socket") or of("socket", "MYSQL_UNIX_PORT")
        host, port = of("host", "MYSQL_HOST"), of("port", "MYSQL_TCP_PORT")
        if socket and host in ("", "localhost"):
            given["socket"] = socket
        elif host or port:
            authority = (f"[{host}]" if ":" in host else host or "localhost") + (
                f":{port}" if port else ""
            )
    user = user or quote(of("user"), safe="")
    if not path.strip("/") and (database := of("database")):
        path = f"/{quote(database, safe='')}"
    if "ssl_ca" not in given and (authority_file := of("ssl-ca")):
        given["ssl_ca"] = authority_file
    more = urlencode(given, quote_via=quote)
    login = f"{user}{colon}{password}@" if user or colon else ""
    whole = f"{scheme}{login}{authority}{path}" + (f"?{more}" if more else "")
    secret = passwords.given(text)
    if secret is None and not colon and same_user and options.get("password"):
        secret = Secret(options["password"])
        if said is not None:
            said.append(f"password by {file}")
    if secret is not None:
        passwords.remember(whole, secret)
    return whole


def read_options(file: Path, *, named: bool = False) -> Mapping[str, str]:
    """Return the options of the client's groups; {} where there is no such file.

    Args:
        named: by the user, so that it has to be there.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        if not named:
            return {}
        raise UsageError(
            f"there is no file {file}", hint="Check the path in defaults-file=."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(
            f"the options of the client in {file} cannot be read: {said}",
            hint=f"Let this user read it: chmod u+r {file}. Or name another one with "
            "?defaults-file=PATH",
        ) from None
    found: dict[str, str] = {}
    group = ""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#;!":
            continue
        if text.startswith("["):
            if not text.endswith("]"):
                raise UsageError(
                    f"{file}, line {number}: {text!r} is no group",
                    hint="Groups look like [client].",
                )
            group = text[1:-1].strip()
        elif group in _GROUPS:
            key, equals, value = text.partition("=")
            if equals:
                found[key.strip().replace("_", "-")] = _value(value.strip())
    return found


def _value(text: str) -> str:
    """Return a value without its quotes and escapes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    else:
        text = text.split(" #", 1)[0].rstrip()
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), text)
