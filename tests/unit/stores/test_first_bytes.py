"""What the first bytes of objects say, against their names and the options."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import pytest

from rowfall.core import formats
from rowfall.core.errors import DataError, SourceError, UsageError
from rowfall.core.options import Options
from rowfall.stores import first_bytes
from rowfall.stores.first_bytes import FirstBytes, FoundEncoding

CSV = b"id,name\n1,a\n"
PARQUET = b"PAR1\x15\x04\x15\x00"


def _examine(heads: dict[str, bytes], options: Options = Options()) -> FoundEncoding:  # noqa: B008
    return first_bytes.examine(
        [FirstBytes(*head) for head in heads.items()], formats.detect(list(heads), options), options
    )


def _zip(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, "1,2\n")
    return data.getvalue()


@pytest.mark.parametrize(
    ("name", "head", "found"),
    [
        ("a.csv", CSV, ("CSV", "none")),
        ("a.csv", gzip.compress(CSV, mtime=0), ("CSV", "gzip")),
        ("a.csv", bz2.compress(CSV), ("CSV", "bz2")),
        ("a.csv", lzma.compress(CSV), ("CSV", "xz")),
        ("a.csv", b"\x28\xb5\x2f\xfd....", ("CSV", "zstd")),
        ("a.csv.gz", CSV, ("CSV", "none")),
        ("a.csv.gz", gzip.compress(CSV, mtime=0)[:30], ("CSV", "gzip")),
        ("a.csv.gz", b"\x1f", ("CSV", "gzip")),  # cut inside the signature
        ("a.csv.bz2", b"BZh", ("CSV", "bz2")),
        ("a.csv.bz2", b"BZh9,x\n", ("CSV", "none")),
        ("a.csv", b"BZh", ("CSV", "none")),
        ("a.csv", PARQUET, ("Parquet", "none")),
        ("a.json", b"\xef\xbb\xbf{}", ("JSONEachRow", "none")),
        ("a.parquet", PARQUET, ("Parquet", "none")),
        ("a.csv", b"", ("CSV", "none")),
        ("a.csv", "ä€"[:2].encode()[:-1], ("CSV", "none")),  # the last character is cut
    ],
)
def test_what_bytes_are_is_how_they_are_read(
    name: str, head: bytes, found: tuple[str, str]
) -> None:
    examined = _examine({name: head})
    assert (examined.encoding.format, examined.encoding.compression) == found
    assert bool(examined.notes) == (found != _named(name))


def _named(name: str) -> tuple[str, str]:
    encoding = formats.detect([name], Options())
    return encoding.format, encoding.compression


@pytest.mark.parametrize(
    ("head", "what", "hint"),
    [
        (b"%PDF-1.7\n", "a PDF document", "CSV"),
        (b"SQLite format 3\0\x10", "a SQLite database", "rowfall load"),
        (b"\n<!DOCTYPE html>\n<html>", "an HTML page", "login"),
        (b"<?xml version='1.0'?>", "XML", "--format"),
        (_zip("a.csv"), "a zip archive", "unzip"),
        (_zip("[Content_Types].xml", "xl/workbook.xml"), "Excel", "Save the sheet"),
        (gzip.compress(b"%PDF-1.7\n", mtime=0), "a PDF document", "CSV"),
        (b"a.csv".ljust(257, b"\0") + b"ustar\x0000", "a tar archive", "tar xf"),
    ],
)
def test_what_is_no_table_is_refused(head: bytes, what: str, hint: str) -> None:
    with pytest.raises(SourceError, match=what) as caught:
        _examine({"a.csv": head})
    assert hint in (caught.value.hint or "")


def test_a_table_may_begin_like_a_page_where_its_format_is_named() -> None:
    assert not _examine({"a.csv": b"<html>,1\n"}, Options(format="CSV")).notes


def test_text_that_is_not_utf_8_is_refused_with_its_place() -> None:
    with pytest.raises(DataError) as caught:
        _examine({"a.csv": b"id,name\n1,M\x9fller\n"})
    error = caught.value
    assert str(error) == 'a.csv line 2 is not UTF-8: byte 0x9F in "1,M\\x9fller"'
    assert error.line == 2
    assert "--encoding" in (error.hint or "")


def test_the_last_line_shows_the_charset_where_no_other_does() -> None:
    with pytest.raises(DataError) as caught:
        _examine({"a.csv": b"a,b,c\n1,2,3\n4,5,\xa9"})
    assert (caught.value.hint or "").startswith(
        'Name its encoding: --encoding windows-1252 reads "4,5,©"'
    )


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (b'{"type": "FeatureCollection", "features": [{"type": "Feature"}]}', "GeoJSON"),
        (b'{\n"name": "x", "type": "FeatureCollection",\n"features": [\n', "GeoJSON"),
        (b'{"type": "FeatureCollection", "features": []}\n' * 2, "JSONEachRow"),
        (b'{"kind": "x", "features": [{"type": "FeatureCollection"}]}', "JSONEachRow"),
        (b'[{"type": "FeatureCollection", "features": []}]', "JSONEachRow"),
    ],
)
def test_a_collection_of_features_is_told_from_rows(text: bytes, format_: str) -> None:
    assert _examine({"a.json": text}).encoding.format == format_


def test_utf_16_without_a_mark_is_refused() -> None:
    with pytest.raises(DataError, match="not UTF-8") as caught:
        _examine({"a.csv": "id,name\n1,Müller\n".encode("utf-16be")})
    assert "utf-16be" in (caught.value.hint or "").lower()


def test_utf_32_is_not_taken_for_utf_16() -> None:
    """The mark of the one begins with that of the other."""
    with pytest.raises(SourceError, match=r"a\.csv is UTF-32LE") as caught:
        _examine({"a.csv": "id,name\n1,x\n".encode("utf-32")})
    assert "iconv -f utf-32le" in (caught.value.hint or "")


def test_strings_that_are_no_text_are_taken_where_that_is_said() -> None:
    examined = _examine({"a.csv": b"1,\xff\xfe\x01\n"}, Options(encoding="binary"))
    assert examined.encoding.binary


def test_objects_that_differ_are_refused() -> None:
    with pytest.raises(SourceError, match=r"b\.csv is gzip, and other files are not"):
        _examine({"a.csv": CSV, "b.csv": gzip.compress(CSV)})
    with pytest.raises(SourceError, match=r"b\.csv is Parquet, not CSV"):
        _examine({"a.csv": CSV, "b.csv": PARQUET})


def test_one_bad_object_of_several_fails_alone() -> None:
    heads = {"a.csv": CSV, "b.csv": b"id,name\n1,M\xfcller\n"}
    assert _examine(heads) == FoundEncoding(formats.detect(list(heads), Options()))


def test_options_that_contradict_the_bytes_are_refused() -> None:
    with pytest.raises(SourceError, match=r"a\.csv is gzip, and --compression says none"):
        _examine({"a.csv": gzip.compress(CSV)}, Options(compression="none"))
    with pytest.raises(SourceError, match=r"a\.csv is Parquet, not CSV"):
        _examine({"a.csv": PARQUET}, Options(format="CSV"))


def test_a_name_without_extension_is_told_by_its_bytes() -> None:
    for data, name in ((PARQUET, "Parquet"), (b'{"a":1}\n', "JSONEachRow"), (b"a,b\n1,2\n", "CSV")):
        found, said = first_bytes.with_format([FirstBytes("part-0", data)], ["part-0"], Options())
        assert found.format == name
        assert said == (f"part-0 is read as {name}, as its first bytes look like it",)
    heads = [FirstBytes("a", b'{"a":1}\n'), FirstBytes("b", b"a,b\n1,2\n")]
    with pytest.raises(UsageError, match="no name says the format"):
        first_bytes.with_format(heads, ["a", "b"], Options())
