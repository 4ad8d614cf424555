"""Commands of rowfall, run for an agent: arguments in, a JSON document or an error out."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import redact
from rowfall.core.nearest import nearest
from rowfall.core.options import ANSWERS, LOAD, Flag, Options

MOST_BYTES = 256 << 10
"""Of what a command prints: more is no help to a model, whose context it fills. 256 KiB are some
60,000 tokens, and the plan of a table of 1,000 columns."""
# A load that is told to end takes back what is not visible yet; the next run would do it, too.
_END_SECONDS = 10.0
_NOT_FOR_AGENTS = {
    "follow": "it goes on for ever: let a person start a pipeline (rowfall pipeline start)",
    **dict.fromkeys(ANSWERS, "it settles a question about rows that may be there twice, which a "
                             "person has to answer on the command line"),
}  # fmt: skip
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
    """What a command has said.

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


async def run(*arguments: str) -> CommandResult:
    """Run ``rowfall ARGUMENTS``; a request that is taken back interrupts it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowfall", "--no-color", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101 - asked for
    assert process.stderr is not None  # noqa: S101 - asked for
    said = asyncio.create_task(_read(process.stderr))
    try:
        out, cut = await _read(process.stdout)
        errors, _ = await said
        code = await process.wait()
    except asyncio.CancelledError:
        process.send_signal(signal.SIGINT)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), _END_SECONDS)
        if process.returncode is None:
            process.kill()
        said.cancel()
        raise
    document = None
    if not cut:
        with suppress(ValueError):
            document = json.loads(out)
    return CommandResult(code, document, redact(out), cut, redact(errors))


async def _read(stream: asyncio.StreamReader) -> tuple[str, bool]:
    """Read all of a stream; return its beginning, and whether there was more."""
    kept = bytearray()
    cut = False
    while block := await stream.read(1 << 16):
        left = MOST_BYTES - len(kept)
        cut = cut or len(block) > left
        kept += block[:left]
    return kept.decode("utf-8", "replace"), cut


def check_no_secrets(*texts: str | None) -> None:
    """Check that an agent has handed over no password: what it says is kept by others.

    Raises:
        UsageError: one of the texts is an address with a secret.
    """
    for text in texts:
        if text and uri.mask(text) != text:
            raise UsageError(
                f"{uri.mask(text)} holds a secret, which does not belong into a conversation",
                hint="Name a connection of rowfall.toml, or have this server started with the "
                "variables of the service: ROWFALL_PASSWORD, AWS_SECRET_ACCESS_KEY, ...",
            )


def load_arguments(
    sources: Sequence[str], to: str | None, table: str | None, options: Mapping[str, Any]
) -> list[str]:
    """Return the arguments of a load, as the command line has them.

    Args:
        options: by the names of :class:`rowfall.core.options.Options`.

    Raises:
        UsageError: an option is not known, or not for agents; a text holds a secret.
    """
    check_no_secrets(*sources, to, *(v for v in options.values() if isinstance(v, str)))
    known = {f.name: f.metadata["flag"] for f in fields(Options) if "flag" in f.metadata}
    made: list[str] = []
    for name, value in options.items():
        flag = known.get(name)
        if why := _NOT_FOR_AGENTS.get(name):
            raise UsageError(f"the option {name} is not for agents", hint=why)
        if flag is None or LOAD not in flag.commands:
            like = nearest(name, known)
            raise UsageError(
                f"there is no option {name}" + (f"; did you mean {like}?" if like else ""),
                hint="Options have the names of the command line: max_errors for --max-errors.",
            )
        made += _flag_arguments(name, flag, value)
    named = [] if to is None else ["--to", to]
    named += [] if table is None else ["--table", table]
    # What begins with a dash is a source all the same.
    return [*named, *made, "--", *sources]


def _flag_arguments(name: str, flag: Flag, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if len(values) != 1 and not flag.many:
        raise UsageError(f"the option {name} takes one value")
    if not flag.metavar:
        if not isinstance(value, bool):
            raise UsageError(f"the option {name} is true or false")
        return [flag.flags[0]] if value else []
    return [f"{flag.flags[0]}={_text(one)}" for one in values]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
