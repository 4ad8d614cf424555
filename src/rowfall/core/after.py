"""Reads ``--after``: whether loaded files are moved, tagged or deleted. Pure."""

from __future__ import annotations

import posixpath

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options

MOVE, TAG, DELETE, NOTHING = "move", "tag", "delete", "nothing"
_WORDS = (MOVE, TAG, DELETE, NOTHING)
_SHAPES = "--after move:PREFIX, --after tag, --after tag:KEY=VALUE, --after delete"
DEFAULT_TAG = ("rowfall", "loaded")
# Letters of tags that S3 and Azure both take.
_TAG_LETTERS = frozenset(" +-=._:/@")


@dataclass(frozen=True, slots=True)
class After:
    """The action that loaded files get.

    Attributes:
        kind: :data:`MOVE`, :data:`TAG` or :data:`DELETE`.
        prefix: of a move, the folder that files go to, as typed.
        key, value: of a tag.
    """

    kind: str
    prefix: str = ""
    key: str = ""
    value: str = ""

    @property
    def past(self) -> str:
        """Return the word for files that have got it."""
        return {MOVE: "moved", TAG: "tagged", DELETE: "deleted"}[self.kind]

    @property
    def removes(self) -> bool:
        """True where a file is not found again by the next listing."""
        return self.kind != TAG


def after_of(options: Options) -> After | None:
    """Return the action of ``--after``; None for nothing.

    Raises:
        UsageError: it is none.
    """
    text = options.after_load
    kind, colon, rest = text.partition(":")
    if kind not in _WORDS:
        raise UsageError(
            f"--after {text} is not one of move:PREFIX, tag, delete, nothing",
            hint=f"{did_you_mean(kind, _WORDS)}Write {_SHAPES}.",
        )
    if kind == NOTHING and not colon:
        return None
    if kind == DELETE and not colon:
        return After(DELETE)
    if kind == MOVE and rest:
        return After(MOVE, rest)
    if kind == TAG and not colon:
        return After(TAG, "", *DEFAULT_TAG)
    if kind == TAG:
        key, equals, value = rest.partition("=")
        if key and equals and all(letter.isalnum() or letter in _TAG_LETTERS for letter in rest):
            return After(TAG, "", key, value)
        raise UsageError(
            f"--after {text}: {rest or 'nothing'} is not KEY=VALUE of letters, digits and "
            "+ - . _ : / @",
            hint="Write e.g. --after tag:loaded=yes.",
        )
    if kind == MOVE:
        raise UsageError(
            "--after move names no folder", hint="Write --after move:PREFIX, e.g. move:done/."
        )
    raise UsageError(
        f"--after {kind} takes nothing behind it", hint="Leave out the colon and what is behind it."
    )


def with_version(name: str, version: str) -> str:
    """Return the name for a file where another one has its own: with a mark of its version.

    The mark is before the extensions, so that readers still know the format, and the same for the
    same version: who moves a file once more, after a crash, moves it to the same place.
    """
    folder, _, last = name.rpartition("/")
    stem, dot, extensions = last.partition(".")
    mark = "".join(letter for letter in version if letter.isalnum())[-12:]
    # A name that begins with a dot has no stem.
    changed = f"{stem}-{mark}{dot}{extensions}" if stem else f"{last}-{mark}"
    return posixpath.join(folder, changed) if folder else changed
