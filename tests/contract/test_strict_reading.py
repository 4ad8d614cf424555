"""The unit tests of strict reading once more, read by a real server of another version."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lab.clickhouse import ClickHouse
from rowfall.core import sql
from rowfall.core.model import Column, Encoding, Schema
from rowfall.core.sqltext import SqlText
from rowfall.plan.statements import for_server
from rowfall.schema.types.reader_settings import reader_settings
from unit.memory import Chdb, ChdbError, from_file
from unit.schema.types.test_strict_reading import (  # noqa: F401 - the tests themselves, with the fixtures of this file
    test_a_byte_order_mark_is_no_value,
    test_a_column_that_the_header_lacks_raises,
    test_a_quote_never_closed_does_not_swallow_rows,
    test_any_string_of_digits,
    test_blanks_around_values_where_the_sample_had_them,
    test_empty_lines_of_one_column_are_rows,
    test_every_text_is_its_value_or_an_error,
    test_good_values_are_not_refused,
    test_infinity_is_a_value_only_when_the_sample_had_it,
    test_integers_load_up_to_their_limits,
    test_malformed_csv_rows_raise,
    test_malformed_json_rows_raise,
    test_nothing_is_never_a_value,
    test_quoted_empty_fields_are_null_where_the_sample_had_them,
    test_shapes_of_time,
    test_typed_formats,
)

_numbers = itertools.count()


class OnServer(Chdb):
    """What the tests ask of an engine, done by a server; unknown settings are not sent."""

    each = 6  # every text is a table and three statements here

    def __init__(self, service: ClickHouse) -> None:
        self._service = service
        self._database = "codec"
        service.query(f"CREATE DATABASE IF NOT EXISTS {self._database}")
        self._known = set(service.query("SELECT name FROM system.settings").split())

    def run(self, text: str, format: str = "JSONCompact") -> str:
        parameters = {
            "wait_end_of_query": 1,
            "database": self._database,
            "default_format": format,
            "http_write_exception_in_output_format": 0,
        }
        request = urllib.request.Request(
            f"{self._service.endpoint}/?{urlencode(parameters)}",
            data=text.encode(),
            headers={
                "X-ClickHouse-User": self._service.user,
                "X-ClickHouse-Key": self._service.password,
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                body: str = answer.read().decode()
                return body
        except urllib.error.HTTPError as error:
            with error:
                raise ChdbError(error.read().decode(errors="replace")) from None

    def ask(self, text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        fixed = {**self.kept(settings), "output_format_json_quote_64bit_integers": 0}
        answer = self.run(text.reveal() + sql.settings_clause(fixed), "JSONCompactEachRow")
        return [json.loads(line) for line in answer.splitlines()]

    def read(self, path: Path, encoding: Encoding, columns: Sequence[Column]) -> list[list[Any]]:
        return super().read(path, encoding, as_read(columns, encoding))

    def load(self, path: Path, encoding: Encoding, columns: Sequence[Column]) -> list[list[Any]]:
        columns = as_read(columns, encoding)
        reader = self.kept({s.name: s.value for s in reader_settings(encoding, columns)})
        types = ", ".join(f"{sql.name(c.name)} {c.type}" for c in columns)
        table = f"t{next(_numbers)}"
        self.run(f"CREATE TABLE {table} ({types}) ENGINE = Memory")
        relation = SqlText.of(from_file(str(path), encoding, columns))
        insert = sql.insert_select(SqlText.of(table), columns, relation).reveal()
        self.run(insert + sql.settings_clause(reader))
        names = ", ".join(f"toString({sql.name(c.name)})" for c in columns)
        return self.ask(SqlText.of(f"SELECT {names} FROM {table}"), {})

    def kept(self, settings: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
        return {name: value for name, value in settings.items() if name in self._known}


def as_read(columns: Sequence[Column], encoding: Encoding) -> Sequence[Column]:
    """The columns as a pulled or pushed statement reads them on this version."""
    return for_server(Schema(tuple(columns)), encoding, exact=False).columns


@pytest.fixture(scope="session")
def chdb_engine(clickhouse: ClickHouse) -> OnServer:
    return OnServer(clickhouse)


@pytest.fixture
def tmp_path(clickhouse: ClickHouse) -> Path:
    """A folder that the server reads and writes."""
    files = clickhouse.folder / "user_files"
    path = files / f"codec-{next(_numbers)}"
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, data: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write
