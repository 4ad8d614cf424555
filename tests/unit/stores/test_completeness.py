"""Cut zstd and lz4 streams are told from whole ones, wherever they are cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rowfall.stores import completeness
from rowfall.stores.completeness import check, check_file, check_remote

BLOCKS = (b"1,a\n2,b\n", b"3,c\n")
SKIPPED = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"


def zstd(flags: int = 0, *, head: int = 1, check: int = 0, run: int = 0) -> bytes:
    """A frame of raw blocks; ``head`` bytes after the flags, ``run`` bytes as one RLE block."""
    out = (0xFD2FB528).to_bytes(4, "little") + bytes([flags | check << 2]) + b"\x50" * head
    for number, block in enumerate(BLOCKS):
        last = number == len(BLOCKS) - 1 and not run
        out += (len(block) << 3 | last).to_bytes(3, "little") + block
    if run:
        out += (run << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"
    return out + b"\x07" * 4 * check


def lz4(*, sums: int = 0, size: int = 0, check: int = 0, dictionary: int = 0) -> bytes:
    """A frame of blocks that are not packed."""
    flags = 0x60 | sums << 4 | size << 3 | check << 2 | dictionary
    out = (0x184D2204).to_bytes(4, "little") + bytes([flags, 0x40])
    out += b"\x09" * (8 * size + 4 * dictionary) + b"\x0a"
    for block in BLOCKS:
        out += (len(block) | 1 << 31).to_bytes(4, "little") + block + b"\x08" * 4 * sums
    return out + bytes(4) + b"\x07" * 4 * check


FRAMES = {
    "zstd": [
        zstd(), zstd(check=1), zstd(run=1000), zstd(0x20, head=1), zstd(0x40, head=3),
        zstd(0x60, head=2), zstd(0x80 | 3, head=9), zstd(0xC0 | 1, head=10),
        zstd(0xE0 | 2, head=10),
    ],
    "lz4": [
        lz4(), lz4(check=1), lz4(sums=1), lz4(size=1), lz4(dictionary=1),
        lz4(sums=1, size=1, check=1, dictionary=1),
    ],
}  # fmt: skip
CASES = [(name, frame) for name, frames in FRAMES.items() for frame in frames]


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda at, length: data[at : at + length]


@pytest.mark.parametrize(("name", "frame"), CASES)
def test_every_cut_is_seen(name: str, frame: bytes) -> None:
    for whole in (frame, frame + frame, SKIPPED + frame, frame + SKIPPED):
        assert check(reader(whole), len(whole), name) is None
        assert check_remote(reader(whole), len(whole), name) is None
    for size in range(1, len(frame)):
        for before in (b"", frame, SKIPPED):
            cut = before + frame[:size]
            said = check(reader(cut), len(cut), name)
            assert said == f"its {name} stream ends in the middle", size
    for size in range(len(frame) + 1, len(frame + SKIPPED)):
        cut = (frame + SKIPPED)[:size]
        assert check(reader(cut), len(cut), name), size


def test_remote_lz4_costs_two_requests() -> None:
    asked: list[tuple[int, int]] = []
    frame = lz4(check=1)

    def read(at: int, length: int) -> bytes:
        asked.append((at, length))
        return frame[at : at + length]

    assert check_remote(read, len(frame), "lz4") is None
    assert len(asked) == 2


@pytest.mark.parametrize(("name", "frame"), CASES)
def test_remote_cuts_are_seen(name: str, frame: bytes) -> None:
    for size in range(1, len(frame)):
        said = check_remote(reader(frame[:size]), size, name)
        # Four bytes of the tail say "end" by chance only where the data holds four zero bytes.
        assert said == f"its {name} stream ends in the middle", size


def test_the_window_moves_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completeness, "_WINDOW", 64)
    asked: list[tuple[int, int]] = []
    body = zstd() * 50

    def read(at: int, length: int) -> bytes:
        asked.append((at, length))
        return body[at : at + length]

    assert check_remote(read, len(body), "zstd") is None
    assert len(asked) <= len(body) / 32
    assert all(at + length <= len(body) for at, length in asked)


def test_what_is_not_judged() -> None:
    def never(at: int, length: int) -> bytes:
        raise AssertionError

    for name in ("none", "gzip", "xz", "bz2"):
        assert check(never, 5, name) is None
        assert check_remote(never, 5, name) is None
    assert check_remote(never, None, "lz4") is None
    assert check_remote(never, completeness.REMOTE_MOST + 1, "zstd") is None
    # The engine raises for these.
    assert check(reader(b"not a frame"), 11, "zstd") is None
    assert check(reader(zstd() + b"garbage"), len(zstd()) + 7, "zstd") is None


def test_local_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.zst"
    path.write_bytes(zstd(check=1))
    assert check_file(str(path), path.stat().st_size, "zstd") is None
    path.write_bytes(zstd(check=1)[:-1])
    assert check_file(str(path), path.stat().st_size, "zstd")
