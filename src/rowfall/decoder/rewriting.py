"""Foreign text, rewritten to plain CSV in UTF-8 by rowfall-decode before an engine reads it.

``rowfall-decode rewrite`` is a child process for each object that is read: it takes the stored
bytes of a file here, or what comes in through its stdin, unpacks them, and writes the plain text
straight into the pipe that the engine reads (crates/rowfall-decode/src/input/rewrite). Where
rowfall-decode parses the load, it rewrites by itself, so both readers see the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO

from rowfall.core.errors import LETTERS, SourceError, UsageError
from rowfall.core.model import Dialect, Encoding
from rowfall.core.patterns import regex
from rowfall.decoder import documents, installed
from rowfall.decoder.installed import PROGRAM, ProgramExit

_PIECE = 1 << 20


def check(encoding: Encoding) -> Encoding:
    """Return the encoding, unless its text would have to be rewritten and cannot be.

    Raises:
        UsageError: rowfall-decode is not installed.
    """
    if encoding.dialect is not None and installed.program() is None:
        raise _missing(encoding.dialect)
    return encoding


def _missing(dialect: Dialect) -> UsageError:
    convert = ""
    if dialect.charset != "utf-8":
        convert = f" Or convert the file: iconv -f {dialect.charset} -t utf-8 FILE | rowfall load -"
    return UsageError(
        f"{describe(dialect)} is rewritten by {PROGRAM}, and {installed.absence()}",
        hint=f"Install it: pip install {PROGRAM}.{convert}",
    )


def describe(dialect: Dialect) -> str:
    """Return half a sentence that says what is foreign about a text."""
    if dialect.lines:
        form = dialect.lines[0]
        return {"widths": "text of fixed widths", "logfmt": "logfmt"}.get(form, "an access log")
    if dialect.charset != "utf-8":
        return f"text in {dialect.charset}"
    return "text of this dialect"


def known_dates(dialect: Dialect) -> Dialect:
    """Return a dialect without the dates of columns that the sample has still to show."""
    return replace(dialect, dates=tuple(item for item in dialect.dates if item[0] >= 0))


def document(
    encoding: Encoding, compression: str, path: str, lines: Sequence[int] = ()
) -> documents.RewriteRequest:
    """Return the request to rewrite an object of foreign text; see :class:`ObjectRewriting`.

    Raises:
        ValueError: the encoding has no dialect, so the text is plain.
    """
    if encoding.dialect is None:
        raise ValueError("plain text is not rewritten")
    return documents.RewriteRequest(
        path, encoding.written or encoding.format, known_dates(encoding.dialect), compression,
        tuple(lines),
    )  # fmt: skip


class ObjectRewriting:
    """One object on its way through the program.

    Args:
        pieces: stored bytes of the object; or its path, where it is a file here.
        sink: the descriptor that the plain text is written to; by default it is read with
            :meth:`read`.
    """

    def __init__(
        self, pieces: Iterable[bytes] | str, encoding: Encoding, compression: str,
        sink: int = subprocess.PIPE, lines: Sequence[int] = (),
    ) -> None:  # fmt: skip
        path = pieces if isinstance(pieces, str) else "-"
        asked = document(encoding, compression, path, lines)
        command = installed.program()
        if command is None:
            raise _missing(encoding.dialect or Dialect())
        self._failed: list[Exception] = []
        self._child = subprocess.Popen(
            [command, "rewrite", "--spec", documents.encode(asked)],
            stdin=subprocess.DEVNULL if path != "-" else subprocess.PIPE, stdout=sink,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self._feeder: threading.Thread | None = None
        stdin = self._child.stdin
        if stdin is not None and not isinstance(pieces, str):
            self._feeder = threading.Thread(target=self._feed, args=(pieces, stdin), daemon=True)
            self._feeder.start()

    def _feed(self, pieces: Iterable[bytes], stdin: IO[bytes]) -> None:
        try:
            for piece in pieces:
                stdin.write(piece)
        except BrokenPipeError:
            pass  # it has ended, and says why
        except Exception as error:
            # What follows must not be taken for the end of the object.
            self._failed.append(error)
            self._child.kill()
        finally:
            with suppress(OSError):
                stdin.close()

    def read(self) -> Iterator[bytes]:
        """Give the plain text in pieces; stop early by :meth:`stop`.

        Raises:
            ValueError: it goes to another descriptor.
        """
        if self._child.stdout is None:
            raise ValueError("the plain text is written to the sink")
        while piece := os.read(self._child.stdout.fileno(), _PIECE):
            yield piece

    def stop(self) -> None:
        """End the program: what it still would write is not wanted."""
        self._child.kill()
        # Closed by the thread that feeds it, maybe right now: communicate() would flush it.
        self._child.stdin = None
        self._child.communicate()

    def end(self) -> None:
        """Wait until the program has ended.

        Raises:
            SourceError: it could not read or rewrite the object.
            Exception: what went wrong with reading the object.
        """
        with self._child.stderr or io.BytesIO() as stderr:
            said = stderr.read().decode("utf-8", "replace").strip()
        code = self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
        if self._feeder is not None:
            self._feeder.join()
        if self._failed:
            raise self._failed[0]
        if code in (ProgramExit.OK, ProgramExit.READER_LEFT):
            return
        installed.check_known(said)
        message = _message(said) or f"{PROGRAM} ended with {code}"
        raise SourceError(message, hint=hint(message))


# What the program says of text that is not written as it was told, and what helps.
_HINTS = (
    (regex(r"byte 0x\w+ at offset \d+ is not UTF-16"),
     "Fetch the file again: it is cut off or damaged. Or name another encoding with --encoding."),
    (regex(r"byte 0x\w+ at offset \d+ is not "),
     "Name another encoding: --encoding windows-1252 takes any byte, --encoding binary loads the "
     "bytes as they are."),
    (regex(r"line \d+: (a quote is opened|there is text after a closing quote)"),
     f"Correct that line. {LETTERS}"),
    (regex(r"line \d+: the header lacks "),
     "Load files of different columns on their own."),
)  # fmt: skip


def hint(said: str) -> str | None:
    """Return the hint for an error of the program about a text; None for other errors."""
    return next((text for pattern, text in _HINTS if pattern.search(said)), None)


def _message(said: str) -> str:
    """Return the message in the program's last line of JSON, else its first 300 characters."""
    try:
        return str(json.loads(said.splitlines()[-1])["message"])
    except (ValueError, KeyError, IndexError, TypeError):
        return said[:300]


def head(pieces: Iterable[bytes] | str, encoding: Encoding, compression: str, most: int) -> bytes:
    """Return the first whole lines of the plain text, about ``most`` bytes.

    Raises:
        SourceError: not even those can be read.
    """
    found = bytearray()
    child = ObjectRewriting(pieces, encoding, compression)
    for piece in child.read():
        found += piece
        if len(found) >= most:
            child.stop()
            del found[found.rfind(b"\n") + 1 or len(found) :]
            return bytes(found)
    try:
        child.end()
    except SourceError:
        if not found:  # else there are rows for the schema; the load will find what is wrong
            raise
    return bytes(found)


def locate(
    pieces: Iterable[bytes] | str, encoding: Encoding, compression: str, lines: Sequence[int]
) -> list[int]:
    """Return the lines of the object in which lines of the plain text stand.

    ``lines`` are in ascending order; fewer are returned where the object ends before.
    """
    child = ObjectRewriting(pieces, encoding, compression, lines=lines)
    text = b"".join(child.read())
    child.end()
    return [int(line) for line in json.loads(text)["lines"]]
