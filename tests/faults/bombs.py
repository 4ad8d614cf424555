"""Small files that unpack to much, and what a command takes while it meets one."""

from __future__ import annotations

import bz2
import lzma
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.process import let_pass

PIECE = 16 << 20
"""Bytes that are packed once: the pieces of a bomb are the same, and stand behind each other."""


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return packer.compress(data) + packer.flush()


def _zstd(data: bytes) -> bytes:
    import pyarrow

    return bytes(pyarrow.compress(data, "zstd"))


def _lz4(data: bytes) -> bytes:
    import pyarrow

    return bytes(pyarrow.compress(data, "lz4"))


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": _gzip,
    ".bz2": lambda data: bz2.compress(data, 9),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": _zstd,
    ".lz4": _lz4,
}
"""By the extension; each of these formats may be put together from pieces."""


def write(path: Path, size: int, *, first: bytes = b"", each: bytes, last: bytes = b"") -> Path:
    """Write ``first``, ``each`` up to ``size`` bytes, and ``last``, packed as the name says."""
    packer = next((p for ext, p in PACKERS.items() if ext and path.name.endswith(ext)), PACKERS[""])
    piece = (each * (PIECE // len(each) + 1))[: PIECE // len(each) * len(each)]
    if packer is PACKERS[""] and piece.strip(b"\0") == b"":
        with path.open("wb") as file:
            file.write(first)
            file.seek(size)
            file.write(last or b"\0")
        return path
    packed = packer(piece)
    with path.open("wb") as file:
        file.write(packer(first) if first else b"")
        for _ in range(max(1, size // len(piece))):
            file.write(packed)
        file.write(packer(last) if last else b"")
    return path


def write_avro(path: Path, size: int, rows: int = 60_000) -> int:
    """Write a block of ``rows`` rows, and one of a single value of ``size`` bytes; of deflate.

    Returns:
        The bytes of the second block and of what stands around it.
    """
    schema = (
        b'{"type":"record","name":"r","fields":'
        b'[{"name":"id","type":"long"},{"name":"a","type":"string"}]}'
    )
    sync, each = b"s" * 16, 1 << 24
    words = [b"avro.codec", b"deflate", b"avro.schema", schema]
    head = b"Obj\x01\x04" + b"".join(_zigzag(len(word)) + word for word in words) + b"\0" + sync
    short = b"".join(_zigzag(n) + b"\x02x" for n in range(rows))
    blocks = [(rows, [(short, 1)])] if rows else []
    blocks.append((1, [(b"\0" + _zigzag(size // each * each), 1), (b"y" * each, size // each)]))
    length = 0
    with path.open("wb") as file:
        file.write(head)
        for count, pieces in blocks:
            packed = []
            for data, times in pieces:
                packer = zlib.compressobj(1, wbits=-15)
                packed += [packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)] * times
            packed.append(zlib.compressobj(1, wbits=-15).flush())
            body = b"".join(packed)
            length = file.write(_zigzag(count) + _zigzag(len(body)) + body + sync)
    return length


def _zigzag(number: int) -> bytes:
    number, found = number << 1, bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def write_zip(path: Path, size: int, name: str, *, first: bytes = b"", each: bytes) -> Path:
    """Write a zip file with one member, ``size`` bytes long, of deflate."""
    piece = each * (PIECE // len(each))
    packer = zlib.compressobj(1, wbits=-15)
    begin = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
    packer = zlib.compressobj(1, wbits=-15)
    packed = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(1, wbits=-15).flush()
    count = max(1, size // len(piece))
    crc = zlib.crc32(first)
    for _ in range(count):
        crc = zlib.crc32(piece, crc)
    total, stored = len(first) + count * len(piece), len(begin) + count * len(packed) + len(end)
    encoded = name.encode()
    sizes = (crc, stored, total & 0xFFFFFFFF, len(encoded), 0)
    head = struct.pack("<5H3I2H", 20, 0, 8, 0, 0x21, *sizes)
    with path.open("wb") as file:
        file.write(b"PK\x03\x04" + head + encoded + begin)
        for _ in range(count):
            file.write(packed)
        file.write(end)
        at = file.tell()
        more = struct.pack("<4H2I", 0, 0, 0, 0, 0, 0)
        file.write(b"PK\x01\x02" + struct.pack("<H", 20) + head[:-2] + more)
        file.write(encoded)
        size_ = file.tell() - at
        file.write(b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, 1, 1, size_, at, 0))
    return path


@dataclass(frozen=True, slots=True)
class Taken:
    """What a command took.

    Attributes:
        peak: bytes of all its processes at a time, as Pss: what is shared counts once.
        seconds: of wall time; ``cpu``: of all its processes.
        quiet: the longest time without a new byte of output.
    """

    code: int
    peak: int
    seconds: float
    cpu: float
    out: str
    quiet: float


def measure(
    command: list[str], cwd: Path, env: Mapping[str, str], seconds: float = 120,
    stdin: Path | None = None,
) -> Taken:  # fmt: skip
    """Run a command and watch the memory of its processes; it is killed after ``seconds``."""
    started = time.monotonic()
    with stdin.open("rb") if stdin else open(os.devnull, "rb") as given:
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=given, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    said: list[bytes] = []
    heard = [started, 0.0]

    def listen() -> None:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), 1 << 16):
            said.append(piece)
            now = time.monotonic()
            heard[:] = [now, max(heard[1], now - heard[0])]

    ears = threading.Thread(target=listen, daemon=True)
    ears.start()
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(pss(pid) for pid in tree(process.pid)))
        if time.monotonic() - started > seconds:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            break
        let_pass(0.02, "memory is measured so often")
    ears.join(5)
    assert process.stdout is not None
    process.stdout.close()
    used = os.times()
    return Taken(
        process.returncode, peak, time.monotonic() - started,
        used.children_user + used.children_system, b"".join(said).decode(errors="replace"),
        max(heard[1], time.monotonic() - heard[0]),
    )  # fmt: skip


def tree(root: int) -> Iterator[int]:
    """Give a process and all that it has started."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(folder.name))
    todo = [root]
    while todo:
        pid = todo.pop()
        yield pid
        todo += parents.get(pid, [])


def pss(pid: int) -> int:
    """The bytes of a process, its share of what it shares."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def rowfall(*args: str) -> list[str]:
    return [sys.executable, "-m", "rowfall", *args]
