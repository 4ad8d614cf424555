"""Commands of rowfall, run for an agent: arguments in, a JSON document or an error out."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import PurePath
from typing import Any

import anyio

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import is_shown, redact
from rowfall.core.nearest import nearest
from rowfall.core.options import ANSWERS, LOAD, Flag, Options, several
from rowfall.core.patterns import regex

MOST_BYTES = 256 << 10
"""Bytes of a command's output that are kept. More is no help to a model, whose context it fills:
256 KiB are some 60,000 tokens, and the plan of a table of 1,000 columns."""
# A load that is told to end takes back what is not visible yet; the next run would do it, too. Ten
# seconds were too few on a busy machine.
_END_SECONDS = 30.0
_NOT_FOR_AGENTS = {
    "follow": "it goes on for ever: let a person start a pipeline (rowfall pipeline start)",
    "after_load": "it moves or deletes the files of the source, which a person has to ask for",
    **dict.fromkeys(("metrics_port", "metrics_host", "build_address"), "it opens a port of this "
                    "machine to others, which a person has to ask for"),
    **dict.fromkeys(("on", "workers"), "it starts programs on other machines, which a person has "
                    "to ask for"),
    **dict.fromkeys(ANSWERS, "it settles a question about rows that may be there twice, which a "
                             "person has to answer on the command line"),
}  # fmt: skip
# Linux takes 128 KiB for one argument of a program, and here 1 MiB is left for all of them.
_MOST_ARGUMENT, _MOST_ARGUMENTS = (128 << 10) - 1, 1 << 20
# What begins a statement that reads, in any of the systems that are asked.
_READS = regex(
    r"\s*\(*\s*(SELECT|WITH|FROM|VALUES|TABLE|SHOW|DESC|DESCRIBE|EXPLAIN|EXISTS|SUMMARIZE)\b", re.I
)
_COMMENT = regex(r"\s*(?:--[^\n]*(?:\n|\Z)|/\*.*?\*/)", re.S)
_MEANINGS = {
    1: "some of it failed, and the rest is loaded: the same command again tries what is left",
    2: "an argument is wrong",
    3: "a question that a person has to answer: the message names the commands",
    4: "the source cannot be read",
    5: "the target refuses or is away",
    6: "a fault of the engine",
    7: "the rows that were read and stored differ",
    8: "the load is done, and a hook of it failed",
    70: "a fault of rowfall",
    130: "it was interrupted: the same command again goes on",
}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command.

    Attributes:
        code: exit code. ``document``: of stdout; None where it is no JSON.
        text: stdout as it is, ``cut`` where it was longer than :data:`MOST_BYTES`.
        said: notes, warnings and errors, without secrets.
    """

    code: int
    document: Any
    text: str
    cut: bool
    said: str

    @property
    def error(self) -> str:
        """Return what an agent is told of a command that failed; "" of others."""
        if self.code == 0:
            return ""
        why = _MEANINGS.get(self.code, "it failed")
        return f"exit code {self.code} ({why}): {self.said.strip() or 'nothing was said'}"


_running: set[asyncio.subprocess.Process] = set()


async def run(*arguments: str) -> CommandResult:
    """Run ``rowfall ARGUMENTS``; a request that is taken back interrupts it."""
    # Nobody would know of a process that is started while its request is taken back.
    with anyio.CancelScope(shield=True):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rowfall", "--no-color", *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        _running.add(process)
    assert process.stdout is not None  # noqa: S101 - asked for
    assert process.stderr is not None  # noqa: S101 - asked for
    # They are read to the end whatever happens: a process that ends has something to say.
    said = asyncio.create_task(_read(process.stderr))
    printed = asyncio.create_task(_read(process.stdout))
    try:
        out, cut = await asyncio.shield(printed)
        errors, _ = await asyncio.shield(said)
        code = await process.wait()
    finally:
        # A scope of anyio takes back every await anew: without the shield it is not waited for.
        with anyio.CancelScope(shield=True):
            await _end(process)
        for task in (said, printed):
            task.cancel()
        _running.discard(process)
    document = None
    if not cut:
        with suppress(ValueError):
            document = json.loads(out)
    return CommandResult(code, document, redact(out), cut, redact(errors))


async def end_all() -> None:
    """End the commands that run, as Ctrl-C does."""
    await asyncio.gather(*map(_end, [*_running]))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a session, so a group
        await process.wait()


async def _read(stream: asyncio.StreamReader) -> tuple[str, bool]:
    """Read all of a stream; return its beginning, and whether there was more."""
    kept = bytearray()
    cut = False
    while block := await stream.read(1 << 16):
        left = MOST_BYTES - len(kept)
        cut = cut or len(block) > left
        kept += block[:left]
    return kept.decode("utf-8", "replace"), cut


