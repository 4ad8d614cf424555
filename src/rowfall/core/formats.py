"""Formats and compressions in one table: names, extensions, kinds, first bytes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from rowfall.core import charsets, engine_formats
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.model import Dialect, Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.patterns import regex


@dataclass(frozen=True, slots=True)
class Format:
    """One format the engine reads.

    Attributes:
        name: the engine's name.
        kind: see :class:`rowfall.core.model.Kind`.
        extensions: lower case, with the dot.
        aliases: other names users type, lower case.
        seekable: the reader needs the whole file (a footer, or no way to resume a stream).
    """

    name: str
    kind: Kind
    extensions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    seekable: bool = False


FORMATS = (
    Format("CSV", Kind.TEXT, (".csv", ".psv", ".tbl")),
    Format("CSVWithNames", Kind.TEXT),
    Format("TSV", Kind.TEXT, (".tsv", ".tab"), ("tabseparated", "tab")),
    Format("TSVWithNames", Kind.TEXT, (), ("tabseparatedwithnames",)),
    Format(
        "JSONEachRow",
        Kind.JSON,
        (".json", ".ndjson", ".jsonl", ".geojsonl", ".jsonlines"),
        ("ndjson", "jsonl", "jsonlines", "json"),
    ),
    Format("Parquet", Kind.TYPED, (".parquet", ".pq"), (), seekable=True),
    Format("ORC", Kind.TYPED, (".orc",), (), seekable=True),
    Format("Arrow", Kind.TYPED, (".arrow", ".feather"), ("feather",), seekable=True),
    Format("Avro", Kind.TYPED, (".avro",), (), seekable=True),
    Format("Native", Kind.TYPED, (".native",), (), seekable=True),
    *(
        Format(f.name, Kind.TYPED, f.extensions, f.aliases, seekable=True)
        for f in engine_formats.ENGINE_FORMATS
    ),
)

COMPRESSIONS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
    ".xz": "xz",
    ".bz2": "bz2",
}
ARROW = frozenset({"Arrow", "ArrowStream"})
LAKES = frozenset({"Iceberg", "Delta"})
"""Kinds of tables, named like formats: their source reads their files, which are Parquet."""
AUTO = "auto"
"""The engine tells the compression of each file by its extension (mixed listings)."""

_COMPRESSION_NAMES = {"none": "none", "gz": "gzip", "zst": "zstd", "bzip2": "bz2", "lzma": "xz"} | {
    name: name for name in COMPRESSIONS.values()
}
# `json` in lower case has always been one object a line; the document of that name is `JSON`.
LINES = {"nginx": "combined", "apache": "combined", "logfmt": "logfmt"}
"""Formats whose lines are rewritten to CSV, by the names that ``--format`` takes."""
_BY_NAME = {n: f for f in reversed(FORMATS) for n in (f.name.lower(), *f.aliases)}
_BY_NAME |= dict.fromkeys(LINES, _BY_NAME["csv"])
_BY_EXACT_NAME = {f.name: f for f in FORMATS}
_BY_EXTENSION = {extension: f for f in FORMATS for extension in f.extensions}
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xfd7zXZ\x00", "xz"),
    *((b"BZh%d1AY&SY" % level, "bz2") for level in range(1, 10)),
    *((b"BZh%d\x17rE8P\x90" % level, "bz2") for level in range(1, 10)),  # of nothing
)
_FORMAT_MAGIC = (
    (b"PAR1", "Parquet"),
    (b"ORC", "ORC"),
    (b"Obj\x01", "Avro"),
    (b"ARROW1", "Arrow"),
)
_SHOWN = 5


def find(name: str) -> Format:
    """Return the format called ``name`` in any case, or by an alias.

    ``JSON`` in capitals is a document with ``meta`` and ``data``; in any other case it is one
    object a line.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    found = _BY_EXACT_NAME.get(name) or _BY_NAME.get(name.lower())
    if found is not None:
        return found
    import difflib  # 2 ms that others save

    near = difflib.get_close_matches(name.lower(), _BY_NAME, 1)
    guess = f"Did you mean {_BY_NAME[near[0]].name}? " if near else ""
    known = ", ".join(f.name for f in FORMATS if not engine_formats.is_engine_only(f.name))
    more = len(engine_formats.ENGINE_FORMATS)
    raise UsageError(
        f"{name!r} is not a known format",
        hint=f"{guess}Formats: {known}, and {more} of the engine: docs/reference/formats.md.",
    )


