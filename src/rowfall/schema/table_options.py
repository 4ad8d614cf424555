"""Options that describe a new table: ``--schema``, ``--schema-file``, ``--type`` and the layout.

Plain columns are known here; all else the engine itself parses, so every type that it knows is
understood.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, UsageError, headline
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import arguments, without_nested
from rowfall.schema.column_facts import RunSelect

_CLAUSE = regex(r"(ENGINE = |PARTITION BY |ORDER BY |PRIMARY KEY |SETTINGS |TTL |SAMPLE BY )")
_NOT_COLUMNS = ("INDEX", "PROJECTION", "CONSTRAINT", "PRIMARY KEY")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The wanted columns and layout of a new table.

    Attributes:
        columns: (name, type) of all of them, () where they are to be inferred.
        types: of single columns, the others stay inferred.
        engine, order_by, partition_by: as SQL, "" where they are not given.
        json_type: the target has the type JSON; ``null_tuples``: Nullable(Tuple); ``time_types``:
            Time and Time64.
        times: days and points in time that the target holds.
        clauses: more of them, as they stand behind ORDER BY.
    """

    columns: tuple[tuple[str, str], ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    order_by: str = ""
    partition_by: str = ""
    json_type: bool = True
    null_tuples: bool = True
    time_types: bool = True
    times: TimeRange = WIDE
    clauses: tuple[str, ...] = ()


def read_table_options(options: Options, ask: RunSelect) -> TableOptions:
    """Read the options that describe the table.

    Raises:
        UsageError: they contradict each other or make no sense to the engine.
    """
    text = options.schema or ""
    if options.schema_file:
        if text:
            raise UsageError("--schema and --schema-file both name the columns")
        text = read_text(options.schema_file)
    asked = parse_ddl(text, ask) if text.strip() else TableOptions()
    types = {}
    for name, type_ in named_types(options):
        # The engine makes columns of their own of the elements of a Nested; here it is one.
        found = _describe(f"{sql.name(name)} {without_nested(type_)}", ask)
        if len(found) != 1:
            raise UsageError(
                f"--type {name} {type_!r} is more than one type",
                hint="Write --type once for each column.",
            )
        types[name] = found[0][1]
    _check_brackets("--order-by", options.order_by)
    _check_brackets("--partition-by", options.partition_by)
    return replace(
        asked,
        # A hint with --type is pasted behind the --schema of the command that has failed.
        columns=tuple((name, types.get(name, type_)) for name, type_ in asked.columns),
        types=types,
        engine=options.engine or asked.engine,
        order_by=_key(options.order_by) or asked.order_by,
        partition_by=options.partition_by or asked.partition_by,
    )


def named_types(options: Options) -> Iterator[tuple[str, str]]:
    """Give name and type of each ``--type``, the type as it was written.

    Raises:
        UsageError: one does not consist of a name and a type.
    """
    for item in options.type:
        name, _, type_ = item.strip().partition(" ")
        if quoted := _QUOTED.match(item.strip()):
            name, type_ = sql.identifier(quoted[0]) or "", item.strip()[quoted.end() :]
        if not type_.strip():
            # Other tools write name:Type or name=Type.
            one, _, other = item.replace("=", ":", 1).partition(":")
            meant = f"{one.strip()} {other.strip()}" if other.strip() else "name Type"
            raise UsageError(
                f"--type {item!r} does not name a column and its type",
                hint=f"Write --type {shlex.quote(meant)}.",
            )
        yield name, type_.strip()


_QUOTED = regex(r"`(?:[^`\\]|\\.|``)*`", re.DOTALL)


def _check_brackets(flag: str, text: str | None) -> None:
    """Check that a key closes what it opens: nothing reads it otherwise.

    Raises:
        UsageError: it does not.
    """
    words = sql.tokens(text or "")
    if words.count("(") != words.count(")"):
        raise UsageError(
            f"{flag} {text} opens {words.count('(')} and closes {words.count(')')} brackets",
            hint="It is an expression over the columns of the table.",
        )


def _key(text: str | None) -> str:
    """Return a sorting key, in parentheses where it needs them: ``a, b`` alone is not a tuple."""
    if text and "," in text and not text.strip().startswith(("(", "tuple(")):
        return f"({text})"
    return text or ""


def parse_ddl(text: str, ask: RunSelect) -> TableOptions:
    """Parse a column list, or a CREATE TABLE, in the form that the engine gives it.

    Raises:
        UsageError: neither; or it has what rowfall does not carry over (codecs, indexes, ...).
    """
    if not re.match(r"\s*(--.*\n\s*)*CREATE\s", text, re.I):
        return TableOptions(_describe(text.strip().rstrip(";,"), ask))
    try:
        ((pretty,),) = ask(SqlText.of(f"SELECT formatQuery({quote(text.strip().rstrip(';'))})"), {})
    except RowfallError as error:
        raise UsageError(f"the schema cannot be parsed: {headline(error.message)}") from error
    _head, _, rest = str(pretty).partition("\n(\n")
    body, _, tail = rest.partition("\n)")
    if not body:
        hint = "Write CREATE TABLE t (a Type, ...)."
        raise UsageError("the schema has no column list", hint=hint)
    lines = [line.strip().rstrip(",") for line in body.split("\n")]
    extra = [line for line in lines if line.startswith(_NOT_COLUMNS)]
    parts = _CLAUSE.split(" ".join(tail.split()))
    clauses = {k.strip(" ="): v.strip() for k, v in zip(parts[1::2], parts[2::2], strict=True)}
    if clauses.get("SETTINGS") == "index_granularity = 8192":
        del clauses["SETTINGS"]  # the default, which SHOW CREATE TABLE always adds
    extra += [c for c in ("TTL", "SAMPLE BY") if c in clauses]
    if extra:
        raise UsageError(
            f"the schema holds what a load does not create: {'; '.join(extra)[:200]}",
            hint="Create the table first with rowfall query, then load into it.",
        )
    return TableOptions(
        _describe(", ".join(lines), ask),
        engine=clauses.get("ENGINE", ""),
        order_by=clauses.get("ORDER BY", ""),
        partition_by=clauses.get("PARTITION BY", ""),
        clauses=tuple(f"{c} {clauses[c]}" for c in ("PRIMARY KEY", "SETTINGS") if c in clauses),
    )


def _describe(columns: str, ask: RunSelect) -> tuple[tuple[str, str], ...]:
    """Return (name, type) of a column list as the engine reads it."""
    hint = "Write 'name Type, name Type'; quote odd names in backticks."
    if plain := plain_columns(columns):
        return plain
    try:
        # On one line each, as the catalogue has the types of a table that is there.
        pretty = {"print_pretty_type_names": 0}
        rows = ask(SqlText.of(f"DESCRIBE TABLE null({quote(columns)})"), pretty)
    except RowfallError as error:
        cause = headline(error.message)
        text = f"the columns {columns[:80]!r} make no sense: {cause}"
        raise UsageError(text, hint=hint) from error
    if any(any(row[2:]) for row in rows):
        raise UsageError(
            "the schema holds defaults or codecs, which a load does not create",
            hint="Create the table first with rowfall query, then load into it.",
        )
    return tuple((str(row[0]), str(row[1])) for row in rows)


_FLAT = (
    r"U?Int(?:8|16|32|64|128|256)|Float32|Float64|String|Bool|Date|Date32|UUID|IPv4|IPv6|"
    r"DateTime(?:\('UTC'\))?|DateTime64\([0-9](?:, ?'UTC')?\)|FixedString\([1-9]\d{0,2}\)|"
    r"Decimal\(\d{1,2}, ?\d{1,2}\)"
)
_PLAIN_TYPE = regex(
    rf"(?:{_FLAT})|(?:Nullable|Array)\((?:{_FLAT})\)|LowCardinality\((?:Nullable\()?String\)?\)"
)
_PLAIN_COLUMN = regex(r"(?:`([^`\\]+)`|([A-Za-z_]\w*))\s+(\S.*)", re.ASCII)
_DIGITS = regex(r"Decimal\((\d+), (\d+)\)")


def plain_columns(text: str) -> tuple[tuple[str, str], ...]:
    """Return (name, type) of a column list of plain types, as the engine writes them.

    Returns () where the engine has to read it. It needs 4 ms, and 0.3 s to start.
    """
    found = []
    for part in arguments(text):
        column = _PLAIN_COLUMN.fullmatch(part.strip())
        type_ = regex(r", ?").sub(", ", column[3].strip()) if column else ""
        if column is None or not _PLAIN_TYPE.fullmatch(type_):
            return ()
        if type_.count("(") != type_.count(")") or (column[2] or "").upper() in _WORDS:
            return ()
        decimal = _DIGITS.search(type_)
        if (decimal and not int(decimal[2]) <= int(decimal[1]) <= 76) or "Decimal(0" in type_:
            return ()
        found.append((column[1] or column[2], type_))
    names = [name for name, _ in found]
    return tuple(found) if len({*names}) == len(names) else ()


_WORDS = frozenset({"INDEX", "PROJECTION", "CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE"})


def read_text(path: str) -> str:
    """Read a small text file named by the user.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema file {path}: {error}") from error