def check_texts(*texts: str | None) -> None:
    """Check that texts can be arguments of a program, and that none holds a password.

    Raises:
        UsageError: one cannot, or is an address with a secret: what an agent says is kept by
            others.
    """
    sizes = []
    for text in filter(None, texts):
        masked = uri.mask(text)
        if masked != text:
            raise _secret(masked)
        try:
            sizes.append(len(text.encode()))
        except UnicodeEncodeError:
            raise UsageError("a text holds half of a character (a lone surrogate)") from None
        if "\0" in text:
            raise UsageError("a text holds a character of the code 0")
    if max(sizes, default=0) > _MOST_ARGUMENT or sum(sizes) > _MOST_ARGUMENTS:
        raise UsageError(
            "the arguments are too long: at most 128 KiB each, and 1 MiB together",
            hint="Name files by a glob or their folder, and keep long texts in a file.",
        )


def _secret(masked: str) -> UsageError:
    return UsageError(
        f"{masked} holds a secret, which does not belong into a conversation",
        hint="Name a connection of rowfall.toml, or have this server started with the "
        "variables of the service: ROWFALL_PASSWORD, AWS_SECRET_ACCESS_KEY, ...",
    )


def check_query(sql: str) -> None:
    """Check that a text is one statement that reads; the setting of the engine does the rest.

    Setting and transaction of an engine stop what changes tables. They do not stop DuckDB's
    ``COPY ... TO 'file'``, nor PostgreSQL's ``SET TRANSACTION READ WRITE; DROP ...``.

    Raises:
        UsageError: it is not.
    """
    check_texts(sql)
    if (masked := redact(sql)) != sql:
        raise _secret(masked)
    bare = sql
    while found := _COMMENT.match(bare):
        bare = bare[found.end() :]
    if not _READS.match(bare):
        raise UsageError(
            "the statement does not begin as one that reads",
            hint="Begin it with SELECT, WITH, FROM, SHOW, DESCRIBE, EXPLAIN or EXISTS.",
        )
    # In quotes, too: systems differ in what ends a text, and a guess could be talked round.
    if ";" in sql.rstrip("; \t\r\n"):
        raise UsageError(
            "the text has a semicolon in it: queries of agents are one statement",
            hint="Within a value write char(59), or chr(59) in PostgreSQL and DuckDB.",
        )


def load_arguments(
    sources: Sequence[str], to: str | None, table: str | None, options: Mapping[str, Any]
) -> list[str]:
    """Return the arguments of a load, as the command line has them.

    Args:
        options: by the names of :class:`rowfall.core.options.Options`; None counts as not given.

    Raises:
        UsageError: an option is not known, or not for agents; a text holds a secret.
    """
    if not sources:
        raise UsageError("no source is given", hint="Name a file, a glob, a folder or an address.")
    if "-" in sources:
        raise UsageError("an agent has no stdin that could be read", hint="Name a file.")
    check_texts(*sources, to, table)
    flags = {f.name: f.metadata["flag"] for f in fields(Options) if "flag" in f.metadata}
    known: dict[str, Flag] = {name: flag for name, flag in flags.items() if LOAD in flag.commands}
    made: list[str] = []
    for name, value in options.items():
        if value is None:
            continue
        flag = known.get(name)
        if why := _NOT_FOR_AGENTS.get(name):
            raise UsageError(f"the option {name} is not for agents", hint=why)
        if flag is None:
            like = nearest(name, known)
            raise UsageError(
                f"there is no option {name}" + (f"; did you mean {like}?" if like else ""),
                hint="Options have the names of the command line: max_errors for --max-errors.",
            )
        made += _flag_arguments(name, flag, value)
    # After "=" a value that begins with a dash is a value all the same.
    named = [] if to is None else [f"--to={to}"]
    named += [] if table is None else [f"--table={table}"]
    arguments = [*named, *made, "--", *sources]
    check_texts(*arguments)  # all together are not too long
    return arguments


def _flag_arguments(name: str, flag: Flag, value: Any) -> list[str]:
    if not flag.metavar:
        if not isinstance(value, bool):
            raise UsageError(f"the option {name} is true or false")
        return [flag.flags[0]] if value else []
    if isinstance(value, Mapping) and flag.many and all(map(_is_plain, value.values())):
        value = [*several(value, " " if name == "type" else "=")]
    values = value if isinstance(value, list) else [value]
    if len(values) != 1 and not flag.many:
        raise UsageError(f"the option {name} takes one value")
    if not all(map(_is_plain, values)):
        raise UsageError(
            f"the option {name} takes a text or a number"
            + (", or a list of them" if flag.many else "")
        )
    texts = [*map(_text, values)]
    check_texts(*texts)
    for text in texts:
        key, _, said = text.partition("=")
        if redact(text) != text or (name == "set" and not is_shown(key, said, web=False)):
            raise _secret(f"the option {name}")
        if name == "rejects":
            _check_rejects(text)
    return [f"{flag.flags[0]}={text}" for text in texts]


def _check_rejects(text: str) -> None:
    """Check that an agent writes rows that do not fit beside its data, and over nothing else.

    Raises:
        UsageError: it names another place.
    """
    path = PurePath(text)
    if path.is_absolute() or ".." in path.parts or path.suffix != ".tsv":
        raise UsageError(
            f"the option rejects names {text}: an agent may write them below the folder of this "
            "server alone, into a .tsv file",
            hint="Leave it out: the file is rowfall-rejects.tsv.",
        )


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
