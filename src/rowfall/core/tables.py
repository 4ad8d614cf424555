"""Many tables of one source: which ones patterns choose, their names in the target, the report.

Pure: :mod:`rowfall.sources.many` asks sources, :mod:`rowfall.run.many` loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit, UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.patterns import regex
from rowfall.core.units import counted

TABLE = "table"
"""Kind of what a pattern with wildcards takes; all else has to be named."""
TABLE_PLACE, SCHEMA_PLACE = "{table}", "{schema}"
_PLACE = regex(r"\{[^{}]*\}")
_WILD = frozenset("*?[")
# What a name cannot have where it becomes a part of a path: a slash, and a point in front, which
# hides a file.
_NO_PATH = regex(r"[/\\\0]|\A\.")
_SHOWN = 10
NOWHERE = "null:"
"""Target that keeps nothing, so that no two tables meet there."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of a source, as its catalogue lists it.

    Attributes:
        schema: or database, namespace; "" where the source has none. ``name``: of the table.
        kind: :data:`TABLE`; or what it is else: ``view``, ``foreign table``.
        parent: the full name of another table that has its rows, too; "" for none.
        rows: about; ``bytes``: as stored; None where nobody knows.
        visible: it is known by its name alone, without the schema.
    """

    schema: str
    name: str
    kind: str = TABLE
    parent: str = ""
    rows: int | None = None
    bytes: int | None = None
    visible: bool = True

    @property
    def full(self) -> str:
        """Return ``schema.name``."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


# --- choosing -------------------------------------------------------------------------------------


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a list with commas.

    Raises:
        UsageError: one is empty.
    """
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise UsageError(
            f"{text!r} has an empty pattern",
            hint="Write names or patterns with commas between them: 'public.*,sales.orders_*'.",
        )
    return found


def is_named(pattern: str) -> bool:
    """Return True for a pattern without wildcards."""
    return not _WILD & set(pattern)


def matches(pattern: str, table: FoundTable) -> bool:
    """Tell whether a pattern means a table.

    One with a dot is that of schema and name, one without is that of a name in any schema. A name
    may have dots itself.
    """
    from fnmatch import fnmatchcase  # 2 ms that all other commands save

    schema, dot, name = pattern.partition(".")
    if dot and fnmatchcase(table.schema, schema) and fnmatchcase(table.name, name):
        return True
    return (not dot or "." in table.name) and fnmatchcase(table.name, pattern)


@dataclass(frozen=True, slots=True)
class ChosenTables:
    """Tables that patterns have chosen, in the order of the catalogue; ``notes`` say what is not
    among them."""

    tables: tuple[FoundTable, ...]
    notes: tuple[str, ...] = ()


def choose(
    found: Sequence[FoundTable], patterns: Sequence[str], exclude: Sequence[str], text: str
) -> ChosenTables:
    """Return the tables that some pattern means and none of ``exclude`` does.

    What is no table is taken where a pattern names it in full. Of a table and another one that has
    its rows, too, only that other one is taken.

    Args:
        text: of the source, without secrets.

    Raises:
        UsageError: a pattern means nothing, or nothing is left.
    """
    taken, left = dict[str, FoundTable](), list[FoundTable]()
    for pattern in patterns:
        # A table may be called so itself: a?b, a[1]
        named = [table for table in found if pattern in (table.name, table.full)]
        here = named or [table for table in found if matches(pattern, table)]
        if not here:
            raise _nothing(pattern, found, text)
        for table in here:
            if named or is_named(pattern) or (table.kind == TABLE and not table.parent):
                taken[table.full] = table
            else:
                left.append(table)
    excluded = {name for name, t in taken.items() if any(matches(p, t) for p in exclude)}
    for pattern in exclude:
        if not any(matches(pattern, table) for table in found):
            raise _nothing(pattern, found, text, option="--exclude ")
    twice = {n for n, t in taken.items() if t.parent in taken and t.parent not in excluded}
    kept = [t for t in found if t.full in taken and t.full not in excluded | twice]
    others = [t for t in dict.fromkeys(left) if t.full not in taken]
    if not kept:
        raise _none_left(patterns, others, exclude, text)
    return ChosenTables(
        tuple(kept), tuple(_left_out(others, [taken[name] for name in sorted(twice)]))
    )


def _left_out(others: Sequence[FoundTable], twice: Sequence[FoundTable]) -> Iterable[str]:
    """Say what patterns mean that is not loaded."""
    kinds: dict[str, list[str]] = {}
    for table in others:
        kinds.setdefault(table.kind, []).append(table.full)
    parts = [t for t in (*others, *twice) if t.kind == TABLE]
    if parts:
        yield (
            f"{counted(len(parts), 'table')} whose rows another one has, too, as partitions do: "
            f"left out ({_some([t.full for t in parts])})"
        )
    for kind, names in kinds.items():
        if kind != TABLE:
            yield f"{counted(len(names), kind)} left out, as none is named in full: {_some(names)}"


def _nothing(
    pattern: str, found: Sequence[FoundTable], text: str, option: str = ""
) -> UsageError:  # fmt: skip
    names = [name for t in found for name in ((t.full, t.name) if "." in pattern else (t.name,))]
    shown = [table.full for table in found]
    there = f"Its tables: {_some(shown)}." if shown else "It has no tables that this user may see."
    return UsageError(
        f"{text} has no table like {option}{pattern}",
        hint=f"{did_you_mean(pattern, names)}{there}",
    )


def _none_left(
    patterns: Sequence[str], others: Sequence[FoundTable], exclude: Sequence[str], text: str
) -> UsageError:  # fmt: skip
    if others and not exclude:
        kinds = dict.fromkeys(table.kind for table in others)
        return UsageError(
            f"{text} has no tables like {', '.join(patterns)}, only other things: "
            f"{', '.join(kinds)}",
            hint=f"Name those to load in full: --tables '{others[0].full}'",
        )
    return UsageError(
        f"nothing is left to load: --exclude leaves out all that --tables {','.join(patterns)} "
        "takes",
        hint="Leave out less.",
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


# --- names in the target --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The place of one table in the target.

    Attributes:
        to: target as typed, with the names in it. ``table``: None where the target takes none.
    """

    to: str | None
    table: str | None

    @property
    def text(self) -> str:
        """Return what people know the place by."""
        return self.table or self.to or ""