def find_compression(name: str) -> str:
    """Return the engine's name of a compression.

    Raises:
        UsageError: it is not known.
    """
    found = _COMPRESSION_NAMES.get(name.lower())
    if found is None:
        known = ", ".join(["none", *dict.fromkeys(COMPRESSIONS.values())])
        raise UsageError(f"{name!r} is not a known compression", hint=f"Compressions: {known}.")
    return found


def by_name(file: str) -> tuple[Format | None, str]:
    """Return format (None: the extension says nothing) and compression by a file name."""
    stem = file[file.rfind("/") + 1 :].lower()
    dot = stem.rfind(".")
    compression = COMPRESSIONS.get(stem[dot:], "none") if dot >= 0 else "none"
    if compression != "none":
        stem = stem[:dot]
        dot = stem.rfind(".")
    return (_BY_EXTENSION.get(stem[dot:]) if dot >= 0 else None), compression


def is_data(file: str) -> bool:
    """Tell whether a folder's file is loaded: its extension is one of the table."""
    return by_name(file)[0] is not None


def detect(names: Iterable[str], options: Options) -> Encoding:
    """Return the encoding of a listing: by extension, or as the options say.

    A bare ``.csv`` is ``CSV``: whether it has a header is found out by inference. Files that
    differ in compression only are fine: the engine then goes by each extension (``auto``).

    Raises:
        UsageError: formats are mixed or unknown, or an option names an unknown one.
    """
    format_ = find(options.format) if options.format else None
    packed = find_compression(options.compression) if options.compression else None
    if format_ is None or packed is None:
        kinds, compressions = _count_formats(names, format_)
        format_ = format_ or kinds
        packed = packed or (compressions.pop() if len(compressions) == 1 else AUTO)
    found = Encoding(format_.name, packed, format_.kind, delimiter(options, format_))
    return with_dialect(found, options)


ORDERS = ("dmy", "mdy", "ymd")
"""Orders of dates that ``--dates`` may name."""


def with_dialect(encoding: Encoding, options: Options) -> Encoding:
    """Return the encoding with the charset, words for NULL, and marks that options name.

    Which columns hold such numbers and dates the sample shows.

    Raises:
        UsageError: an option makes no sense, or not for this format.
    """
    found = _with_marks(encoding, options)
    form = LINES.get((options.format or "").lower(), "widths" if options.widths else "")
    if not form:
        return found
    if found.binary or not found.is_csv or (options.widths and form != "widths"):
        given = "--widths" if options.widths else f"--format {options.format}"
        raise UsageError(
            f"{given} is for lines of text, and the source is read as "
            f"{options.format or found.format}{' of any bytes' * found.binary}",
            hint="Leave one of the options out.",
        )
    for name in ("delimiter", "quote", "escape", *(("header",) if form != "widths" else ())):
        if getattr(options, name) is not None:
            what = "lines of fixed widths" if form == "widths" else f"{options.format} logs"
            raise UsageError(f"--{name} is for CSV, and {what} have none", hint="Leave it out.")
    dialect = replace(found.dialect or Dialect(), lines=(form, *_widths(options.widths)))
    return replace(found, dialect=dialect, delimiter=",")


def _widths(text: str | None) -> tuple[str, ...]:
    """Return the widths of ``--widths``.

    Raises:
        UsageError: one is no number above 0.
    """
    widths = tuple(word.strip() for word in (text or "").split(",")) if text else ()
    if not all(word.isdigit() and int(word) for word in widths):
        raise UsageError(
            f"--widths {text} are no widths",
            hint="Give the characters of each column, as in --widths 10,5,8.",
        )
    return widths


def _with_marks(encoding: Encoding, options: Options) -> Encoding:
    """Return the encoding with what options say of its characters, see :func:`with_dialect`."""
    charset = charsets.find(options.encoding) if options.encoding else charsets.UTF_8
    values = [
        flag for flag, value in (
            ("--null", options.null), ("--decimal", options.decimal),
            ("--thousands", options.thousands), ("--dates", options.dates),
        ) if value is not None
    ]  # fmt: skip
    # Of formats with types it makes columns of a new lake table that take any bytes.
    binary = charsets.names_binary(options.encoding)
    if options.encoding and encoding.kind not in (Kind.TEXT, Kind.JSON) and not binary:
        raise UsageError(
            f"--encoding is for text, but the source is {encoding.format}", hint="Leave it out."
        )
    if values and encoding.kind is not Kind.TEXT:
        raise UsageError(
            f"{values[0]} is for CSV and TSV, but the source is {encoding.format}",
            hint="Leave it out, or name the format with --format CSV.",
        )
    if charset == charsets.BINARY:
        if values:
            raise UsageError(
                f"{values[0]} is for text, and --encoding binary for what is none",
                hint="Name the character encoding of the text, or leave out --encoding.",
            )
        return replace(encoding, binary=True)
    if charset == charsets.UTF_8 and not values:
        return encoding
    dialect = replace(encoding.dialect or Dialect(), charset=charset)
    return _rewritten(encoding, _marks(dialect, options) if values else dialect, bool(values))


