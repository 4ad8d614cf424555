"""The first JSON objects of a source: their texts, their keys, and the first line that is none."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowfall.core import formats, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import DataError, RowfallError, SourceError
from rowfall.core.listing import Split
from rowfall.core.load_command import quoted
from rowfall.core.model import Encoding
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.bad_rows.queries import WHOLE
from rowfall.schema.column_facts import ColumnFacts, DeclaredType, Relate, RunSelect, WantedFacts
from rowfall.schema.text import marked_values
from rowfall.schema.text.records import lines_relation
from rowfall.schema.text.text_facts import object_texts
from rowfall.schema.text.text_format import OTHERWISE, UNSURE
from rowfall.schema.types import json_objects, nested_reading
from rowfall.schema.types.strict_reading import has_spellings
from rowfall.sources.base import Source
from rowfall.sources.compression import compression_of

OBJECTS = 20_000
"""Objects that are looked at, of all sampled files together."""
VALID_LINES = 1_000
"""Lines of broken JSON that are sampled: they travel inside the statement."""
OBJECT_BYTES = 8 << 20
"""Bytes of JSON that are looked at, of all sampled files together: 0.3 s of Python."""
OBJECTS_READ = 256
"""Objects of JSON that are read at once: one that is not needed any more may be large."""
KNOWN_VALUES = 100_000
"""Values in a sample of JSON whose columns all have a type: 51 columns then take 0.2 instead of
0.36 s of CPU of every start, and JSON has no two ways to write NULL that only the data tell apart.
"""


@dataclass(frozen=True, slots=True)
class JsonSample:
    """The first objects of some files.

    Attributes:
        splits: the files. ``wanted``: the facts that the sample has to show.
        alone: see :class:`rowfall.schema.sampling.SampleOptions`.
    """

    source: Source
    splits: tuple[Split, ...]
    encoding: Encoding
    ask: RunSelect
    wanted: WantedFacts
    alone: bool = False

    def clean_objects(self) -> list[str]:
        """Return the first objects as text, each of which can be a row.

        Raises:
            DataError: a line is none.
        """
        names, replayable = self.wanted.names, self.source.replayable
        try:
            objects = self.objects(names, here=True)
            if not replayable or all(map(json_objects.is_object, objects)):
                return objects
            # One line may hold more than an object: what that is, is the engine's to say.
            objects = self.objects(names)
        except RowfallError as error:
            if not replayable:
                raise
            raise self.broken_line() or error from None
        if not all(map(json_objects.is_object, objects)):
            broken = self.broken_line()
            if broken is not None:
                raise broken
        return objects

    def objects(
        self, names: frozenset[str], limit: int = OBJECTS, *, here: bool = False
    ) -> list[str]:
        """Return the first objects of every split as text, file by file.

        As many as :data:`OBJECT_BYTES` hold: a log of 4 KB a line gives 2,000 of them.

        Args:
            names: of all columns of the load, if known: fewer objects are enough if they have them
                all.
            here: rowfall-decode may read them.
        """
        splits = self.splits
        if names and (few := KNOWN_VALUES // len(names)) < limit:
            objects = self.objects(frozenset(), few, here=here)
            if names.issubset(c.name for c in json_objects.columns_of(objects, names)):
                return objects
        limit = max(limit // len(splits), 1)
        each = OBJECT_BYTES // len(splits)
        if here and (
            found := object_texts(
                self.source, splits, self.encoding, limit, each, remote=self.alone
            )
        ):
            return found
        texts = self.encoding.read_as("JSONAsString")
        parts: list[str | SqlText] = []
        for number, split in enumerate(splits):
            relation = self.source.relation([split], texts, "`line` String")
            parts += [" UNION ALL " if parts else "", f"SELECT {number} AS n, line FROM ("]
            parts += ["SELECT line, sum(length(line)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND "]
            parts += ["CURRENT ROW) - length(line) AS before FROM (SELECT line FROM ", relation]
            parts += [f" LIMIT {limit})) WHERE before < {each}"]
        quick = {
            "max_threads": 4, "input_format_parallel_parsing": 0, "max_block_size": OBJECTS_READ,
        }  # fmt: skip
        by_split: list[list[str]] = [[] for _ in splits]
        for number, line in self.ask(SqlText.of(*parts), quick):
            by_split[int(number)].append(str(line))
        return [line for lines in by_split for line in lines]

    def keys(self, objects: Sequence[str]) -> list[ColumnFacts]:
        """Return the keys of objects with what their values are.

        Raises:
            SourceError: there are no objects with keys.
        """
        types = self.wanted.types(self.encoding, ())
        nested = {
            name: type_
            for name, type_ in types.items()
            if self.wanted.there
            and nested_reading.is_nested(type_)
            and any(map(has_spellings, nested_reading.leaves(type_)))
        }
        found = json_objects.columns_of(objects, types, nested)
        if not found:
            raise SourceError(f"{self.splits[0].uri} holds no columns")
        if any(not column.name for column in found):
            raise self.nameless_key()
        return [
            ColumnFacts(c.name, DeclaredType(c.type, c.nested, c.reason, c.nullable, c.texts))
            for c in found
        ]

    def nameless_key(self) -> SourceError:
        """Return the error for the first object with a key "", which no column can have."""
        for split in self.splits:
            for number, text in enumerate(replace(self, splits=(split,)).objects(frozenset()), 1):
                if any(not c.name for c in json_objects.columns_of([text])):
                    return SourceError(
                        f'{split.uri} row {number} has a key "", and no column is called so',
                        hint=f"Leave it out: jq -c 'del(.[\"\"])' {shlex.quote(split.uri)} | "
                        "rowfall load - --format JSONEachRow --table NAME",
                    )
        return SourceError('a row has a key "", and no column is called so')

    def valid_lines(self) -> list[str]:
        """Return the JSON objects among the first lines of the splits."""
        limit = max(VALID_LINES // len(self.splits), 1)
        parts: list[str | SqlText] = []
        for split in self.splits:
            parts += [" UNION ALL " if parts else "", "SELECT line FROM "]
            parts += [lines_relation(self.source, [split], self.encoding), f" LIMIT {limit}"]
        # Numbers of any size are JSON, but not for the engine's own test.
        fits = nested_reading.is_row("line", nested_reading.with_numbers_as_strings("line"))
        query = SqlText.of("SELECT line FROM (", *parts, f") WHERE {fits}")
        rows = self.ask(query, {"max_threads": 4, "input_format_parallel_parsing": 0})
        return [str(row[0]) for row in rows]

    def check_lines(self) -> None:
        """Check that rows have lines of their own, which a bad one is left out by.

        Raises:
            SourceError: no line is one, and there are rows.
        """
        try:
            rows = self.source.replayable and self.objects(frozenset(), 1)
        except RowfallError:
            return
        if not rows:
            return
        relation = lines_relation(self.source, self.splits[:1], self.encoding)
        first = self.ask(SqlText.of("SELECT line FROM ", relation, " LIMIT 1"), {})
        each = "'.[]'" if str(first[0][0]).lstrip().startswith("[") else "."
        uri = self.splits[0].uri
        plain = "://" not in uri and compression_of(uri, formats.AUTO) == "none"
        raise SourceError(
            f"{uri} has no line for each row, by which --max-errors leaves bad ones out",
            hint=f"Give each one: jq -c {each} {shlex.quote(uri) if plain else 'FILE'} | "
            "rowfall load - --format JSONEachRow --table NAME --max-errors N",
        )

    def broken_line(self) -> DataError | None:
        """Find the first line that is no JSON object, by object and number."""
        fits = nested_reading.is_row("line", nested_reading.with_numbers_as_strings("line"))
        one_thread = {"max_threads": 1, "input_format_parallel_parsing": 0}
        for split in self.splits:
            relation = lines_relation(self.source, [split], self.encoding)
            query = SqlText.of(
                f"SELECT n, substringUTF8(line, 1, {WHOLE + 1}) FROM (SELECT "
                "rowNumberInAllBlocks() + 1 AS n, line FROM ", relation,
                f") WHERE notEmpty(trim(BOTH ' \\t\\r' FROM line)) AND NOT {fits} LIMIT 1",
            )  # fmt: skip
            for number, text in self.ask(query, one_thread):
                others = bool(self.valid_lines())
                return data_errors.broken_json(split, int(number), str(text), others=others)
        return None


def as_text(objects: Sequence[str]) -> Relate:
    """Return a relation of objects that stand in the statement itself."""
    text = quote("\n".join(objects))

    def relation(splits: Sequence[Split], encoding: Encoding | None, structure: str) -> SqlText:
        columns = f"{quote(structure)}, " if structure else ""
        return SqlText.of(f"format(JSONEachRow, {columns}{text})")

    return relation


def of_zoned_times(objects: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the note about texts that are times with an offset from UTC, which stay text."""
    if not any(map(_ZONED.search, objects[:_FIRST])):
        return
    held: dict[str, Counter[str]] = {name: Counter() for name in names}
    empty: set[str] = set()
    for line in objects[:_FOR_TIMES]:
        found = json.loads(line)
        for name, value in found.items() if isinstance(found, dict) else ():
            if isinstance(value, str) and value and name in held:
                held[name][value] += 1
            else:
                empty.add(name)
    kinds = {name: marked_values.spelled_kind(own) for name, own in held.items() if own}
    sqls = {
        name: marked_values.spelled_reading(name, kind, empty=name in empty)
        for name, kind in kinds.items()
        if kind and all(marked_values.spelled(value) == kind for value in held[name])
    }
    for said in marked_values.of_readings({name: [own] for name, own in sqls.items()}):
        yield UNSURE, said.text
        yield from [(OTHERWISE, said.flags)] if said.flags is not None else []