def places(
    tables: Sequence[FoundTable], to: str | None, template: str | None, *, takes_name: bool
) -> list[TablePlace]:
    """Return the place of each table.

    Args:
        to: the target as typed, perhaps with ``{table}``. ``template``: of ``--table``; None for
            the name of each.
        takes_name: the target takes names of tables; otherwise its address says where rows go.

    Raises:
        UsageError: a place holder that is not known, or none where one is needed.
    """
    given = template or TABLE_PLACE
    for text, option in ((given, "--table"), (to or "", "--to")):
        for place in _PLACE.findall(text):
            known = (TABLE_PLACE, SCHEMA_PLACE) + (("{n}",) if option == "--to" else ())
            if place not in known:
                raise UsageError(
                    f"{option} {text}: {place} stands for nothing",
                    hint=f"{did_you_mean(place, known)}There are {' and '.join(known)}.",
                )
    several = len(tables) > 1
    if takes_name and several and TABLE_PLACE not in given + (to or ""):
        raise UsageError(
            f"{counted(len(tables), 'table')} cannot all be loaded into {template}",
            hint=f"Put {TABLE_PLACE} where the name of each goes: --table '{template}_{{table}}'",
        )
    if not takes_name and template is not None:
        raise UsageError(
            f"--table {template} names a table, and --to {to} says by itself where rows go",
            hint=f"Leave out --table; in --to, {TABLE_PLACE} stands for the name.",
        )
    if not takes_name and several and TABLE_PLACE not in (to or NOWHERE) and to != NOWHERE:
        raise UsageError(
            f"{counted(len(tables), 'table')} cannot all be written to {to}",
            hint=f"Put {TABLE_PLACE} where the name of each goes: '{_with_place(to or '')}'",
        )
    return [
        TablePlace(
            None if to is None else _filled(to, table, in_path=True),
            _filled(given, table) if takes_name else None,
        )
        for table in tables
    ]


def _with_place(to: str) -> str:
    """Return a target with the place holder in front of the last part of its path."""
    folder, slash, last = to.rpartition("/")
    return f"{folder}{slash}{TABLE_PLACE}_{last}" if last else f"{to}{TABLE_PLACE}"