# Blanks of two kinds that no eye tells from others, and that are shown escaped.
_NAMED_MARKS = {"blank": " ", "nbsp": "\u00a0", "thin": "\u202f"}


def spelled_mark(mark: str) -> str:
    """Return a mark between thousands as ``--thousands`` takes it."""
    return next((name for name, own in _NAMED_MARKS.items() if own == mark), mark)


def _marks(dialect: Dialect, options: Options) -> Dialect:
    """Return the dialect with the marks and words that options name."""
    decimal = options.decimal or ("," if options.thousands == "." else ".")
    thousands = _NAMED_MARKS.get(options.thousands or "", options.thousands or "")
    for flag, mark in (("--decimal", decimal), ("--thousands", thousands or "'")):
        if len(mark) != 1 or mark.isalnum() or mark in '+-"\r\n':
            raise UsageError(
                f"{flag} {mark!r} is not a mark in numbers", hint="Give one character."
            )
    if decimal == thousands or not decimal.isascii():
        raise UsageError(
            f"--decimal {decimal} and --thousands {thousands} contradict each other",
            hint="Numbers like 1.234,56 have --decimal , --thousands .",
        )
    if options.dates not in (None, *ORDERS):
        raise UsageError(
            f"--dates {options.dates} is no order of day, month and year",
            hint="31.12.2023 is dmy, 12/31/2023 mdy, 2023/12/31 ymd.",
        )
    nulls = tuple(word for word in (options.null or "").split(",") if word)
    # Whichever column shows such dates.
    dates = ((-1, options.dates),) if options.dates else ()
    return replace(dialect, nulls=nulls, decimal=decimal, thousands=thousands, dates=dates)


def _rewritten(encoding: Encoding, dialect: Dialect, values: bool) -> Encoding:
    """Return the encoding of text that is rewritten to plain CSV, or in its charset only."""
    if encoding.is_csv:
        dialect = replace(dialect, delimiter=encoding.delimiter)
        return replace(encoding, delimiter=",", dialect=dialect)
    if encoding.is_tsv and values:
        dialect = replace(dialect, delimiter="\t", quote="", escape="\\")
        return replace(encoding, format=encoding.format.replace("TSV", "CSV"), dialect=dialect)
    return replace(encoding, dialect=dialect)


def characters(text: str) -> str:
    """Return a delimiter as the user means it: ``\\t`` and ``tab`` are a tab.

    Raises:
        UsageError: it cannot be one.
    """
    code = _HEX_CODE.fullmatch(text)
    given = chr(int(code[1], 16)) if code else _DELIMITERS.get(text.lower(), text)
    if not given or set(given) & set('\r\n"'):
        raise UsageError(
            f"{text!r} cannot be a delimiter",
            hint="Give one character or several, e.g. ';', '||', tab or blank.",
        )
    return given


_DELIMITERS = {"\\t": "\t", "tab": "\t", "blank": " ", "space": " ", "comma": ",",
               "semicolon": ";", "pipe": "|"}  # fmt: skip
_HEX_CODE = regex(r"\\x([0-7][0-9a-fA-F])")


def delimiter(options: Options, format_: Format) -> str:
    """Return the field delimiter of CSV; a comma where the sample has to show it.

    Raises:
        UsageError: it cannot be one, or is given for another format.
    """
    for name in _OF_TEXT:
        if format_.kind is not Kind.TEXT and getattr(options, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is for CSV, but the source is {format_.name}",
                hint="Leave it out, or name the format with --format CSV.",
            )
    return "," if options.delimiter is None else characters(options.delimiter)


_OF_TEXT = (
    "delimiter", "header", "columns", "quote", "escape", "comment", "skip_lines", "blanks",
    "short_rows", "blank_lines",
)  # fmt: skip


