"""Puts rowfall-decode where a server starts programs from, see :mod:`rowfall.deliver.decode`."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.events import silent
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.decoder import installed
from rowfall.destinations.clickhouse.opening import connect, shards_of
from rowfall.engines.base import Engine
from rowfall.plan.reach import decoder_refused, program_refused
from rowfall.targets.base import Target

_FOLDER = regex(r"inside user scripts folder (.+?)/?\. \(|inside user scripts folder (.+?)/?\.?$")


@dataclass(frozen=True, slots=True)
class Installed:
    """Result of an installation.

    Attributes:
        path: of the program in the server's folder; of a cluster, all of them.
        changed: it was copied now; it may have been there before.
        away: nodes of a cluster that did not answer and have not got it, for people.
    """

    path: str
    changed: bool
    away: tuple[str, ...] = ()


def install(target: Target, folder: str = "") -> Installed:
    """Install the program of this machine in the server: of a cluster, in every node that answers.

    Args:
        folder: the server's ``user_scripts_path``, "" to ask the server.

    Raises:
        UsageError: the target is not a server, or the program is not installed here.
        TargetError: the folder is out of reach, or the server cannot run the program.
    """
    at = target.server
    if at is None:
        raise UsageError(
            f"{target.text} is not a server", hint="Give one with --to clickhouse://host:8123."
        )
    program = installed.program()
    if program is None:
        raise UsageError(
            installed.wrong() or f"{installed.PROGRAM} is not installed here",
            hint="Build it from crates/rowfall-decode: make decoder.",
        )
    with ExitStack() as stack:
        server = connect(at, Options())
        stack.callback(server.close)
        chosen = Options(skip_unavailable_shards=True)
        shards = shards_of(server, target, chosen, stack, silent)
        if shards is None:
            return _install(server, target.text, folder, program)
        done = [
            _install(shards.connect(node), node.name, folder, program) for node in shards.cluster.up
        ]
        paths = ", ".join(dict.fromkeys(one.path for one in done))
        away = tuple(node.name for node in shards.cluster.nodes if node.error is not None)
        return Installed(paths, any(one.changed for one in done), away)


def _install(server: Engine, text: str, folder: str, program: str) -> Installed:
    """Install the program in one server, which errors call ``text``; see :func:`install`."""
    folder = folder or _folder(server, text)
    path = Path(folder) / installed.PROGRAM
    if decoder_refused(server) is None:
        return Installed(str(path), changed=False)
    if not server.same_machine() or not os.access(folder, os.W_OK):
        raise TargetError(
            f"{folder} of {text} cannot be written from here",
            hint=f"Copy {program} there as an administrator, for each server of a cluster, and "
            "make it executable for the server's user; then run this again to check it.",
        )
    _copy(program, path)
    why = decoder_refused(server)
    if why:
        raise TargetError(
            f"{path} was written, but {why} that it can run",
            hint="The program has to be executable for the server's user, and made for its "
            "processor and C library.",
        )
    return Installed(str(path), changed=True)


def _folder(server: Engine, text: str) -> str:
    """Return the server's ``user_scripts_path``, out of its error about a missing program."""
    said = program_refused(server, "rowfall-is-not-there") or ""
    match = _FOLDER.search(said)
    if match is None:
        raise TargetError(
            f"{text} does not run programs for this user: {said}",
            hint="It takes the right CREATE TEMPORARY TABLE ON *.*, which S3 and URL bring along.",
        )
    return match[1] or match[2]


def _copy(program: str, path: Path) -> None:
    """Copy the program, whole or not at all: a server may be running the one that is there."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)
        # The server's user may write there, and root may install: never through a link.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with (
            open(program, "rb") as source,
            os.fdopen(disk.open_own(new, flags), "wb") as copy,
        ):
            shutil.copyfileobj(source, copy)
            os.fchmod(copy.fileno(), 0o755)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise TargetError(f"cannot write {path}: {error.strerror}") from None
