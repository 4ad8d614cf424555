"""Renders SQL: identifiers, literals, table functions, statements.

Everything that comes from outside passes through :func:`name` or :func:`literal`, so a file
called ``'; DROP TABLE x`` is a file name and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rowfall.core.errors import UsageError
from rowfall.core.model import Column, Schema
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.core.type_names import NestedForms

_SETTING_NAME = regex(r"[a-z][a-z0-9_]*\Z")
_OF_SYSTEM = frozenset(("system", "information_schema", "INFORMATION_SCHEMA"))
CHANGED = "rowfall: the object changed while it was read"
"""Text of the error that a condition of a source raises in the engine: another version was met."""


def name(identifier: str) -> str:
    """Return a backquoted identifier.

    Raises:
        UsageError: it is empty or holds a NUL byte.
    """
    if not identifier or "\0" in identifier:
        raise UsageError(f"{identifier!r} is not a name for a table or column")
    return "`" + identifier.replace("\\", "\\\\").replace("`", "\\`") + "`"


NESTED = NestedForms("Array(%s)", "Map(%s, %s)", "Tuple(%s)", name)
"""How the engine writes nested types."""


def bare_name(identifier: str) -> str:
    """Return an identifier as people write it: backquoted only where it has to be."""
    return identifier if identifier.isascii() and identifier.isidentifier() else name(identifier)


def qualified(database: str, table: str) -> str:
    """Return ``database.table``, both backquoted."""
    return f"{name(database)}.{name(table)}"


class DefinitionQuestion(str):
    """A question about definitions of tables: its answer holds until a statement alters them.

    Attributes:
        names: of the tables that it is about; None where it asks for names.
        users: it is about no tables of the system, which are there in every folder.
    """

    names: frozenset[str] | None
    users: bool

    @classmethod
    def of(
        cls, text: str, names: frozenset[str] | None, *, users: bool = True
    ) -> DefinitionQuestion:
        question = cls(text)
        question.names, question.users = names, users
        return question


_ABOUT = (
    "SELECT database, name, toString(uuid), engine, engine_full, storage_policy, "
    "partition_key != '', create_table_query, dependencies_database, dependencies_table, "
    "as_select, arrayElement(data_paths, 1) FROM system.tables WHERE"
)


def tables_called(prefix: str) -> DefinitionQuestion:
    """Return the question for the names of all tables that begin with ``prefix``."""
    return DefinitionQuestion.of(
        f"SELECT DISTINCT name FROM system.tables WHERE startsWith(name, {quote(prefix)})", None
    )


def about_tables(databases: Iterable[str], tables: Iterable[str]) -> DefinitionQuestion:
    """Return the question how tables and views are defined, of whatever engine they are.

    One row for each: database, name, uuid, engine, engine with all that follows, storage policy,
    whether it has a partition key, definition, databases and names of views that read from it,
    SELECT of a view, and folder of its parts.
    """
    names, there = frozenset(tables), frozenset(databases)
    # Each condition by itself: the server then opens these tables only, not all that it has.
    return DefinitionQuestion.of(
        f"{_ABOUT} database IN ({quoted_list(sorted(there))}) AND "
        f"name IN ({quoted_list(sorted(names))})",
        names, users=not there & _OF_SYSTEM,
    )  # fmt: skip


def about_tables_beside(database: str, tables: Iterable[str], prefix: str) -> str:
    """Return the question of :func:`about_tables`, also of all that begin with ``prefix``."""
    names = quoted_list(sorted(tables))
    return (
        f"{_ABOUT} database = {quote(database)} AND "
        f"(name IN ({names}) OR startsWith(name, {quote(prefix)}))"
    )


def table_is(database: str, table: str) -> str:
    """Return the condition that picks one table in most of the system's tables."""
    return f"database = {quote(database)} AND table = {quote(table)}"


