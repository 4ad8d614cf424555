"""Members of archives as files: zip, tar, packed tar; damaged ones and odd names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow
import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.faulty import Faulty
from lab.http import Web
from lab.seaweed import Seaweed

ROWS = 3_000
Members = Mapping[str, bytes]


def rows(first: int, count: int = ROWS, header: str = "id,city\n") -> bytes:
    text = "".join(f"{n},city {n % 7}\n" for n in range(first, first + count))
    return f"{header}{text}".encode()


def zipped(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def tarred(members: Members) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def zstd(data: bytes) -> bytes:
    packed: bytes = pyarrow.compress(data, codec="zstd", asbytes=True)
    return packed


KINDS: dict[str, Callable[[Members], bytes]] = {
    ".zip": zipped,
    ".tar": tarred,
    ".tar.gz": lambda members: gzip.compress(tarred(members)),
    ".tgz": lambda members: gzip.compress(tarred(members)),
    ".tar.zst": lambda members: zstd(tarred(members)),
    ".tar.bz2": lambda members: bz2.compress(tarred(members)),
    ".tar.xz": lambda members: lzma.compress(tarred(members)),
}
TWO = {"2023/a.csv": rows(0), "2024/b.csv": rows(ROWS), "README": b"Two years.\n"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(1)
def test_members_are_files(shell: Shell, kind: str) -> None:
    shell.write(f"sales{kind}", KINDS[kind](TWO))
    done = shell.ok("load", f"sales{kind}")
    assert shell.row("SELECT count(), sum(id) FROM sales") == [6_000, sum(range(6_000))]
    assert "1 member skipped (no extension of a format): README" in done.talk
    assert "2 files" in done.talk
    assert "the engine reads it instead" not in done.talk
    again = shell.ok("load", f"sales{kind}")
    assert "nothing to load" in again.talk.lower() or "0 rows" in again.talk
    assert shell.row("SELECT count() FROM sales") == [6_000]


def test_globs_of_archives_and_of_members(shell: Shell) -> None:
    shell.write("exports/one.zip", zipped(TWO))
    shell.write("exports/two.zip", zipped({"c.csv": rows(6_000), "d.tsv": b"x\ty\n1\t2\n"}))
    shell.ok("load", "exports/*.zip::**/*.csv", "--table", "t", "--add-column", "file=_file")
    assert shell.row("SELECT count(), uniq(file), min(file) FROM t") == [9_000, 3, "a.csv"]
    shell.ok("load", "exports/one.zip :: 2023/a.csv")
    assert shell.row("SELECT count() FROM a") == [3_000]
    failed = shell.ends(4, "load", "exports/one.zip::*.csv")
    assert "no member of" in failed.talk
    assert "* stops at /" in failed.talk
    failed = shell.ends(2, "load", "exports/one.zip", "exports/x.csv")
    assert "archives or other files" in failed.talk


def test_a_new_version_of_an_archive_is_loaded(shell: Shell) -> None:
    shell.write("a.zip", zipped({"a.csv": rows(0)}))
    shell.ok("load", "a.zip", "--table", "t")
    shell.write("a.zip", zipped({"a.csv": rows(0), "b.csv": rows(ROWS)}))
    done = shell.ok("load", "a.zip", "--table", "t")
    assert "changed since an earlier version" in done.talk


def test_folders_of_members_give_columns(shell: Shell) -> None:
    days = {f"dt=2024-01-0{n}/x.csv": rows(n * ROWS) for n in (1, 2)}
    shell.write("days.zip", zipped(days))
    shell.ok("load", "days.zip")
    assert shell.rows("SELECT toString(dt), count() FROM days GROUP BY dt ORDER BY dt") == [
        ["2024-01-01", ROWS], ["2024-01-02", ROWS],
    ]  # fmt: skip


def test_members_that_are_packed_or_foreign(shell: Shell) -> None:
    shell.write("packed.tar", tarred({
        "a.csv.gz": gzip.compress(rows(0)), "b.csv.bz2": bz2.compress(rows(ROWS)),
        "c.csv": rows(2 * ROWS),
    }))  # fmt: skip
    shell.ok("load", "packed.tar", "--decoder", "never")
    assert shell.row("SELECT count(), sum(id) FROM packed") == [9_000, sum(range(9_000))]
    text = "id;preis\n" + "".join(f"{n};1.000,5{n % 10}\n" for n in range(500))
    shell.write("odd.zip", zipped({"ä.csv": text.encode("latin-1")}))
    shell.ok("load", "odd.zip", "--encoding", "latin-1", "--decimal", ",", "--thousands", ".")
    assert shell.row("SELECT count(), min(preis) FROM odd") == [500, 1000.5]
    shell.write("events.tgz", gzip.compress(tarred({"e.jsonl": b'{"a":1}\n{"a":2}\n'})))
    shell.ok("load", "events.tgz")
    assert shell.row("SELECT sum(a) FROM events") == [3]


def test_what_systems_leave_in_archives(shell: Shell) -> None:
    """macOS writes a ._ file beside each; nothing is written under a member's name."""
    shell.write("deep/mac.zip", zipped({
        "a.csv": rows(0), "__MACOSX/._a.csv": b"\0\5\26\7", ".DS_Store": b"\0", "_tmp/x.csv": b"1",
        "../../evil.csv": rows(ROWS), "/absolute.csv": rows(2 * ROWS),
    }))  # fmt: skip
    done = shell.ok("load", "deep/mac.zip")
    assert "3 members skipped (hidden or of macOS)" in done.talk
    assert shell.row("SELECT count(), sum(id) FROM mac") == [9_000, sum(range(9_000))]
    assert not (shell.folder / "evil.csv").exists()
    assert not Path("/absolute.csv").exists()


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def flipped(data: bytes) -> bytes:
    """One bit of the first member is wrong, of the directory none."""
    at = data.index(b"city 3") if b"city 3" in data else 60
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def encrypted(data: bytes) -> bytes:
    at = data.index(b"PK\x01\x02")
    flags = struct.unpack_from("<H", data, at + 8)[0] | 1
    return data[: at + 8] + struct.pack("<H", flags) + data[at + 10 :]


