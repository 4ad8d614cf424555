"""Small files that unpack to gigabytes: the memory of all processes stays within ``--memory``."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from faults import bombs
from lab.clickhouse import ClickHouse
from lab.http import Web
from lab.seaweed import Seaweed

MEMORY = 1 << 30
MOST = MEMORY * 115 // 100
SIZE = 2 << 30
SECONDS = 60
long = pytest.mark.long
pytestmark = pytest.mark.timeout(6 * SECONDS)

# What stands first, and what follows again and again.
KINDS = {
    "line.csv": (b"a,b\n", b"x"),
    "quote.csv": (b'a,b\n1,"', b"x"),
    "commas.csv": (b"a,b\n", b","),
    "field.csv": (b"a,b\n1,2\n", b"x" * 1000 + b","),
    "late.csv": (b"a,b\n" + b"1,2\n" * (5 << 20), b"x"),
    "line.tsv": (b"a\tb\n", b"x"),
    "text.json": (b'{"a":1}\n{"a":"', b"x"),
    "deep.json": (b'{"a":1}\n{"a":', b"[" * 1000),
    "keys.json": (b'{"a":1}\n{"a":2', b',"b":1'),
}
GATE = {"line.csv.gz", "commas.csv.xz", "late.csv.gz", "text.json.zst"}
CASES = [
    pytest.param(kind, packed, marks=() if f"{kind}{packed}" in GATE else long,
                 id=f"{kind}{packed}")
    for kind in KINDS for packed in bombs.PACKERS
]  # fmt: skip


@pytest.fixture
def run(rowfall: Any, tmp_path: Path) -> Any:
    """Runs a command on a bomb and returns what it took."""
    own = {**os.environ, "HOME": str(rowfall.home), "ROWFALL_HOME": str(rowfall.home / "state")}

    def run(
        command: str, path: Path | str, *args: str, stdin: Path | None = None,
        env: Mapping[str, str] = own,
    ) -> bombs.Taken:  # fmt: skip
        words = bombs.rowfall(command, str(path), "--table", "t", "--memory", "1GiB", *args)
        return bombs.measure(words, rowfall.cwd, {**own, **env}, 2 * SECONDS, stdin=stdin)

    return run


def kept(taken: bombs.Taken) -> None:
    """The bounds that every command keeps, whatever it makes of the file."""
    assert taken.peak <= MOST, f"{taken.peak / (1 << 30):.2f} GiB\n{taken.out}"
    # A line of progress comes every five seconds; the machine of the tests is busy.
    assert taken.seconds <= SECONDS or taken.quiet < 15, taken.out
    assert "Traceback" not in taken.out
    assert taken.code not in (70, -9), taken.out


@pytest.mark.parametrize(("kind", "packed"), CASES)
def test_one_record_of_two_gigabytes(run: Any, tmp_path: Path, kind: str, packed: str) -> None:
    """10 GiB were taken for 2 MB of gzip, by rowfall plan alone."""
    first, each = KINDS[kind]
    path = bombs.write(tmp_path / f"{kind}{packed}", SIZE, first=first, each=each)
    for command in ("plan", "load") if kind == "late.csv" else ("load",):
        taken = run(command, path)
        kept(taken)
    assert taken.code in (1, 4)
    at = len(first) if kind == "late.csv" else first.index(b"\n") + 1
    assert f"{kind}{packed} line" in taken.out
    assert "a record of more than 64.0 MiB begins at byte" in " ".join(taken.out.split())
    assert kind not in ("line.csv", "late.csv") or f"{at:,}" in taken.out


@pytest.mark.parametrize("packed", [".gz", pytest.param(".zst", marks=long)])
@long
def test_empty_lines(run: Any, tmp_path: Path, packed: str) -> None:
    path = bombs.write(tmp_path / f"lines.csv{packed}", SIZE, first=b"a,b\n1,2\n", each=b"\n")
    kept(run("plan", path))
    kept(run("load", path))


@long
@pytest.mark.parametrize("packed", [ext for ext in bombs.PACKERS if ext])
def test_empty_members(run: Any, tmp_path: Path, packed: str) -> None:
    """A million of gzip did not end in minutes: each had copies of what follows, and its tables."""
    pack = bombs.PACKERS[packed]
    path = tmp_path / f"a.csv{packed}"
    path.write_bytes(pack(b"a,b\n1,2\n") + pack(b"") * 1_000_000 + pack(b"3,4\n"))
    for command in ("plan", "load"):
        taken = run(command, path)
        kept(taken)
        assert taken.seconds <= SECONDS
        assert taken.code == 0
    assert "2 rows" in taken.out


@long
@pytest.mark.parametrize("items", ['"null"', '{"type":"record","name":"e","fields":[]}'])
def test_elements_of_avro_that_take_no_bytes(run: Any, tmp_path: Path, items: str) -> None:
    """2^40 nulls are a file of 200 bytes, which its reader makes one after the other."""
    array = f'{{"type":"array","items":{items}}}'
    schema = f'{{"type":"record","name":"r","fields":[{{"name":"a","type":{array}}}]}}'.encode()
    zigzag = bombs._zigzag
    body, sync = zigzag(1 << 40) + b"\0", b"s" * 16
    head = b"Obj\x01\x02" + zigzag(11) + b"avro.schema" + zigzag(len(schema)) + schema + b"\0"
    path = tmp_path / "a.avro"
    path.write_bytes(head + sync + zigzag(1) + zigzag(len(body)) + body + sync)
    taken = run("load", path)
    kept(taken)
    assert taken.code == 4
    assert "elements that take no bytes" in " ".join(taken.out.split())


@long
@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.tsv"])
def test_a_member_of_an_archive(run: Any, tmp_path: Path, name: str) -> None:
    path = bombs.write_zip(tmp_path / "a.zip", SIZE, name, first=b"a\n", each=b"x")
    for command in ("plan", "load"):
        taken = run(command, path)
        kept(taken)
        assert taken.code in (1, 4)


@long
@pytest.mark.parametrize("kind", ["line.csv", "quote.csv", "late.csv"])
def test_stdin(run: Any, tmp_path: Path, kind: str) -> None:
    first, each = KINDS[kind]
    path = bombs.write(tmp_path / kind, SIZE, first=first, each=each)
    taken = run("load", Path("-"), "--format", "CSVWithNames", stdin=path)
    kept(taken)
    assert taken.code != 0


@long
@pytest.mark.parametrize("packed", [".gz", ".zst", ".xz"])
@pytest.mark.parametrize("kind", ["line.csv", "late.csv", "text.json"])
def test_packed_stdin(run: Any, tmp_path: Path, kind: str, packed: str) -> None:
    """The engine's own words were said, or the path of a sample that nobody knows."""
    first, each = KINDS[kind]
    path = bombs.write(tmp_path / f"{kind}{packed}", SIZE, first=first, each=each)
    form = "JSONEachRow" if kind.endswith("json") else "CSVWithNames"
    taken = run("load", Path("-"), "--format", form, stdin=path)
    kept(taken)
    assert taken.code in (1, 4)
    said = " ".join(taken.out.split())
    assert "takes more memory than --memory" in said or "a record of more than 64.0 MiB" in said
    assert "While executing" not in said
    if packed == ".gz":  # as the hint says
        line = shlex.quote(f"{path}")
        words = f"zcat {line} | {sys.executable} -m rowfall load - --format {form} --table t"
        done = subprocess.run(
            ["/bin/bash", "-c", words], cwd=tmp_path, capture_output=True, text=True
        )
        assert " line " in done.stderr
        assert "a record of more than 64.0 MiB begins" in " ".join(done.stderr.split())


