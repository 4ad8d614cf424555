"""Formats and compressions by name and by first bytes."""

from __future__ import annotations

import gzip

import pytest

from rowfall.core import formats
from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options


@pytest.mark.parametrize(
    ("name", "format_", "compression"),
    [
        ("a.csv", "CSV", "none"),
        ("a.CSV.GZ", "CSV", "gzip"),
        ("dir.parquet/a.tsv.zst", "TSV", "zstd"),
        ("a.tab.lz4", "TSV", "lz4"),
        ("a.b.ndjson.xz", "JSONEachRow", "xz"),
        ("a.jsonl.bz2", "JSONEachRow", "bz2"),
        ("a.json", "JSONEachRow", "none"),
        ("part.snappy.parquet", "Parquet", "none"),
        ("a.orc", "ORC", "none"),
        ("a.avro", "Avro", "none"),
        ("a.native.zst", "Native", "zstd"),
    ],
)
def test_by_extension(name: str, format_: str, compression: str) -> None:
    found = formats.detect([f"/x.y/{name}"], Options())
    assert (found.format, found.compression) == (format_, compression)


@pytest.mark.parametrize("name", ["readme", "a.txt", "a.gz", ".gz", "csv", "a.csv/readme"])
def test_no_format_by_extension(name: str) -> None:
    assert not formats.is_data(name)
    with pytest.raises(UsageError, match="extension of a known format") as caught:
        formats.detect([name], Options())
    assert "--format" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("alias", "name"),
    [("NDJSON", "JSONEachRow"), ("jsonl", "JSONEachRow"), ("TabSeparated", "TSV"),
     ("tsvwithnames", "TSVWithNames"), ("parquet", "Parquet")],
)  # fmt: skip
def test_aliases(alias: str, name: str) -> None:
    assert formats.find(alias).name == name


def test_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        formats.find("CSVWithName")
    assert "Did you mean CSVWithNames?" in (caught.value.hint or "")


def test_options_win() -> None:
    found = formats.detect(["a.csv.gz"], Options(format="TSVWithNames", compression="none"))
    assert (found.format, found.compression, found.kind) == ("TSVWithNames", "none", Kind.TEXT)
    assert found.has_names


def test_mixed_compression_is_left_to_the_engine() -> None:
    assert formats.detect(["a.csv", "b.csv.gz"], Options()).compression == formats.AUTO


def test_mixed_formats_list_the_odd_ones() -> None:
    names = [f"{n}.csv" for n in range(20)] + [f"odd{n}.parquet" for n in range(7)]
    with pytest.raises(UsageError) as caught:
        formats.detect(names, Options())
    assert "20 of 27 files are CSV" in caught.value.message
    assert "odd4.parquet and 2 more" in caught.value.message
    assert "odd5" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (";", ";"),
        ("\\t", "\t"),
        ("tab", "\t"),
        ("|", "|"),
        ("||", "||"),
        ("blank", " "),
        (" ", " "),
    ],
)
def test_delimiter(text: str, meant: str) -> None:
    assert formats.detect(["a.csv"], Options(delimiter=text)).delimiter == meant


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (Encoding("CSVWithNames", "none", Kind.TEXT, ";"), "csv, delimiter ;, header yes, utf-8"),
        (Encoding("CSV", "gzip", Kind.TEXT, "\t"), "csv, delimiter tab, header no, utf-8, gzip"),
        (Encoding("TSV", "none", Kind.TEXT), "tsv, header no, utf-8"),
        (Encoding("Parquet", "none", Kind.TYPED), "Parquet"),
    ],
)
def test_how_a_source_is_read_is_said_in_one_line(encoding: Encoding, said: str) -> None:
    assert formats.describe(encoding) == said


@pytest.mark.parametrize("text", ["", '"', "\n", "\\x0a"])
def test_what_cannot_be_a_delimiter(text: str) -> None:
    with pytest.raises(UsageError):
        formats.detect(["a.csv"], Options(delimiter=text))


def test_delimiter_is_for_csv() -> None:
    with pytest.raises(UsageError, match="CSV"):
        formats.detect(["a.parquet"], Options(delimiter=";"))


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"PAR1\x15\x04..", ("Parquet", "none")),
        (b"ORC\x11..", ("ORC", "none")),
        (b"Obj\x01\x04..", ("Avro", "none")),
        (b"ORCID,name\n", (None, "none")),  # a header, no file
        (b"PAR1,PAR2\n", (None, "none")),
        (b"BZh,x\n", (None, "none")),
        (gzip.compress(b"1", mtime=0), (None, "gzip")),
        (b"\x28\xb5\x2f\xfd", (None, "zstd")),
        (b"\x04\x22\x4d\x18", (None, "lz4")),
        (b"\xfd7zXZ\x00", (None, "xz")),
        (b"BZh91AY&SY..", (None, "bz2")),
        (b"a,b\n", (None, "none")),
        (b"", (None, "none")),
    ],
)
def test_sniff(head: bytes, found: tuple[str | None, str]) -> None:
    assert formats.sniff(head) == found


@pytest.mark.parametrize(
    ("head", "found"),
    [(b'{"a": 1}\n', "JSONEachRow"), (b'\xef\xbb\xbf {"a"', "JSONEachRow"), (b"1\t2\n3,", "TSV"),
     (b"1,\t2\n", "CSV"), (b"1\n", "CSV")],
)  # fmt: skip
def test_guess_text(head: bytes, found: str) -> None:
    assert formats.guess_text(head) == found
