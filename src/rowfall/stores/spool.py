"""Copies what can be read once, or from its beginning only, into the temporary folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from typing import IO

from rowfall.core import units
from rowfall.core.errors import SourceError

_RESERVE = 256 << 20  # bytes left free: other programs use the folder as well
_CHECKED = 64 << 20  # bytes between two looks at what is free
_HELP = "Make room, name another folder with the variable TMPDIR, or load a file."


def copy(pieces: Iterable[bytes], file: IO[bytes], name: str) -> str:
    """Write pieces into a file of the temporary folder; return a sentence for the user about it.

    Raises:
        SourceError: the folder has no room.
    """
    folder = tempfile.gettempdir()
    size = looked = 0
    try:
        for piece in pieces:
            if size >= looked:
                looked = size + _CHECKED
                free = shutil.disk_usage(folder).free
                if free < _RESERVE + _CHECKED:
                    raise SourceError(
                        f"no room for a copy of {name}: {units.memory(size)} of it are in "
                        f"{folder}, where {units.memory(free)} are free",
                        hint=_HELP,
                    )
            file.write(piece)
            size += len(piece)
        file.flush()
    except OSError as error:
        raise SourceError(
            f"cannot copy {name} into {folder}: {(error.strerror or str(error)).lower()}",
            hint=_HELP,
        ) from error
    return f"{name} is copied into {folder} first: {units.memory(size)}"
