"""The push program of "Load Data at GiB/s": random payload into a server that throws it away.

    python bench/push.py [--rows 2000000] [--bytes 512] [--rounds 3] [--side TEXT]

MB/s of payload that rowfall makes and frames as LOAD DATA, over one and several connections. Beside
it the floors: the same packet out of memory again and again into the same server, and memcpy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure
from bench.sources import ROOT, cpu_of, rowfall

_PIECE = 1 << 20
# Of a packet, as rowfall-decode writes them.
_PACKET = 128 << 10


def memory(size: int) -> None:
    """Copy so many bytes from memory to memory."""
    source, to = bytes(_PIECE), bytearray(_PIECE)
    for _ in range(size // _PIECE):
        to[:] = source


def sent(port: int, size: int) -> None:
    """Send so many bytes from memory as one LOAD DATA."""
    from rowfall.systems.mysql.client import Login, connect
    from rowfall.systems.mysql.wire import load_data

    with connect(Login("127.0.0.1", port, "u", None, "d"), sends=True) as connection:
        piece = (b"x" * 519 + b"\n") * (_PACKET // 520)
        load_data(connection, "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
                  (piece for _ in range(size // len(piece))), _PACKET)  # fmt: skip


def sent_by(connections: int, port: int, size: int) -> None:
    """Send so many bytes from memory over several connections at once."""
    # A thread waits in the system all the time, without Python's lock.
    share = size // connections
    senders = [threading.Thread(target=sent, args=(port, share)) for _ in range(connections)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--bytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", default="", help="only those that have this in their name")
    asked = parser.parse_args()
    payload = asked.rows * asked.bytes
    measure.adopt_orphans()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        sink = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/lab/mysql_sink.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        port = int(sink.stdout.readline() if sink.stdout else 0)

        def load(*more: str) -> Callable[[], None]:
            rows = f"generate://random?rows={asked.rows}&bytes={asked.bytes}"
            to = f"singlestore://u:p@127.0.0.1:{port}/d"
            command = rowfall("load", rows, "--to", to, "--table", "t", "--force", *more)
            return lambda: (measure.run(command), None)[1]

        sides: Mapping[str, Callable[[], None]] = {
            "memcpy": lambda: memory(payload),
            "from memory, one connection": lambda: sent_by(1, port, payload),
            "from memory, two connections": lambda: sent_by(2, port, payload),
            "rowfall --streams 1": load("--streams", "1"),
            "rowfall --streams 2": load("--streams", "2"),
            "rowfall --streams 4": load("--streams", "4"),
            "rowfall --streams 2 --prefill": load("--streams", "2", "--prefill"),
        }
        sides = {name: run for name, run in sides.items() if asked.side in name}
        taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
        for _ in range(asked.rounds):
            for name, run in sides.items():
                before, own, began = cpu_of(sink.pid), os.times(), time.monotonic()
                run()
                seconds, now = time.monotonic() - began, os.times()
                cpu = sum(now[:4]) - sum(own[:4])
                taken[name].append((seconds, cpu, cpu_of(sink.pid) - before))
        sink.communicate()
    print(f"{asked.rows:,} rows of {asked.bytes} bytes, {asked.rounds} rounds\n")
    print("| side | MiB/s | seconds | CPU | CPU of the server |\n|---|---|---|---|---|")
    for name, found in taken.items():
        wall, cpu, server = (measure.median(column) for column in zip(*found, strict=True))
        rate = payload / wall / 2**20
        print(f"| {name} | {rate:,.0f} | {wall:.2f} | {cpu:.2f} | {server:.2f} |")


if __name__ == "__main__":
    main()