def _filled(text: str, table: FoundTable, *, in_path: bool = False) -> str:
    """Return a text with the names in the place of their holders.

    A dot within a name would divide database and table, so it becomes ``_``, as of a single load.
    """
    schema, name = table.schema.replace(".", "_"), table.name.replace(".", "_")
    if in_path:
        schema, name = (_NO_PATH.sub("_", each) for each in (schema, name))
    values = {TABLE_PLACE: name, SCHEMA_PLACE: schema}
    return _PLACE.sub(lambda found: values.get(found[0], found[0]), text)


def in_path(text: str, table: FoundTable) -> str:
    """Return the name of a file with that of a table in it."""
    return _filled(text, table, in_path=True)


def check_clashes(
    tables: Sequence[FoundTable], found: Sequence[TablePlace], *, folds_case: bool
) -> None:
    """Check that no two tables get one place: their rows would be mixed.

    Args:
        folds_case: the target takes names that differ in case only for one.

    Raises:
        UsageError: two do; nothing is loaded.
    """
    seen: dict[tuple[str, str], FoundTable] = {}
    for table, place in zip(tables, found, strict=True):
        if place.to == NOWHERE:
            continue
        key = (place.to or "", place.table or "")
        key = (key[0], key[1].casefold()) if folds_case else key
        other = seen.setdefault(key, table)
        if other is not table:
            schemas = other.schema != table.schema
            raise UsageError(
                f"{other.full} and {table.full} would both be loaded into {place.text}",
                hint="Keep them apart by their schemas: --table '{schema}_{table}'"
                if schemas and place.table is not None
                else "Keep them apart with {schema} in --to, or leave one out with --exclude."
                if schemas
                else f"Leave one out with --exclude '{table.full}'",
            )


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableProblem:
    """The reason that a table is not loaded; ``exit``: the code of a load of it alone."""

    error: str
    hint: str | None
    exit: int


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table of many.

    Attributes:
        source: its full name there; ``table``: its place in the target.
        outcome: as of a load, and ``not begun``.
        load_id: "" where none began.
        rows, bytes_source: that this run has loaded; ``loaded_before``: an earlier one had loaded
            all of it.
        problem: None where all of it is loaded.
    """

    source: str
    table: str
    outcome: str
    load_id: str = ""
    rows: int = 0
    bytes_source: int = 0
    seconds: float = 0.0
    loaded_before: bool = False
    problem: TableProblem | None = None


NOT_BEGUN = "not begun"


@dataclass(frozen=True, slots=True)
class TablesReport:
    """The report of the tables of one source.

    Attributes:
        source, target: as typed, without secrets.
        outcome: ``done``, ``partial`` where some tables are not loaded, ``failed`` where none is.
        exit: the worst of the tables' exit codes.
        snapshot: of which moment the rows are, one sentence.
        parallel: tables at a time at most.
    """

    source: str
    target: str
    started: str
    outcome: str
    exit: int
    seconds: float
    tables: tuple[TableReport, ...]
    snapshot: str
    parallel: int
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Return the rows that this run has loaded."""
        return sum(table.rows for table in self.tables)

    @property
    def done(self) -> int:
        """Return the number of tables that are loaded."""
        return sum(table.outcome == "done" for table in self.tables)


def outcome_of(tables: Sequence[TableReport]) -> tuple[str, int]:
    """Return the outcome of all tables, and the worst exit code."""
    worst = max((t.problem.exit for t in tables if t.problem is not None), default=int(Exit.DONE))
    if not worst:
        return "done", worst
    some = any(t.outcome in ("done", "partial") for t in tables)
    return ("partial" if some else "failed"), worst


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """One table of a plan; see :class:`FoundTable` and :class:`TableReport`."""

    source: str
    table: str
    rows: int | None
    bytes: int | None
    address: str


@dataclass(frozen=True, slots=True)
class TablesPlan:
    """The plan of the tables of one source; see :class:`TablesReport`.

    Attributes:
        tables: in the order in which they begin.
        why: the number of tables at a time.
    """

    source: str
    target: str
    tables: tuple[PlannedTable, ...]
    snapshot: str
    parallel: int
    why: str
    notes: tuple[str, ...] = ()
