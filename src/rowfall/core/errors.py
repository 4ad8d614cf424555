"""The one table of errors: what went wrong, whether trying again can help, and the exit code.

An error says the operation, the object and the cause in one lower-case line without a full stop;
the hint is a sentence of its own. ``transient`` is decided where the error is raised.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from rowfall.core.patterns import regex


class Exit(IntEnum):
    """Exit codes of the command (documented in docs/reference/exit-codes.md)."""

    DONE = 0
    PARTIAL = 1  # some splits failed; run the same command again
    USAGE = 2
    LEDGER = 3
    SOURCE = 4
    TARGET = 5
    ENGINE = 6
    VERIFY = 7
    HOOK = 8
    BUG = 70
    INTERRUPTED = 130


def headline(text: str) -> str:
    """Return the first line of a message that says something: some begin with an empty one."""
    return next((line for line in map(str.strip, text.splitlines()) if line), text.strip())


class RowfallError(Exception):
    """Base of all errors that rowfall raises on purpose.

    Args:
        message: operation, object and cause; lower case, no full stop.
        hint: a sentence that says what would help; shown on its own line.
        transient: True when the same statement may succeed later.
        code: the engine's numeric error code (ClickHouse ``ErrorCodes``); 0 when there is none.

    Attributes:
        ask_after: seconds after which a service that is busy wants to be asked again; None where
            it has not said that it is busy.
    """

    exit: ClassVar[Exit] = Exit.BUG
    ask_after: float | None = None

    def __init__(
        self, message: str, *, hint: str | None = None, transient: bool = False, code: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = None if hint is None else ready_to_paste(hint)
        self.transient = transient
        self.code = code

    @property
    def exit_code(self) -> int:
        """Return the number that the command would end with."""
        return int(self.exit)

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override] # typeshed: an attribute, to write
        """Return the lines that tracebacks show below the message, in notebooks too."""
        return [f"hint: {self.hint}"] if self.hint else []


def ready_to_paste(hint: str) -> str:
    """Return a hint without the full stop behind a command, which a shell would take for a part."""
    return hint[:-1] if _COMMAND_AT_END.search(hint) else hint


# An option, perhaps with a value, or something in quotes; a command of rowfall that takes an id.
_COMMAND_AT_END = regex(
    r"(^|[\s(])(--?[a-z][\w-]*( ('[^']*'|[^\s',;]+))?|'[^']+'|rowfall (forget|resume) [\w{}]+)\.$"
)


class UsageError(RowfallError):
    """The command line, an option or a URI makes no sense."""

    exit = Exit.USAGE


class LedgerError(RowfallError):
    """The ledger is damaged, locked, newer than this version, or contradicts the target."""

    exit = Exit.LEDGER


class LockLostError(LedgerError):
    """Another process uses what this one had locked for itself: load no more."""


class SourceError(RowfallError):
    """The source cannot be listed or read.

    Attributes:
        object: name of the one of several that it is about; "" where nobody has noted it.
    """

    exit = Exit.SOURCE
    object: str = ""


class NothingFoundError(SourceError):
    """No file is there of the names, pattern or folder that are to be loaded."""


class NotReachedError(SourceError):
    """Nothing answers at the address at all: most often it is a wrong one."""


class CutOffError(SourceError):
    """An answer ended before its length: a connection broke, or its server counts wrong."""


class SourceGoneError(SourceError):
    """Something that is to be loaded is gone for good, and more of it will follow: load no more."""


class ObjectChangedError(SourceError):
    """An object was not the version that was listed when it was read; it may have changed back."""


class TargetError(RowfallError):
    """The target refuses: not writable, other columns, no right, disk full."""

    exit = Exit.TARGET


class NoSpaceError(TargetError):
    """The rows do not fit on the disks of the target; nothing has begun."""


class EngineError(RowfallError):
    """The engine failed to run a statement, or its process died (code 0)."""

    exit = Exit.ENGINE


class MemoryOverrunError(EngineError):
    """The embedded engine held more than ``--memory`` and has ended; another one has to go on.

    Attributes:
        own: this statement took it, and not another one that ran at the same time.
    """

    def __init__(self, message: str, *, code: int, own: bool) -> None:
        hint = "Give more with --memory, or write the file with smaller values."
        super().__init__(message, hint=hint, transient=True, code=code)
        self.own = own


class DataError(SourceError):
    """A value of the source does not fit: names file, line, column and value.

    Args:
        uri: the object that holds the value.
        line: 1-based line of the text file, or None where the format has no lines.
        column: name of the column, or None when the whole row is malformed.
        value: the offending text, shortened.
    """

    def __init__(
        self,
        message: str,
        *,
        uri: str,
        line: int | None = None,
        column: str | None = None,
        value: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.uri = uri
        self.line = line
        self.column = column
        self.value = value


class RecordTooLongError(DataError):
    """A record is longer than ``--max-record``: it is not even looked at as a whole."""


LETTERS = "Where quotes are letters of the values: --quote none."
"""Behind a hint about a quote; left out where lines have other numbers of fields without quotes."""


def without_letters(hint: str | None) -> str | None:
    """Return a hint without :data:`LETTERS`."""
    return hint and hint.replace(ready_to_paste(LETTERS), "").strip()


class UnclosedQuoteError(DataError):
    """A quote is opened and not closed before the text ends: nobody knows where its row ends.

    Args:
        place: where the quote is opened, ``line 3`` or ``byte 1,024``.

    Attributes:
        split_id: of the object, of several that are read together; "" where that is not known.
    """

    def __init__(
        self, place: str, *, uri: str, split_id: str, line: int | None, column: str | None
    ) -> None:
        of = f' column "{column}"' if column else ""
        super().__init__(
            f"{uri} {place}{of}: a quote is opened here and not closed before the file ends",
            uri=uri, line=line, column=column,
            hint=f"Close the quote, or cut the file off before that line. {LETTERS}",
        )  # fmt: skip
        self.split_id = split_id


class VerifyError(RowfallError):
    """Source and target hold different rows."""

    exit = Exit.VERIFY


class HookError(RowfallError):
    """A hook of a load failed; the rows are as they are, loaded or not."""

    exit = Exit.HOOK


class Interrupted(RowfallError):
    """The user pressed Ctrl-C; the load can be resumed by the same command."""

    exit = Exit.INTERRUPTED