def twice(name: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, rows(0))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(name, rows(1))
    return data.getvalue()


WRONG: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "cut zip": (".zip", lambda: cut(zipped(TWO)), "damaged or cut off"),
    "cut tar": (".tar", lambda: cut(tarred(TWO)), "damaged"),
    # Behind the last member, so that each one is whole.
    "tar without end": (".tar", lambda: tarred(TWO).rstrip(b"\0"), "damaged"),
    "cut tgz": (".tgz", lambda: cut(gzip.compress(tarred(TWO))), "ends in the middle"),
    "cut tar.zst": (".tar.zst", lambda: cut(zstd(tarred(TWO))), "tar"),
    "damaged tgz": (".tgz", lambda: gzip.compress(tarred(TWO))[:-8] + b"12345678", "broken"),
    "encrypted": (".zip", lambda: encrypted(zipped(TWO)), "is encrypted"),
    "nested": (".zip", lambda: zipped({"b.zip": zipped(TWO)}), "holds another archive, b.zip"),
    "duplicate": (".zip", lambda: twice("a.csv"), "holds a.csv 2 times"),
    "lzma": (".zip", lambda: zipped(TWO, zipfile.ZIP_LZMA), "method 14 (lzma)"),
    "parquet": (".zip", lambda: zipped({"a.parquet": b"PAR1 PAR1"}), "Parquet inside an archive"),
    "no archive": (".tar", lambda: rows(0), "not a tar archive"),
    "empty": (".zip", lambda: zipped({}), "no data file in the archive"),
}