def describe(encoding: Encoding) -> str:
    """Return a line about the format of a source: ``csv, delimiter ;, header yes, utf-8``."""
    packed = "" if encoding.compression == "none" else f", {encoding.compression}"
    if encoding.kind is not Kind.TEXT:
        return f"{encoding.format}{packed}"
    given, words = encoding.dialect, []
    mark = given.delimiter if given else encoding.delimiter
    if encoding.is_csv:
        words.append(f"delimiter {spelled(mark)}")
    if given and given.lines:
        form, *more = given.lines
        what = "access log" if form in ("common", "combined") else form
        return f"{what} ({', '.join(more) or form}), {given.charset}{packed}"
    words.append(f"header {'yes' if encoding.has_header else 'no'}")
    if given:
        words += [f"quote {given.quote or 'none'}"] if given.quote != '"' else []
        words += ["escape \\"] if given.escape == "\\" else []
        words += [f"comment {given.comment}"] if given.comment else []
        words += [f"lines skipped {given.skip_lines}"] if given.skip_lines else []
        words += ["blanks trimmed"] if given.trim else []
        words += ["short rows filled"] if given.fill else []
    words.append(given.charset if given else encoding.charset or charsets.UTF_8)
    return f"{'csv' if encoding.is_csv else 'tsv'}, {', '.join(words)}{packed}"


def spelled(mark: str) -> str:
    """Return a delimiter as people write it."""
    if mark in _SPELLED:
        return _SPELLED[mark]
    return mark if mark.isprintable() else repr(mark)[1:-1]


_SPELLED = {",": "comma", "\t": "tab", " ": "blank"}


def sniff(head: bytes) -> tuple[str | None, str]:
    """Return format (if it has a signature) and compression of a stream by its first bytes."""
    for magic, name in _FORMAT_MAGIC:
        # A text may begin with ORCID or PAR10: behind the signature of a file there is no text.
        if head.startswith(magic) and not _is_text(head[len(magic) : len(magic) + 16]):
            return name, "none"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return None, name
    return None, "none"


def is_cut(head: bytes, compression: str) -> bool:
    """Tell whether a stream ends inside the signature of this compression."""
    return bool(head) and any(
        name == compression and len(head) < len(magic) and magic.startswith(head)
        for magic, name in _MAGIC
    )


def _is_text(data: bytes) -> bool:
    """Tell whether bytes hold no control characters but those of text."""
    return not any(byte < 32 and byte not in b"\t\n\r" for byte in data) and bool(data)


_FIRST_OBJECT = (b'{"', b"{}", b"{ ", b"{\n", b"{\r", b"{\t")  # of an array of JSON


def guess_text(head: bytes) -> str:
    """Return the format of uncompressed text by its first line: JSONEachRow, TSV or CSV."""
    text = head.removeprefix(charsets.BOM.encode()).lstrip()
    if text[:1] == b"{" or (text[:1] == b"[" and text[1:].lstrip()[:2] in _FIRST_OBJECT):
        return "JSONEachRow"
    line = text.partition(b"\n")[0]
    return "TSV" if b"\t" in line and b"," not in line else "CSV"


def _count_formats(names: Iterable[str], forced: Format | None) -> tuple[Format, set[str]]:
    """Return the one format of all names and every compression met."""
    counts: Counter[Format | None] = Counter()
    examples: dict[Format | None, list[str]] = {}
    compressions: set[str] = set()
    for name in names:
        found, packed = by_name(name)
        compressions.add(packed)
        counts[found] += 1
        shown = examples.setdefault(found, [])
        if len(shown) < _SHOWN:
            shown.append(name)
    if forced is not None:
        return forced, compressions or {"none"}
    if len(counts) != 1:
        raise _mixed(counts, examples)
    only = next(iter(counts))
    if only is None:
        raise UsageError(
            f"{examples[None][0]} does not end with the extension of a known format",
            hint="Name it with --format, e.g. --format CSV.",
        )
    return only, compressions


def _mixed(counts: Counter[Format | None], examples: dict[Format | None, list[str]]) -> UsageError:
    """Return the error that lists the names of other formats than most."""
    if not counts:
        return UsageError("the source names no file whose format could be found")
    main = counts.most_common(1)[0][0]
    odd = [name for found, names in examples.items() if found is not main for name in names]
    more = counts.total() - counts[main]
    listed = ", ".join(odd[:_SHOWN]) + (f" and {more - _SHOWN} more" if more > _SHOWN else "")
    name = main.name if main else "without a known extension"
    return UsageError(
        f"the source mixes formats: {counts[main]} of {counts.total()} files are {name}, "
        f"these are not: {listed}",
        hint="Load each format on its own, or name the format of all with --format.",
    )
