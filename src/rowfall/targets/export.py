"""Files to write: ``out/part_{n}.csv.gz`` or ``s3://bucket/prefix/part_{n}.parquet``.

One attempt writes one file, so ``--files N`` is the number of attempts; the source decides the
rows, its pieces go to the files in their order.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rowfall.core import disk, formats, s3_access, sql, uri
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quote
from rowfall.targets.base import Caps, Publish, Scratch, scratch_folder, state_ledger

NUMBER = "{n}"
PIECE = ".rowfall-piece"
"""End of the name of a Native file with some rows of an output, see :mod:`rowfall.run.pieces`."""


class Export:
    """Files under one pattern, on this machine or in a bucket.

    Args:
        pattern: ``{n}`` stands for the file's number, zero-padded; needed with more than one file.

    Raises:
        UsageError: no ``{n}`` with several files, an unknown format, a bucket that S3 cannot have.
        TargetError: the folder cannot be made, or a file is in the way.
    """

    def __init__(self, pattern: str, ledger_path: Path, options: Options) -> None:
        self.files = options.files or 1
        if self.files < 1:
            raise UsageError(f"--files {self.files} is not a number of files")
        if self.files > 1 and NUMBER not in pattern:
            raise UsageError(
                f"{self.files} files cannot all be called {pattern}",
                hint="Put {n} where the number goes, e.g. part_{n}.csv.gz.",
            )
        named = Options(format=options.to_format)
        self.encoding = formats.detect([pattern.replace(NUMBER, "0")], named)
        if not options.to_format and self.encoding.kind is Kind.TEXT:
            # Without their names nobody knows what the columns are.
            self.encoding = replace(self.encoding, format=f"{self.encoding.format}WithNames")
        if self.encoding.compression == "bz2":
            raise UsageError(
                "bz2 files can be read, not written",
                hint="Write .gz, .zst, .lz4 or .xz files.",
            )
        self.remote = pattern.startswith("s3://")
        if self.remote:
            s3_access.check_bucket(pattern.removeprefix("s3://").partition("/")[0], pattern)
        self.pattern = pattern if self.remote else str(Path(pattern).absolute())
        self.text = self.pattern
        self.folder: Path | None = None
        self.server: ServerAt | None = None
        self.address: ServerAt | None = None
        self.database = ""
        self.table = ""
        self.ledger_path = ledger_path
        self._access = s3_access.resolve(options) if self.remote else None
        self._keys = self._access.keys() if self._access else None
        self.secrets: tuple[Secret, ...] = (self._keys.secret,) if self._keys else ()
        self.caps = Caps(
            Publish.AT_ONCE if self.remote else Publish.RENAME,
            "each file appears complete or not at all; a re-run after a crash writes only the "
            "files that are missing, and writes them again with the same rows",
            "a file to write",
            takes_table_name=False,
        )

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        if not self.remote:
            _make_folder(Path(self.pattern).parent)
        return ()

    def into(self, staging: str, schema: Schema) -> SqlText:
        if staging.endswith(PIECE):
            return SqlText.of("FUNCTION ", _piece(staging, schema.columns))
        format_ = self.encoding.format
        structure = quote(sql.structure((c.name, _held(c.type, format_)) for c in schema.columns))
        tail = f", {quote(self.encoding.format)}, {structure}, {quote(self.encoding.compression)})"
        if self._access is None:
            return SqlText.of(f"FUNCTION file({quote(staging)}{tail}")
        bucket, _, key = staging.removeprefix("s3://").partition("/")
        url = s3_access.base_url(self._access, bucket) + uri.encode(key)
        return SqlText.of(f"FUNCTION s3({quote(url)}", *s3_access.signature(self._keys), tail)

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        """Return the final name for attempt "" and in buckets, else a hidden one beside it."""
        width = len(str(self.files - 1))
        final = self.pattern.replace(NUMBER, f"{number:0{width}}")
        if self.remote or not attempt_id:
            return final
        path = Path(final)
        return str(path.with_name(f".{path.name}.{attempt_id}"))

    def scratch(self, name: str, ledger: Path) -> Scratch:
        found = copy.copy(self)
        found.ledger_path = ledger
        if self.remote:
            folder, _, file = self.pattern.rpartition("/")
            found.text = found.pattern = f"{folder}/{name}/{file}"
            return Scratch(found)
        own = scratch_folder(Path(self.pattern), name)
        found.text = found.pattern = str(own / Path(self.pattern).name)
        return Scratch(found, own)


_TYPE = regex(r"\b(UUID|JSON|Time64\(\d\)|Time64|Time)(?=[,)]|$)")
# What the engine (26.9) refuses to write: it becomes text, at any depth.
_AS_TEXT = {"ORC": ("UUID", "JSON", "Time"), "Parquet": ("Time",), "Avro": ("JSON", "Time")}


def _held(type_: str, format_: str) -> str:
    """Return the type that values of a column have in a file of a format."""
    lacks = _AS_TEXT.get(format_, ())
    return _TYPE.sub(lambda f: "String" if f[1].startswith(lacks) and lacks else f[1], type_)


def reading(into: SqlText) -> SqlText:
    """Return the table function that reads what an INSERT into :meth:`Export.into` has written."""
    first, *rest = into.parts
    return SqlText.of(str(first).removeprefix("FUNCTION "), *rest)


def read_piece(path: str, columns: Sequence[Column]) -> SqlText:
    """Return the table function that reads a piece; "" is one without rows."""
    if not path:
        structure = sql.structure((c.name, c.type) for c in columns)
        return SqlText.of(f"null({quote(structure)})")
    return _piece(path, columns)


def _piece(path: str, columns: Sequence[Column]) -> SqlText:
    structure = sql.structure((c.name, c.type) for c in columns)
    return SqlText.of(f"file({quote(path)}, 'Native', {quote(structure)}, 'lz4')")


def open_export(text: str, table: str, options: Options, password: Secret | None) -> Export:
    """Return the target of files under a path or an s3:// URL."""
    return Export(text.removeprefix("file://"), state_ledger(), options)


def _make_folder(folder: Path) -> None:
    try:
        disk.make_folder(folder)
    except OSError as error:
        raise TargetError(
            f"cannot make the folder {folder}: {error.strerror}",
            hint="Give a place that you may write to with --to.",
        ) from None