@long
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_objects_in_a_bucket(
    run: Any, tmp_path: Path, s3: Seaweed, monkeypatch: pytest.MonkeyPatch,
    kind: str, packed: str, decoder: str,
) -> None:  # fmt: skip
    first, each = KINDS[kind]
    path = bombs.write(tmp_path / f"{kind}{packed}", SIZE, first=first, each=each)
    with suppress(Exception):
        s3.create_bucket("bombs")
    s3.put("bombs", path.name, path.read_bytes())
    taken = run("load", f"s3://bombs/{path.name}", "--decoder", decoder, env=s3.env)
    kept(taken)
    assert taken.code in (1, 4)


@long
@pytest.mark.parametrize("kind", ["line.csv", "late.csv"])
def test_engines_that_read_by_themselves(run: Any, tmp_path: Path, kind: str) -> None:
    first, each = KINDS[kind]
    path = bombs.write(tmp_path / f"{kind}.gz", SIZE, first=first, each=each)
    taken = run("load", path, "--decoder", "never")
    assert taken.code in (1, 4)
    assert "a record of more than" in " ".join(taken.out.split())


@long
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_properties_of_a_tar_archive(run: Any, tmp_path: Path, kind: bytes) -> None:
    """The library took 4 GiB for a name of 2 GB, which were 9 MB of gzip."""
    info = tarfile.TarInfo("a.csv")
    info.type, info.size = kind, SIZE
    path = tmp_path / "a.tar.gz"
    bombs.write(path, SIZE, first=info.tobuf(tarfile.USTAR_FORMAT), each=b"9")
    taken = run("load", path)
    kept(taken)
    assert taken.code == 4
    assert "bytes of properties stand in front of a member" in " ".join(taken.out.split())


