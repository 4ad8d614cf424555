"""Headers of tar archives, read within bounds: whoever wrote one says how long it is."""

from __future__ import annotations

import tarfile
from typing import Any, cast

MOST_BYTES = 4 << 20
"""Bytes of what stands in front of a member: its long name, or properties as pax writes them. 2 GB
of them were 9 MB of gzip, and the library took 4 GiB for them."""
_MOST_BLOCKS = 1 << 15
"""Blocks of the map of a sparse file, of 21 stretches each."""
_PROPERTIES = frozenset({
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
})  # fmt: skip


class BoundedHeader(tarfile.TarInfo):
    """The header of a member. The maps of sparse files are skipped: none of them is read."""

    # The names are the library's own, which it keeps for classes like this one.

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _PROPERTIES and self.size > MOST_BYTES:
            raise tarfile.ReadError(
                f"{self.size:,} bytes of properties stand in front of a member at byte "
                f"{self.offset:,}"
            )
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return found

    def _proc_sparse(self, tar: Any) -> tarfile.TarInfo:
        own = cast("Any", self)
        extended, blocks = own._sparse_structs[1], 0
        del own._sparse_structs
        while extended:
            block = tar.fileobj.read(tarfile.BLOCKSIZE)
            blocks += 1
            if len(block) < tarfile.BLOCKSIZE or blocks > _MOST_BLOCKS:
                raise tarfile.ReadError(f"the map of the sparse file {self.name} does not end")
            extended = bool(block[504])
        own.sparse = []
        self.offset_data = tar.fileobj.tell()
        tar.offset = self.offset_data + own._block(self.size)
        return self

    def _proc_gnusparse_00(self, member: Any, *_: object) -> None:
        member.sparse = []

    _proc_gnusparse_01 = _proc_gnusparse_10 = _proc_gnusparse_00