@pytest.mark.parametrize("name", WRONG)
def test_archives_that_cannot_be_read_whole(shell: Shell, name: str) -> None:
    end, content, says = WRONG[name]
    shell.write(f"data{end}", content())
    failed = shell.run("load", f"data{end}", "--table", "t")
    assert failed.code in (2, 4), failed.err
    assert says in failed.talk
    assert "hint:" in failed.err


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [ROWS, 100])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_with_a_wrong_checksum_fails_alone(shell: Shell, method: int, count: int) -> None:
    """Nothing of it is visible, and the other member is loaded."""
    data = zipped({"a.csv": rows(0, count), "b.csv": rows(count, count)}, method)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo("a.csv")
    at = data.index(b"PK\x01\x02") + 16  # the checksum of the first member in the directory
    shell.write("a.zip", data[:at] + struct.pack("<I", info.CRC ^ 1) + data[at + 4 :])
    failed = shell.ends(1, "load", "a.zip", "--table", "t")
    assert "Bad CRC-32" in failed.talk
    assert shell.row("SELECT count(), min(id) FROM t") == [count, count]


@pytest.mark.long
def test_zip64(shell: Shell) -> None:
    """More members than 16 bits count, which is what the larger directory is for."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for n in range(0x10000 + 10):
            archive.writestr(zipfile.ZipInfo(f"{n}.txt"), b"")
        with archive.open("a.csv", "w", force_zip64=True) as member:
            member.write(rows(0))
    shell.write("many.zip", data.getvalue())
    shell.ok("load", "many.zip::*.csv")
    assert shell.row("SELECT count() FROM many") == [ROWS]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [".zip", ".tar", ".tgz"])
def test_archives_in_a_bucket(shell: Shell, s3: Seaweed, bucket: str, kind: str) -> None:
    s3.put(bucket, f"in/sales{kind}", KINDS[kind](TWO))
    shell.ok("load", f"s3://{bucket}/in/*{kind}::**/*.csv", "--table", "t", env=s3.env)
    assert shell.row("SELECT count(), sum(id) FROM t") == [6_000, sum(range(6_000))]


@pytest.mark.parametrize("decoder", ["auto", pytest.param("never", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [".tar", ".zip"])
def test_many_small_members(
    shell: Shell, s3: Seaweed, bucket: str, kind: str, decoder: str
) -> None:
    """Each took 2 ms until its pipe was noticed, and a request."""
    many = {f"{n:03}.csv": b"id,city\n%d,Oslo\n" % n for n in range(300)}
    s3.put(bucket, f"many{kind}", KINDS[kind](many))
    with Faulty(s3.port) as proxy:
        env = {**s3.env, "AWS_ENDPOINT_URL": proxy.endpoint}
        load = ("load", f"s3://{bucket}/many{kind}", "--table", "t", "--decoder", decoder)
        shell.ok(*load, env=env)
        # For each member of a zip file the library reads a header and the bytes behind it.
        assert len(proxy.requests) < (40 if kind == ".tar" else 100)
    assert shell.row("SELECT count(), sum(id), any(city) FROM t") == [300, sum(range(300)), "Oslo"]


def test_archives_of_a_web_server(shell: Shell, web: Web) -> None:
    """With and without ranges; behind a query, too."""
    address = web.put("archives/sales.zip", zipped(TWO))
    for number, source in enumerate((address, f"{address}?v=1", f"{address}?v=1::2024/b.csv")):
        done = shell.ok("load", source, "--table", f"t{number}", "--decoder", "always")
        assert "the engine reads it instead" not in done.talk
        count = 3_000 if "b.csv" in source else 6_000
        assert shell.row(f"SELECT count() FROM t{number}") == [count]


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def test_members_are_sent_to_a_server(lake: Lake) -> None:
    lake.shell.write("sales.zip", zipped(TWO))
    lake.load("sales.zip", "--table", "sales", "--verify")
    assert lake.row("SELECT count(), sum(id) FROM {db}.sales") == [6_000, sum(range(6_000))]
