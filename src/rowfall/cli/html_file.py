"""Write reports as HTML files: ``--html FILE`` of all commands that have a report."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowfall.cli.app import F, complete, option
from rowfall.core import units
from rowfall.core.errors import UsageError

if TYPE_CHECKING:
    from rowfall.cli.output import CommandOutput
    from rowfall.report.page import Page

# What each page begins with, and nothing that somebody keeps data in.
_BEGINNING = b"<!doctype html"


def html_option(function: F) -> F:
    """Add ``--html FILE``: the command gets ``html``, a path or None."""
    return option(
        "--html",
        metavar="FILE",
        group="Output",
        shell_complete=complete("paths"),
        help="Write the report as a page with charts, too: one file that needs no network. "
        "A page that is there is replaced.",
    )(function)


def check_html(file: str | None) -> None:
    """Check that a page can be written, before a command takes its time.

    Raises:
        UsageError: there is no such folder, nobody may write there, or something else than a page
            is there.
    """
    if file is None:
        return
    path = Path(file)
    if path.is_dir():
        raise UsageError(f"--html {file}: that is a folder", hint=f"--html {path / 'report.html'}")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"--html {file}: there is no folder {path.parent}",
            hint="Make it first, or name a file in one that is there.",
        )
    try:
        if path.is_file():
            with path.open("rb") as old:
                first = old.read(64).lstrip().lower()
            if first and not first.startswith(_BEGINNING):
                raise UsageError(
                    f"--html {file}: that file is there and is no page",
                    hint="Give a name of its own; only pages are replaced.",
                )
        if path.exists() and not path.is_file():  # a terminal or a pipe
            return
        import tempfile  # 5 ms that the help of commands does without

        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=".rowfall-")
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise _refused(file, error) from None


def write_page(output: CommandOutput, file: str | None, page: Page) -> None:
    """Write a page, as a whole or not at all; nothing where ``file`` is None.

    Raises:
        UsageError: see :func:`check_html`.
    """
    if file is None:
        return
    from rowfall.report.page import page_html

    check_html(file)
    path = Path(file)
    # File names need not be valid text; what is left of them is escaped already.
    text = page_html(page).encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text)
            return
        _replace(path.resolve(), text)
    except OSError as error:
        raise _refused(file, error) from None
    output.talk(f"{file}: {units.size(len(text))}, open it in a browser")


def _replace(path: Path, text: bytes) -> None:
    """Write a file beside the old one and put it in its place."""
    import tempfile

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".rowfall-")
    try:
        with os.fdopen(handle, "wb") as made:
            made.write(text)
            os.fchmod(made.fileno(), 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    """Return the mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _refused(file: str, error: OSError) -> UsageError:
    said: Any = error.strerror or error
    return UsageError(
        f"cannot write --html {file}: {said}",
        hint="Name a file in a folder that you may write to.",
    )