def literal(value: str | int | float | bool) -> str:
    """Return a literal; strings are single-quoted with ClickHouse's backslash escapes."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int | float):
        return repr(value)
    return quote(value)


def structure(columns: Iterable[tuple[str, str]]) -> str:
    """Return the column list of a table function, unquoted: ``"`a` UInt8, `b` String"``."""
    return ", ".join(f"{name(n)} {t}" for n, t in columns)


def columns_of(structure: str) -> list[tuple[str, str]]:
    """Return the names and types of what :func:`structure` wrote."""
    found: list[tuple[str, list[str]]] = []
    depth, named = 0, False
    for word in tokens(structure):
        depth += (word == "(") - (word == ")")
        if word == "," and not depth:
            named = False
        elif named:
            found[-1][1].append(word)
        elif word.strip():
            found.append((identifier(word) or word, []))
            named = True
    return [(column, "".join(words).strip()) for column, words in found]


def settings_clause(settings: Mapping[str, str | int | float]) -> str:
    """Return `` SETTINGS a = 1, b = 'x'`` with checked names, or nothing."""
    if not settings:
        return ""
    items = []
    for key, value in settings.items():
        if not _SETTING_NAME.match(key):
            raise UsageError(
                f"{key!r} is not the name of an engine setting",
                hint="Setting names are lower-case words joined by underscores.",
            )
        items.append(f"{key} = {literal(value)}")
    return " SETTINGS " + ", ".join(items)


def projection(columns: Iterable[Column]) -> str:
    """Return the SELECT list: each column's checked expression under its target name.

    The alias differs from the source name by position only, so ``prefer_column_name_to_alias``
    is set wherever this is used.
    """
    return ", ".join(
        f"{c.expression or name(c.source or c.name)} AS {name(c.name)}" for c in columns
    )


def create_table(
    database: str,
    table: str,
    schema: Schema,
    *,
    if_not_exists: bool = False,
    uuid: str = "",
    cluster: str = "",
) -> str:
    """Return the CREATE TABLE statement that a plan prints and runs, one column a line."""
    width = max(len(name(c.name)) for c in schema.columns)
    lines = ",\n".join(f"    {name(c.name):<{width}} {c.type}" for c in schema.columns)
    partition = f"\nPARTITION BY {schema.layout.partition_by}" if schema.layout.partition_by else ""
    order = f"\nORDER BY {schema.layout.order_by}" if "MergeTree" in schema.layout.engine else ""
    head = create_head(database, table, if_not_exists=if_not_exists, uuid=uuid, cluster=cluster)
    more = "".join(f"\n{clause}" for clause in schema.layout.clauses)
    return f"{head}\n(\n{lines}\n)\nENGINE = {schema.layout.engine}{partition}{order}{more}"


def create_head(
    database: str, table: str, *, if_not_exists: bool = True, uuid: str = "", cluster: str = ""
) -> str:
    """Return the text before the columns: ``CREATE TABLE d.t UUID '...' ON CLUSTER c``."""
    exists = "IF NOT EXISTS " if if_not_exists else ""
    own = f" UUID {quote(uuid)}" if uuid else ""
    return f"CREATE TABLE {exists}{qualified(database, table)}{own}{on_cluster(cluster)}"


def create_database(database: str, cluster: str = "") -> str:
    """Return ``CREATE DATABASE IF NOT EXISTS``, on all nodes of a cluster."""
    return f"CREATE DATABASE IF NOT EXISTS {name(database)}{on_cluster(cluster)}"


def create_distributed(
    at: tuple[str, str], over: tuple[str, str], cluster: str, sharding_key: str, *, everywhere: bool
) -> str:
    """Return the statement for a Distributed table with the columns of its local tables.

    Args:
        at, over: database and table; ``over`` has to exist where this runs.
        cluster: whose shards it reads; ``everywhere`` makes it on all nodes of that one.
    """
    head = create_head(*at, cluster=cluster if everywhere else "")
    arguments = ", ".join((*map(quote, (cluster, *over)), sharding_key))
    return f"{head} AS {qualified(*over)}\nENGINE = Distributed({arguments})"


def on_cluster(cluster: str) -> str:
    """Return `` ON CLUSTER c``, or nothing."""
    return f" ON CLUSTER {name(cluster)}" if cluster else ""


def select(columns: Iterable[Column], relation: SqlText) -> SqlText:
    """Return ``SELECT <projection> FROM <relation>``."""
    return SqlText.of(f"SELECT {projection(columns)}\nFROM ", relation)


def only(rows: SqlText, columns: Iterable[Column], condition: str) -> SqlText:
    """Return a SELECT of the rows that fulfil a condition on the table's columns, in its types."""
    columns = tuple(columns)
    names = ", ".join(name(c.name) for c in columns)
    typed = ", ".join(f"CAST({name(c.name)}, {quote(c.type)}) AS {name(c.name)}" for c in columns)
    return SqlText.of(
        f"SELECT {names}\nFROM (SELECT {typed} FROM (", rows, f"))\nWHERE {condition}"
    )


