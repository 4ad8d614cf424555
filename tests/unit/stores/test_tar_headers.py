"""Headers of tar archives that say they are very long."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from rowfall.stores.tar_headers import MOST_BYTES, BoundedHeader

ROWS = b"a,b\n1,2\n"


class Endless(io.RawIOBase):
    """Gives a header and then one byte again and again; counts what is read."""

    def __init__(self, head: bytes, more: bytes) -> None:
        self._head, self._more, self.taken = io.BytesIO(head), more, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._head.seek(offset, whence)

    def tell(self) -> int:
        return self._head.tell()

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        self.taken += size
        assert self.taken < 64 << 20
        found = self._head.read(size)
        left = size - len(found)
        return found + (self._more * (left // len(self._more) + 1))[:left]


def opened(file: Any) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="r:", tarinfo=BoundedHeader)


def header(kind: bytes, size: int, **pax: str) -> bytes:
    info = tarfile.TarInfo("a.csv")
    info.type, info.size, info.pax_headers = kind, size, dict(pax)
    return info.tobuf(tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
)
def test_properties_without_an_end_are_refused(kind: bytes) -> None:
    file = Endless(header(kind, MOST_BYTES + 1), b"9")
    with pytest.raises(tarfile.ReadError, match="bytes of properties stand in front of a member"):
        opened(file)
    assert file.taken < 1 << 20


def test_the_map_of_a_sparse_file_that_does_not_end() -> None:
    head = bytearray(header(tarfile.GNUTYPE_SPARSE, 0))
    head[482] = 1
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    more = bytes(504) + b"\1" + bytes(7)
    with pytest.raises(tarfile.ReadError, match=r"map of the sparse file a\.csv does not end"):
        opened(Endless(bytes(head), more))


@pytest.mark.parametrize("version", ["1.0", "0.1", "0.0"])
def test_maps_of_sparse_files_are_not_read(version: str) -> None:
    """Where one was no map, the library looked for a line end in all of the file, 512 bytes on."""
    pax = {"GNU.sparse.name": "a.csv"}
    if version == "1.0":
        pax |= {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    elif version == "0.1":
        pax |= {"GNU.sparse.map": "no,map", "GNU.sparse.size": "9"}
    else:
        pax |= {"GNU.sparse.size": "9", "GNU.sparse.offset": "0", "GNU.sparse.numbytes": "9"}
    size = 1 << 20
    info = tarfile.TarInfo("b.csv")
    info.size = len(ROWS)
    text = header(tarfile.REGTYPE, size, **pax) + b"7" * size
    text += info.tobuf(tarfile.USTAR_FORMAT) + ROWS.ljust(512, b"\0") + bytes(1024)
    with opened(io.BytesIO(text)) as file:
        found = [(one.name, one.issparse()) for one in file]
    assert found == [("a.csv", True), ("b.csv", False)]
