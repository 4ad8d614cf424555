"""Secrets by reference: ``env:NAME``, ``file:PATH`` and ``cmd:PROGRAM ARGUMENTS``.

A file is copied, committed and shown, so that no secret may stand in it: a password, or a parameter
of an address that sounds like one, is refused unless it is a reference. References are resolved
when a load begins, and their values are never written down.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote, unquote

from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret, is_shown
from rowfall.core.patterns import regex

REFERENCE = r"(env|file|cmd):.+"
"""Pattern of a reference."""
_REFERENCE = regex(REFERENCE, 16)  # re.DOTALL
_WEB = ("http", "https")
_USER = regex(r"\A([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)@")
# Store programs ask their user to unlock them, and a person takes half a minute to do so.
COMMAND_SECONDS = 60
# A secret is a line; whoever names a large file has named the wrong one.
MOST_BYTES = 64 << 10
HOW = 'Write env:NAME, file:PATH or cmd:PROGRAM in its place, as in password = "env:{}".'


def is_reference(text: str) -> bool:
    """Return whether a text names where a secret is kept."""
    return _REFERENCE.fullmatch(text) is not None


def find_secret(address: str) -> str:
    """Return what part of an address holds a secret itself; "" where all of them are references."""
    return next((what for what, value in _secrets(address) if not is_reference(value)), "")


def resolve_address(text: str, folder: Path, where: str) -> tuple[str, Secret | None]:
    """Return an address with its secrets in it, and the password of its user on its own.

    The password is taken out, so that the address is the same as where it comes from a variable.

    Raises:
        UsageError: a reference leads to nothing.
    """
    password = None
    if (match := _USER.match(text)) is not None:
        user, colon, secret = match[2].partition(":")
        rest = text[match.end() :]
        if uri.scheme_of(text) in _WEB and _REFERENCE.fullmatch(unquote(match[2])):
            token = quote(resolve(unquote(match[2]), folder, where).reveal(), "")
            text = f"{match[1]}{token}@{rest}"
        elif colon and _REFERENCE.fullmatch(unquote(secret)):
            password = resolve(unquote(secret), folder, where)
            if uri.scheme_of(text) in _WEB:
                user, password = f"{user}:{quote(password.reveal(), '')}", None
            text = f"{match[1]}{user}@{rest}"
    if uri.has_parameters(text):
        head, mark, query = text.partition("?")
        items = []
        for item in query.split("&") if mark else ():
            name, equals, value = item.partition("=")
            if equals and _REFERENCE.fullmatch(unquote(value)):
                value = quote(resolve(unquote(value), folder, where).reveal(), "")
            items.append(name + equals + value)
        text = head + mark + "&".join(items)
    return text, password


def resolve(reference: str, folder: Path, where: str) -> Secret:
    """Return the secret that a reference leads to.

    Args:
        folder: that relative paths are seen from. ``where``: file, line and table, for errors.

    Raises:
        UsageError: the variable is not set, the file cannot be read, or the program fails.
    """
    kind, _, name = reference.partition(":")
    name = name.strip()
    if kind == "env":
        if not (value := os.environ.get(name)):
            raise UsageError(
                f"{where}: the password is in the variable {name}, which is not set",
                hint=f"Set {name}, or give --ask-password.",
            )
        return Secret(value)
    if kind == "file":
        return Secret(_read(folder / os.path.expanduser(name), where))
    return Secret(_output(name, folder, where))


def _read(path: Path, where: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 10} KiB")
        # Editors and echo end the line.
        value = raw.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise UsageError(f"{where}: cannot read the password in {path}: {said}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where}: the password in {path} is not UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{where}: {path} holds no password: {error}") from None
    if not value:
        raise UsageError(f"{where}: {path} holds no password: it is empty")
    return value


def _output(text: str, folder: Path, where: str) -> str:
    """Return what a program prints, without the end of its line. No shell runs it."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        shown = next(iter(text.split()), "")
        raise UsageError(f"{where}: cmd:{shown} ...: {str(error).lower()}") from None
    shown = words[0]  # arguments may say more than is to be seen in a log
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=folder, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(
            f"{where}: cannot run {shown} for the password: {(error.strerror or '').lower()}",
            hint="cmd: takes a program and its arguments; no shell runs it.",
        ) from None
    try:
        out, err = process.communicate(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{where}: {shown} has printed no password within {COMMAND_SECONDS} s",
            hint="Run it by hand: it may wait for somebody to type. Its input is empty here.",
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
    if process.returncode:
        raise UsageError(
            f"{where}: {shown} has ended with {process.returncode} and no password",
            # Not shown: what a program of secrets says to people may hold one.
            hint=f"Run it by hand to see what it says, {len(err):,} bytes on stderr.",
        )
    try:
        value = out.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(f"{where}: what {shown} prints is not UTF-8") from None
    if not value or "\n" in value:
        said = "nothing" if not value else "more than one line"
        raise UsageError(f"{where}: {shown} has printed {said}, and not a password")
    return value


def _secrets(text: str) -> list[tuple[str, str]]:
    """Return (what it is, value) of the secrets that an address may hold."""
    scheme = uri.scheme_of(text)
    web = scheme in _WEB
    found = []
    if (match := _USER.match(text)) is not None:
        user, colon, secret = match[2].partition(":")
        if web and _REFERENCE.fullmatch(unquote(match[2])):
            pass
        elif colon:
            found.append(("the password of a user", unquote(secret)))
        elif user and web:
            found.append(("a token in front of the host", unquote(user)))
    if uri.has_parameters(text):
        for item in text.partition("?")[2].split("&"):
            name, _, value = item.partition("=")
            secret = unquote(value)
            hidden = uri.is_credential(name) if web else not is_shown(name, secret, web=False)
            if value and (hidden or _REFERENCE.fullmatch(secret)):
                found.append((f"the parameter {name}", secret))
    return found