def insert_select(into: SqlText, columns: Iterable[Column], relation: SqlText) -> SqlText:
    """Return ``INSERT INTO <into> (names) SELECT <projection> FROM <relation>``."""
    columns = tuple(columns)
    return insert(into, columns, select(columns, relation))


def insert(into: SqlText, columns: Iterable[Column], rows: SqlText) -> SqlText:
    """Return ``INSERT INTO <into> (names) <rows>``."""
    names = ", ".join(name(c.name) for c in columns)
    return SqlText.of("INSERT INTO ", into, f" ({names})\n", rows)


def checksum(columns: Sequence[Column]) -> str:
    """Return SQL for (rows, sum of a hash over ``columns``).

    The sum wraps at 2^64 on both sides alike; duplicates change it, order does not.
    """
    return f"count(), sum({row_hash(columns)})"


def row_hash(columns: Sequence[Column]) -> str:
    """Return SQL for a 64-bit hash of one row.

    Every version hashes plain values alike; NULLs and nested values are spelled out, because a
    NULL would make the whole hash NULL, and 24.10 refuses tuples that hold one.
    """
    values = []
    for column in columns:
        x = name(column.name)
        if column.type.startswith(("JSON", "Nullable(JSON")):
            # The engine's own hash of JSON differs with the paths that a part happens to have.
            values += [f"isNull({x})", f"ifNull(toString({x}), '')"]
        elif column.type.startswith(("Nullable(", "LowCardinality(Nullable(")):
            value = f"ifNull({x}, defaultValueOfArgumentType(assumeNotNull({x})))"
            values += [f"isNull({x})", _one_nan(value, column.type)]
        elif "(" in column.type and column.type.startswith(("Array", "Map", "Tuple", "Nested")):
            values.append(f"toString({x})")
        else:
            values.append(_one_nan(x, column.type))
    return f"cityHash64({', '.join(values)})"


def _one_nan(x: str, type_: str) -> str:
    """Return SQL for a value; there are many NaNs by their bits, and text knows one."""
    bare = type_.removeprefix("Nullable(").removesuffix(")")
    return f"if(isNaN({x}), CAST('nan', '{bare}'), {x})" if bare in ("Float32", "Float64") else x


# --- SQL as tokens, of text that the engine has formatted ----------------------------------------

_OPEN, _CLOSE, _QUOTES = frozenset("([{"), frozenset(")]}"), frozenset("'`\"")
_TOKEN = regex(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | '(?:[^'\\]|\\.|'')*' | `(?:[^`\\]|\\.|``)*` | "(?:[^"\\]|\\.|"")*"
    | [A-Za-z_]\w* | \d\w* | .""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def tokens(text: str) -> list[str]:
    """Split SQL into words, names, literals, signs, blanks and comments; joined they are the text.

    A quote that nothing ends is a token by itself.
    """
    return _TOKEN.findall(text)


def identifier(word: str) -> str | None:
    """Return the name that a token stands for; None for what is not a name."""
    if word[:1] in ("`", '"'):
        inner = word[1:-1].replace(word[0] * 2, word[0])
        return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)
    return word if re.match(r"[A-Za-z_]", word) else None


def closing(words: Sequence[str], start: int) -> int:
    """Return the position at which the bracket that opens at ``start`` closes.

    Raises:
        ValueError: it does not.
    """
    for i, depth in _depths(words, start):
        if words[i] in _QUOTES:
            break
        if not depth:
            return i
    raise ValueError(f"a bracket without an end: {''.join(words[start:])[:80]!r}")


def items(words: Sequence[str]) -> list[str]:
    """Return the items of a list that commas separate."""
    found, begin = [], 0
    for i, depth in _depths(words):
        if words[i] == "," and not depth:
            found.append("".join(words[begin:i]).strip())
            begin = i + 1
    found.append("".join(words[begin:]).strip())
    return [item for item in found if item]


def _depths(words: Sequence[str], start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield each position with the number of brackets that are open after it."""
    depth = 0
    for i in range(start, len(words)):
        depth += (words[i] in _OPEN) - (words[i] in _CLOSE)
        yield i, depth


def find_last(words: Sequence[str], word: str) -> int:
    """Return the last position of a word outside all brackets; the length where there is none."""
    places = [i for i, depth in _depths(words) if words[i] == word and not depth]
    return places[-1] if places else len(words)