_ZONED = regex(r'"\d{4}-\d\d-\d\d[T ][\d:.]{5,} ?[-+]\d\d')
_FIRST, _FOR_TIMES = 20, 1000  # objects: whether there is such a time, and whether all are


def of_same_letters(
    objects: Sequence[str], columns: Sequence[ColumnFacts]
) -> Iterator[tuple[str, str]]:
    """Yield the notes about keys that differ in the case of letters and are never together."""
    alike: dict[str, list[ColumnFacts]] = {}
    for column in columns:
        alike.setdefault(column.name.casefold(), []).append(column)
    for own in alike.values():
        names = [column.name for column in own]
        if len(own) < 2 or json_objects.are_together(objects, names):
            continue
        why = f"{' and '.join(names)} are the same but for the case of letters, and no row has both"
        kinds = {(column.declared.type, column.declared.nested) for column in own}
        if len(kinds) > 1 or own[0].declared.nested:
            yield UNSURE, f"{why}: each is a column"
            continue
        listed = ", ".join(map(sql.bare_name, names))
        last = sql.bare_name(names[-1])
        flags = f"--select {quoted(f'* EXCEPT ({listed}), coalesce({listed}) AS {last}')}"
        yield UNSURE, f"{why}: each is a column; {flags} makes one of them"
        yield OTHERWISE, flags
