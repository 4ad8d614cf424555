"""Every format that the engine reads: reached by name, loaded, or said what it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowfall.core import engine_formats, formats
from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.schema import inference
from unit.memory import Chdb, ChdbError, Files

Write = Callable[[str, str | bytes], Path]

ROWS = (
    "SELECT toInt64(number) AS id, concat('x', toString(number)) AS name, number / 2 AS price "
    "FROM numbers(3)"
)
WANTED = [["0", "x0", "0"], ["1", "x1", "0.5"], ["2", "x2", "1"]]
TYPES = "id Int64, name String, price Float64"
# Names that are others of the same format.
SAME = {
    "JSONL", "JSONLines", "NDJSON", "TabSeparated", "TabSeparatedWithNames", "TabSeparatedRaw",
    "TabSeparatedRawWithNames", "TabSeparatedRawWithNamesAndTypes", "TabSeparatedWithNamesAndTypes",
    "Raw", "RawWithNames", "RawWithNamesAndTypes",
}  # fmt: skip
# Of other releases than the embedded one.
ELSEWHERE = {"CapnProto", "HiveText"}
# Not written in three columns without more: see HAND_MADE, the end-to-end tests, or their needs.
OTHERS = {
    "AvroConfluent", "CustomSeparatedIgnoreSpaces", "CustomSeparatedIgnoreSpacesWithNames",
    "CustomSeparatedIgnoreSpacesWithNamesAndTypes", "DWARF", "Form", "GeoJSON", "JSONAsObject",
    "JSONAsString", "LineAsString", "MySQLDump", "Npy", "One", "ParquetMetadata", "Protobuf",
    "ProtobufList", "ProtobufSingle", "Puffin", "PuffinMetadata", "RawBLOB", "Regexp",
    "RowBinaryWithDefaults", "RowBinaryWithNamesAndTypesAndDefaults", "Template",
    "TemplateIgnoreSpaces",
}  # fmt: skip


def load(
    engine: Chdb, path: Path, name: str, **given: Any
) -> tuple[list[list[Any]], dict[str, str]]:
    """The rows that a load without a target of its own would give, and the types."""
    encoding = formats.detect([str(path)], Options(format=name, **given))
    source = Files(path)
    found, made = inference.schema_for(
        source, source.listing(), encoding, Options(format=name, **given), engine.ask
    )
    assert found is not None
    return engine.load(path, found, made.columns), {c.name: c.type for c in made.columns}


def of_engine(engine: Chdb, condition: str) -> list[str]:
    text = f"SELECT name FROM system.formats WHERE {condition} ORDER BY name"
    return engine.run(text, "TSV").split()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def test_every_format_of_the_engine_has_a_name_here(chdb_engine: Chdb) -> None:
    names = of_engine(chdb_engine, "is_input")
    assert len(names) >= 77
    for name in names:
        found = formats.find(name)
        assert found.name == name or name in SAME, name
        if name != "JSON":  # one object a line, as ever
            assert formats.find(name.lower()).name == formats.find(name.upper()).name == found.name
    known = {f.name for f in formats.FORMATS}
    assert known - set(names) == ELSEWHERE
    assert formats.find("json").name == "JSONEachRow"
    assert len({f.name for f in formats.FORMATS}) == len(formats.FORMATS)


WRITTEN = [f.name for f in engine_formats.ENGINE_FORMATS if f.name not in OTHERS | ELSEWHERE]


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_engine_writes_is_loaded_back(chdb_engine: Chdb, written: Path, name: str) -> None:
    path = written / name
    chdb_engine.run(f"{ROWS} INTO OUTFILE '{path}' FORMAT {name}")
    rows, types = load(chdb_engine, path, name, schema=TYPES)
    assert rows == WANTED
    assert types["name"] == "String"
    if engine_formats.are_given(name) and "--schema" in engine_formats.needs(name):
        with pytest.raises(UsageError, match="cannot be read as") as caught:
            load(chdb_engine, path, name)
        assert "--schema" in (caught.value.hint or "")
        return
    rows, types = load(chdb_engine, path, name)
    assert rows == WANTED
    assert list(types) in (["id", "name", "price"], ["c1", "c2", "c3"])


GEO = (
    '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"name":"a"},'
    '"geometry":{"type":"Point","coordinates":[1.5,2]}}]}'
)
HAND_MADE: list[tuple[str, bytes, dict[str, Any], list[list[str]]]] = [
    ("LineAsString", b"a,b\nc\n", {}, [["a,b"], ["c"]]),
    ("RawBLOB", b"all\nof it", {}, [["all\nof it"]]),
    ("JSONAsString", b'[{"a":1},\n{"a": "x"}]', {}, [['{"a":1}'], ['{"a": "x"}']]),
    ("JSONAsObject", b'{"a":1}\n{"a":"x"}', {}, [['{"a":1}'], ['{"a":"x"}']]),
    ("Form", b"id=1&name=x%20y", {}, [["1", "x y"]]),
    ("MySQLDump", b"INSERT INTO `t` VALUES (1,'x'),(2,'y');\n", {}, [["1", "x"], ["2", "y"]]),
    ("Values", b"(1,'x'),(2,'y')", {"schema": "a UInt8, b String"}, [["1", "x"], ["2", "y"]]),
    ("RowBinary", b"\x01\x01x\x02\x01y", {"schema": "a UInt8, b String"},
     [["1", "x"], ["2", "y"]]),
    ("RowBinaryWithDefaults", b"\x00\x01\x00\x01x", {"schema": "a UInt8, b String"}, [["1", "x"]]),
    ("TSKV", b"id=1\tname=x\n", {}, [["1", "x"]]),
    ("One", b"anything", {}, [["0"]]),
    ("GeoJSON", GEO.encode(), {}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data", "given", "wanted"), HAND_MADE, ids=[row[0] for row in HAND_MADE]
)
def test_hand_made_files(
    chdb_engine: Chdb, write: Write, name: str, data: bytes, given: dict[str, Any],
    wanted: list[list[str]],
) -> None:  # fmt: skip
    rows, _ = load(chdb_engine, write("in.data", data), name, **given)
    if wanted:
        assert rows == wanted
    else:
        assert len(rows) == 1


def test_an_array_of_numpy(chdb_engine: Chdb, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    numpy.save(tmp_path / "a.npy", numpy.array([1, 2, 3], dtype="int32"))
    encoding = formats.detect(["a.npy"], Options())
    assert (encoding.format, encoding.kind) == ("Npy", Kind.TYPED)
    assert load(chdb_engine, tmp_path / "a.npy", "Npy")[0] == [["1"], ["2"], ["3"]]


def test_sql_in_values_is_an_error(chdb_engine: Chdb, write: Write) -> None:
    path = write("in.values", "(1 + 1)")
    with pytest.raises(ChdbError):
        load(chdb_engine, path, "Values", schema="a UInt8")


def test_a_regular_expression(chdb_engine: Chdb, write: Write) -> None:
    path = write("in.log", "10:00 GET /a\n10:01 PUT /b\n")
    expression = r"format_regexp=(\S+) (\S+) (.*)"
    encoding = formats.detect([str(path)], Options(format="regexp"))
    assert encoding == Encoding("Regexp", "none", Kind.TYPED)
    source = Files(path)
    _, made = inference.schema_for(
        source, source.listing(), encoding, Options(format="Regexp", set=(expression,)),
        chdb_engine.ask,
    )  # fmt: skip
    assert len(made.columns) == 3
    with pytest.raises(UsageError, match="cannot be read as") as caught:
        load(chdb_engine, path, "Regexp")
    assert "format_regexp" in (caught.value.hint or "")
