"""Profiles: names for targets, their passwords and options, in ``rowfall.toml``.

A name is looked for in the ``rowfall.toml`` of the current folder, else of the nearest folder above
it that has one, then in that of the user (``$XDG_CONFIG_HOME/rowfall/rowfall.toml``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.nearest import nearest
from rowfall.core.patterns import regex

NAME = "rowfall.toml"
VARIABLE = "ROWFALL_TO"
TO, PASSWORD_FILE, PASSWORD_ENV = "to", "password_file", "password_env"
# Every other text is a path or a URI.
_WORD = regex(r"[A-Za-z][\w-]*")
_EXAMPLE = '[profiles.prod] and to = "clickhouse://me@host:8123/db"'


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings of one profile.

    Attributes:
        to: the target.
        password: None where it names none.
        options: all else, by name.
        path: of its file.
    """

    to: str
    password: Secret | None
    options: Mapping[str, Any]
    path: Path
    name: str = ""


@dataclass(frozen=True, slots=True)
class _ProfileFile:
    path: Path
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def find_profile(to: str) -> Profile | None:
    """Return the profile that ``--to`` names, None where it names a target.

    Raises:
        UsageError: a file cannot be read, is another user's, or the name is nearly a profile's.
    """
    if not _WORD.fullmatch(to):
        return None
    known: list[str] = []
    for file in map(_read, files()):
        if to in file.profiles:
            return _profile(to, file)
        known += file.profiles
    near = nearest(to, known)
    if near is not None and not os.path.exists(to):
        raise UsageError(
            f"there is no profile and no folder {to}",
            hint=f"Did you mean --to {near}? A new folder of that name: --to ./{to}",
        )
    return None


def names() -> list[str]:
    """Return the names of all profiles; of files that cannot be read none."""
    found: list[str] = []
    for path in files():
        try:
            found += _read(path).profiles
        except UsageError:
            continue
    return list(dict.fromkeys(found))


def files() -> list[Path]:
    """Return the files that are there, those that win first."""
    here = Path.cwd()
    own = next((f for folder in (here, *here.parents) if (f := folder / NAME).is_file()), None)
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    user = config / "rowfall" / NAME
    return [path for path in (own, user) if path is not None and path.is_file()]


def _read(path: Path) -> _ProfileFile:
    import tomllib  # 5 ms that only profiles need

    try:
        # In a folder of everybody, as /tmp, anybody could say where the rows go.
        if (owner := path.stat().st_uid) not in (0, os.geteuid()):
            raise UsageError(
                f"{path} belongs to another user ({owner}) and is not read",
                hint="Make it yours, or write a target in full.",
            )
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint=f"It holds {_EXAMPLE}.") from None
    profiles = found.pop("profiles", {})
    if found:
        raise UsageError(
            f"{path} holds {next(iter(found))!r}, which means nothing", hint=f"Write {_EXAMPLE}."
        )
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise UsageError(f"{path} holds no profiles", hint=f"Write {_EXAMPLE}.")
    return _ProfileFile(path, profiles)


def _profile(name: str, file: _ProfileFile) -> Profile:
    values = dict(file.profiles[name])
    where = f"profile {name} of {file.path}"
    given = {key: values.pop(key) for key in (TO, PASSWORD_FILE, PASSWORD_ENV) if key in values}
    if any(not isinstance(value, str) for value in given.values()) or not given.get(TO):
        raise UsageError(f"{where} names no target", hint=f"Write {_EXAMPLE}.")
    to = given[TO]
    if "password" in values or uri.secret_values(to):
        raise UsageError(
            f"{where} holds a password",
            hint=f'Write {PASSWORD_FILE} = "PATH" or {PASSWORD_ENV} = "VARIABLE": this file is '
            "copied and shown.",
        )
    if _WORD.fullmatch(to):
        to = f"./{to}"
    if uri.scheme_of(to) == uri.FILE and to.startswith(("~", "./", "../")):
        # As seen from the file, wherever the command runs.
        to = str((file.path.parent / os.path.expanduser(to)).absolute())
    return Profile(to, _password(given, where, file.path), values, file.path, name)


def _password(given: Mapping[str, str], where: str, path: Path) -> Secret | None:
    if (variable := given.get(PASSWORD_ENV)) is not None:
        if not (value := os.environ.get(variable)):
            raise UsageError(
                f"{where} takes the password from {variable}, which is not set",
                hint=f"Set {variable}, or give --ask-password.",
            )
        return Secret(value)
    if (name := given.get(PASSWORD_FILE)) is None:
        return None
    file = path.parent / os.path.expanduser(name)
    try:
        # Editors and echo end the line.
        return Secret(file.read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: cannot read the password in {file}: {error}") from None
