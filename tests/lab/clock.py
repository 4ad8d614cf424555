"""Sets the clock of one running server, and of nothing else on the machine.

ClickHouse has a ``clock_gettime`` of its own, so no preloaded library can stand in for it. It calls
the kernel's by a pointer, and so do all places that it was inlined into. The pointer is set to code
that adds a number of seconds, which may be changed at any time. Monotonic clocks go on as they
were, as they do when a real clock is set; so does ``now()``, unlike ``now64()``.
"""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path

from lab.process import Service

# x86-64: eax = SYS_clock_gettime; push rdi; syscall; pop rdi; if edi is 0 (CLOCK_REALTIME) then
# [rsi] (the seconds) += the number behind the code; ret.
_CODE = bytes.fromhex("b8e4000000 57 0f05 5f 85ff 750a 488b0d04000000 48010e c3")
_FUNCTION = b"clock_gettime"
_LOAD = bytes.fromhex("488b05")  # mov rax, [rip + 4 bytes]: the pointer
_DYNSYM = 11


class NoClockError(Exception):
    """This server's clock cannot be set here."""


class Clock:
    """The clock of a service that runs; a restarted one has its own again.

    Raises:
        NoClockError: another processor or program, or no right to.
    """

    def __init__(self, service: Service) -> None:
        pid = service.pid
        if pid is None or platform.machine() != "x86_64":
            raise NoClockError(f"no running x86-64 process, but {pid} on {platform.machine()}")
        address, size = _function(Path(f"/proc/{pid}/exe"))
        if size < len(_CODE) + 8:
            raise NoClockError(f"its clock_gettime has {size} bytes only")
        try:
            self._memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        except OSError as error:
            raise NoClockError(f"cannot write to its memory: {error.strerror}") from None
        begin = os.pread(self._memory, len(_CODE), address)
        self._seconds = address + len(_CODE)
        if _LOAD not in begin:
            return  # a clock was put here before
        end = begin.index(_LOAD) + len(_LOAD) + 4
        (distance,) = struct.unpack_from("<i", begin, end - 4)
        # Frozen: no thread may begin with half of it.
        service.pause()
        try:
            os.pwrite(self._memory, _CODE + bytes(8), address)
            os.pwrite(self._memory, struct.pack("<Q", address), address + end + distance)
        finally:
            service.resume()

    def set(self, seconds: int) -> None:
        """So far from the true time."""
        os.pwrite(self._memory, struct.pack("<q", seconds), self._seconds)

    def close(self) -> None:
        os.close(self._memory)


def _function(program: Path) -> tuple[int, int]:
    """Address and size of the function in a program that is loaded where it says (ELF64)."""
    with program.open("rb") as file:
        head = file.read(64)
        kind, sections = (
            struct.unpack_from("<H", head, 16)[0],
            struct.unpack_from("<Q", head, 40)[0],
        )
        each, count = struct.unpack_from("<HH", head, 58)
        if head[:5] != b"\x7fELF\x02" or kind != 2:  # ET_EXEC
            raise NoClockError("its program may be loaded anywhere")
        file.seek(sections)
        table = [struct.unpack("<IIQQQQIIQQ", file.read(each)[:64]) for _ in range(count)]
        for _, type_, _, _, offset, size, link, *_ in table:
            if type_ != _DYNSYM:
                continue
            file.seek(offset)
            symbols = file.read(size)
            file.seek(table[link][4])
            names = file.read(table[link][5])
            for name, _, _, at, address, length in struct.iter_unpack("<IBBHQQ", symbols):
                if at and names[name : names.index(b"\0", name)] == _FUNCTION:
                    return address, length
    raise NoClockError("its program has no clock_gettime of its own")