@long
def test_bz2_of_many_rows(run: Any, tmp_path: Path) -> None:
    """Its blocks are unpacked by several threads, and progress is shown."""
    path = bombs.write(tmp_path / "a.csv.bz2", SIZE // 2, first=b"a,b\n", each=b"1,2\n" * 1000)
    taken = run("load", path)
    kept(taken)
    assert taken.code == 0


@long
@pytest.mark.parametrize("form", ["orc", "parquet", "arrow"])
def test_values_of_formats_with_columns(run: Any, tmp_path: Path, form: str) -> None:
    """60 values of 32 MB are 60 kB; the reader of ORC took 2 GiB for them at once."""
    import pyarrow as pa
    from pyarrow import ipc, orc, parquet

    values = pa.array(["y" * (32 << 20)] * 60, pa.large_string())
    table = pa.table({"id": pa.array(range(60)), "a": values})
    path = tmp_path / f"a.{form}"
    if form == "orc":
        orc.write_table(table, path, compression="zstd")
    elif form == "parquet":
        parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    else:
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as w:
            w.write_table(table)
    taken = run("load", path)
    kept(taken)
    assert taken.code == 4
    assert "takes more memory than --memory allows" in " ".join(taken.out.split())


@long
@pytest.mark.parametrize("form", ["avro", "parquet", "arrow", "orc"])
def test_one_value_behind_the_sample(run: Any, tmp_path: Path, form: str) -> None:
    """The file is named, and the engine's own words are not all that is said."""
    import fastavro
    import pyarrow as pa
    from pyarrow import ipc, orc, parquet

    path = tmp_path / f"a.{form}"
    large = "y" * (700 << 20)
    schema = pa.schema([("id", pa.int64()), ("a", pa.large_string())])
    batches = [
        pa.record_batch([pa.array(ids), pa.array(values, pa.large_string())], schema=schema)
        for ids, values in ((range(60_000), [f"x{n}" for n in range(60_000)]), ([1], [large]))
    ]
    if form == "avro":
        fields = [{"name": "id", "type": "long"}, {"name": "a", "type": "string"}]
        rows = ({"id": n, "a": f"x{n}" if n < 60_000 else large} for n in range(60_001))
        with path.open("wb") as file:
            record = {"type": "record", "name": "r", "fields": fields}
            fastavro.writer(file, record, rows, codec="deflate")
    elif form == "parquet":
        with parquet.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as out:
            for batch in batches:
                out.write_batch(batch)
    elif form == "orc":
        with orc.ORCWriter(path, compression="zstd") as out:
            for batch in batches:
                out.write(pa.Table.from_batches([batch]))
    else:
        with ipc.new_file(path, schema, options=ipc.IpcWriteOptions(compression="zstd")) as out:
            for batch in batches:
                out.write_batch(batch)
    taken = run("load", path)
    kept(taken)
    assert taken.code in (1, 4)
    assert f"a.{form}" in taken.out
    assert "takes more memory than --memory allows" in " ".join(taken.out.split())
    assert "MEMORY_LIMIT_EXCEEDED" not in taken.out


@long
@pytest.mark.parametrize("where", ["here", "on the web"])
def test_a_value_of_avro_that_its_reader_unpacks_before_the_limit(
    run: Any, tmp_path: Path, where: str
) -> None:
    """1.21 GiB were taken for 1 MB of deflate from a web server: only files here were looked at."""
    with Web() as web:
        path = web.root / "a.avro"
        bombs.write_avro(path, SIZE // 2)
        begins = path.stat().st_size - bombs.write_avro(tmp_path / "b.avro", SIZE // 2, rows=0)
        taken = run("load", path if where == "here" else web.url("a.avro"))
    kept(taken)
    assert taken.code == 1
    assert f"a.avro: a block of more than 256 MiB begins at byte {begins:,}" in taken.out


@long
@pytest.mark.parametrize("flipped", [0, 3], ids=["whole", "broken"])
def test_values_of_orc_among_other_files(run: Any, tmp_path: Path, flipped: int) -> None:
    """1.60 GiB were taken; the other files are loaded, sampled together or not."""
    import pyarrow as pa
    from pyarrow import orc

    (tmp_path / "in").mkdir()
    small = pa.table({"id": pa.array(range(60_000)), "a": pa.array(["x"] * 60_000)})
    for number in range(4):
        orc.write_table(small, tmp_path / f"in/g{number}.orc")
    path = tmp_path / "in/v.orc"
    with orc.ORCWriter(path, compression="zstd") as out:
        out.write(small)
        out.write(pa.table({"id": [1], "a": ["y" * (700 << 20)]}))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= flipped
    path.write_bytes(data)
    taken = run("load", tmp_path / "in/*.orc")
    kept(taken)
    assert taken.code == 1
    assert "240,000 rows from 4 of 5 files" in taken.out
    assert "v.orc" in taken.out


@long
@pytest.mark.parametrize("shape", ["lists", "one list", "texts", "equal", "dictionary"])
@pytest.mark.parametrize("to", ["here", "server"])
def test_runs_of_parquet_that_are_many_values(
    run: Any, tmp_path: Path, clickhouse: ClickHouse, shape: str, to: str
) -> None:
    """Files of 1 kB to 31 MB; 2.1 GiB were taken by the sample of lists, for a server."""
    import pyarrow as pa
    from pyarrow import parquet

    count = 1 << 22
    zeros = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])
    parts, more = 1, {}
    if shape == "lists":  # 64 rows of 4,096 lists of 1,024 zeros
        inner = pa.ListArray.from_arrays(pa.array(range(0, count + 1, 1 << 10), pa.int32()), zeros)
        column, parts = pa.ListArray.from_arrays(pa.array([0, len(inner)], pa.int32()), inner), 64
    elif shape == "one list":
        column = pa.ListArray.from_arrays(
            pa.array([0, 1 << 26], pa.int32()), pa.concat_arrays([zeros] * 16)
        )
    elif shape == "texts":  # 4 M of 10 kB: 40 GB
        column = pa.DictionaryArray.from_arrays(zeros, pa.array(["y" * 10_000]))
    elif shape == "equal":
        column, parts = zeros, 64
    else:  # 1 M different values of 200 bytes, all in the dictionary
        column, parts = pa.array([f"{n:08}" + "z" * 200 for n in range(1 << 20)]), 8
        more = {"dictionary_pagesize_limit": 1 << 31}
    table, path = pa.table({"a": column}), tmp_path / "a.parquet"
    with parquet.ParquetWriter(path, table.schema, compression="zstd", **more) as out:
        for _ in range(parts):
            out.write_table(table, row_group_size=1 << 40)
    where = []
    if to == "server":
        clickhouse.query("CREATE DATABASE IF NOT EXISTS bombs")
        clickhouse.query("DROP TABLE IF EXISTS bombs.t SYNC")
        where = ["--to", clickhouse.uri("bombs")]
    taken = run("load", path, *where)
    kept(taken)
    assert taken.code in (0, 1, 4), taken.out
    assert taken.code == 0 or "takes more memory than --memory allows" in " ".join(
        taken.out.split()
    )


# Of a workbook of Excel: sheet and shared strings; of an OpenDocument: rows.
WORKBOOKS = {
    "cell.xlsx": (b'<row r="1"><c r="A1" t="inlineStr"><is><t>', b"x", b"</t></is></c></row>", b""),
    "rows.xlsx": (b"", b'<row><c t="inlineStr"><is><t>a</t></is></c></row>', b"", b""),
    "columns.xlsx": (b"<row>", b"<c><v>1</v></c>", b"</row>", b""),
    "strings.xlsx": (b'<row r="1"><c r="A1" t="s"><v>0</v></c></row>', b"", b"",
                     b"<si><t>a</t></si>"),
    "string.xlsx": (b'<row r="1"><c r="A1" t="s"><v>0</v></c></row>', b"", b"", b"x"),
    "deep.xlsx": (b'<row r="1"><c r="A1"><v>1</v></c></row>', b"<a>", b"", b""),
    "far.xlsx": (b'<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576">'
                 b"<v>1</v></c></row>", b"", b"", b""),
    "rows.ods": (b"", b"<table:table-row><table:table-cell office:value-type='string'><text:p>a"
                 b"</text:p></table:table-cell></table:table-row>", b"", b""),
    "repeated.ods": (b"<table:table-row table:number-rows-repeated='2000000000'><table:table-cell "
                     b"table:number-columns-repeated='2000000000' office:value-type='float' "
                     b"office:value='1'/></table:table-row>", b"", b"", b""),
    "deep.ods": (b"", b"<table:table-row>", b"", b""),
    "text.ods": (b"<table:table-row><table:table-cell office:value-type='string'><text:p>", b"x",
                 b"</text:p></table:table-cell></table:table-row>", b""),
}  # fmt: skip
QUICK = {"far.xlsx"}
NAMES = "http://schemas.openxmlformats.org/"
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"


def write_workbook(path: Path, rows: tuple[bytes, bytes, bytes], string: bytes) -> None:
    """Write a workbook with one sheet.

    Args:
        rows: what it begins with, what follows for a gigabyte, and what it ends with.
        string: stands among the shared strings again and again, for a gigabyte.
    """
    book, of = f"{NAMES}spreadsheetml/2006/main", f"{NAMES}officeDocument/2006/relationships"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:

        def put(name: str, head: str, pieces: tuple[bytes, bytes, bytes], tail: str) -> None:
            with out.open(name, "w", force_zip64=True) as file:
                file.write(head.encode() + pieces[0])
                if pieces[1]:
                    piece = pieces[1] * ((1 << 20) // len(pieces[1]))
                    for _ in range(1000):
                        file.write(piece)
                file.write(pieces[2] + tail.encode())

        if path.suffix == ".ods":
            out.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
            manifest = f"<m:manifest xmlns:m='{OASIS}manifest:1.0'/>"
            out.writestr("META-INF/manifest.xml", manifest)
            spaces = "".join(
                f" xmlns:{name}='{OASIS}{name}:1.0'" for name in ("office", "table", "text")
            )
            head = (
                f"<office:document-content{spaces}><office:body><office:spreadsheet>"
                "<table:table table:name='S'>"
            )
            tail = "</table:table></office:spreadsheet></office:body></office:document-content>"
            put("content.xml", head, rows, tail)
            return
        kinds = {"r1": ("worksheet", "worksheets/sheet1.xml")}
        if string:
            kinds["r2"] = ("sharedStrings", "sharedStrings.xml")
        links = "".join(
            f'<Relationship Id="{id_}" Type="{of}/{kind}" Target="{target}"/>'
            for id_, (kind, target) in kinds.items()
        )
        relations = f'<Relationships xmlns="{NAMES}package/2006/relationships">'
        parts = {
            "[Content_Types].xml": f'<Types xmlns="{NAMES}package/2006/content-types"/>',
            "_rels/.rels": f'{relations}<Relationship Id="r1" Type="{of}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{book}" xmlns:r="{of}"><sheets><sheet name="S" '
            'sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f"{relations}{links}</Relationships>",
        }
        for name, text in parts.items():
            out.writestr(name, text)
        head = f'<worksheet xmlns="{book}"><sheetData>'
        put("xl/worksheets/sheet1.xml", head, rows, "</sheetData></worksheet>")
        if string:
            head, tail = f'<sst xmlns="{book}">', "</sst>"
            if not string.startswith(b"<"):
                head, tail = f"{head}<si><t>", f"</t></si>{tail}"
            put("xl/sharedStrings.xml", head, (b"", string, b""), tail)


@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=() if kind in QUICK else long) for kind in WORKBOOKS
])  # fmt: skip
def test_workbooks(rowfall: Any, tmp_path: Path, kind: str) -> None:
    """610 MiB were taken of 512: the process that reads a sheet had half a GiB besides."""
    begin, each, end, string = WORKBOOKS[kind]
    path = tmp_path / kind
    write_workbook(path, (begin, each, end), string)
    own = {"HOME": str(rowfall.home), "ROWFALL_HOME": str(rowfall.home / "state")}
    words = bombs.rowfall("load", str(path), "--table", "t", "--memory", "512MiB")
    taken = bombs.measure(words, rowfall.cwd, {**os.environ, **own}, 2 * SECONDS)
    assert taken.peak <= MOST // 2, f"{taken.peak / (1 << 20):.0f} MiB\n{taken.out}"
    assert taken.seconds <= SECONDS, taken.out
    assert taken.code == 4, taken.out
    assert kind in taken.out
    assert "Traceback" not in taken.out
    if not kind.startswith("deep"):
        few = "the sheet takes more than the 512MiB of --memory"
        said = "Cell limit exceeded" if kind == "repeated.ods" else few
        assert said in " ".join(taken.out.split())
