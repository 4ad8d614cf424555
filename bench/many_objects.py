"""Memory, requests and time of a followed prefix with millions of objects.

    python bench/many_objects.py [--objects 10000000] [--polls 60] [--growing|--random]
    python bench/many_objects.py --files 1000000
    python bench/many_objects.py --record postgresql|mariadb|duckdb|clickhouse|kafka|iceberg

The listing API of S3 is played by a small server here, which makes each page of names from their
numbers: no service holds ten million objects on a laptop. What is measured is rowfall's own part: a
watch with a record that knows all of them. Prints one JSON object.

With ``--files`` so many real files that lie in a folder at once are loaded by a real command into a
data folder: seconds, memory of all its processes together, whether each row is there once.

With ``--record`` what a million loaded objects cost in the record of a target, and in rowfall:
lines as loads of 100 files each leave them, old ones, are packed as a follower packs them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record_room

_HEAD = (
    '<?xml version="1.0"?><ListBucketResult><Name>many</Name><Prefix>in/</Prefix><MaxKeys>1000'
    "</MaxKeys>"
)
_ITEM = (
    "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    '<ETag>"{tag}"</ETag><Size>1000</Size><StorageClass>STANDARD</StorageClass></Contents>'
)


class Pages(BaseHTTPRequestHandler):
    """Answers ListObjectsV2 for keys ``in/NNNNNNNNNN.csv``, and for those that were added."""

    objects = 0
    added: ClassVar[list[str]] = []
    requests = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path.strip("/").startswith("add/"):
            Pages.added = sorted([*Pages.added, url.path.partition("add/")[2]])
            self._answer(b"", "text/plain")
            return
        if url.path.strip("/") == "requests":
            self._answer(str(Pages.requests).encode(), "text/plain")
            return
        Pages.requests += 1
        after = query.get("start-after", "")
        first = 0
        if after.startswith("in/"):
            digits = after[3:13].ljust(10, "0")
            first = int(digits) + (after >= f"in/{digits}.csv") if digits.isdigit() else 1 << 60
        numbers = range(first, min(first + 1000, self.objects))
        keys = [f"in/{number:010}.csv" for number in numbers]
        high = keys[-1] if len(keys) == 1000 else "in/~"
        keys = sorted([*keys, *(key for key in self.added if after < key <= high)])[:1000]
        body = "".join(_ITEM.format(key=key, tag=f"{hash(key) & 0xFFFFFFFF:032x}") for key in keys)
        more = "true" if len(keys) == 1000 else "false"
        text = (
            f"{_HEAD}<KeyCount>{len(keys)}</KeyCount><IsTruncated>{more}</IsTruncated>{body}"
            "</ListBucketResult>"
        )
        self._answer(text.encode(), "application/xml")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(objects: int) -> None:
    Pages.objects = objects
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def measure(given: argparse.Namespace, port: int) -> dict[str, object]:
    from urllib.request import urlopen

    from rowfall.core.options import Options
    from rowfall.run.object_watch import ObjectWatch, WatchRules
    from rowfall.sources.base import ListedObject
    from rowfall.stores.s3 import S3

    os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_REGION="us-east-1")  # noqa: S106 - of a server that asks for none
    os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
    new: set[str] = set()

    def loaded(objects: Sequence[ListedObject]) -> list[bool]:
        return [item.name not in new for item in objects]

    def requests() -> int:
        with urlopen(f"http://127.0.0.1:{port}/requests") as answer:
            return int(answer.read())

    watch = ObjectWatch(S3(["s3://many/in/"], Options()), WatchRules(poll=1.0), loaded, print)
    begun, cpu = time.monotonic(), time.process_time()
    while watch._listings[0]._first:
        watch.look(0)
    first, first_cpu = time.monotonic() - begun, time.process_time() - cpu
    polls, times, draw = [], [], random.Random(1)  # noqa: S311 - the same names each time
    for number in range(given.polls):
        name = f"in/{given.objects + number:010}.csv"
        if given.random:
            name = f"in/{draw.randrange(given.objects):010}x.csv"
        new.add(f"s3://many/{name}")
        with urlopen(f"http://127.0.0.1:{port}/add/{name}"):
            put = time.monotonic()
        before, looks = requests(), 0
        while not watch.ready:
            began = time.monotonic()
            watch.look(0)
            looks += 1
            if not watch.ready:
                time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
        polls.append((requests() - before) / looks)
        times.append(time.monotonic() - put)
        taken = watch.take(100, 1 << 40)
        new -= {item.name for item in taken}
        watch.done(taken)
    return {
        "objects": given.objects, "names": "random" if given.random else "growing",
        "first_pass_seconds": round(first, 1), "first_pass_cpu": round(first_cpu, 1),
        "memory_most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "requests_a_poll": max(polls, default=0),
        "seconds_to_find": [round(min(times), 3), round(max(times), 3)] if times else [],
    }  # fmt: skip


def load_files(count: int) -> dict[str, object]:
    rowfall = str(Path(sys.executable).with_name("rowfall"))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            place = Path(folder, "in", f"{number % 100:02}")
            if number < 100:
                place.mkdir(parents=True)
            (place / f"{number * 7919 % count:08}.csv").write_text(f"a\n{number}\n")
        more = {**os.environ, "ROWFALL_HOME": f"{folder}/home"}
        load = subprocess.Popen(
            [rowfall, "load", "in/**/*.csv", "--header", "yes", "--table", "t", "--to", "d",
             "--follow", "--quiet"],
            cwd=folder, env=more, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        began, looked, most, own, answer = time.monotonic(), 0.0, 0, 0, ["0"]
        while load.poll() is None:
            sizes = [_resident(pid) for pid in _tree(load.pid)]
            most, own = max(most, sum(sizes)), max(own, *sizes[:1])
            time.sleep(1)
            if time.monotonic() - looked > 15:
                looked = time.monotonic()
                asked = subprocess.run(
                    [rowfall, "query", "SELECT count(), uniqExact(a), sum(a) FROM t", "--to", "d",
                     "--format", "TSV"],
                    cwd=folder, env=more, capture_output=True, text=True, check=False,
                )  # fmt: skip
                answer = asked.stdout.split() or ["0"]
                if int(answer[0]) >= count:
                    load.terminate()
        each_once = answer == [str(count), str(count), str(count * (count - 1) // 2)]
        return {
            "files": count, "seconds": round(time.monotonic() - began), "each_once": each_once,
            "memory_most": most, "memory_most_of_rowfall": own, "exit": load.returncode,
        }  # fmt: skip


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                yield from _tree(int(child))


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def main() -> int:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--objects", type=int, help="10 million by default; with --record, one")
    words.add_argument("--polls", type=int, default=60)
    words.add_argument("--random", action="store_true", help="names that do not grow")
    words.add_argument("--files", type=int, help="load so many real files")
    words.add_argument("--record", choices=sorted(record_room.TARGETS))
    words.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = words.parse_args()
    given.objects = given.objects or (1_000_000 if given.record else 10_000_000)
    if given.serve:
        serve(given.objects)
        return 0
    if given.files:
        print(json.dumps(load_files(given.files)))
        return 0
    if given.record:
        print(json.dumps(record_room.measure(given.record, given.objects)))
        return 0
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", "--objects", str(given.objects)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None  # noqa: S101 - it was asked for
        print(json.dumps(measure(given, int(server.stdout.readline()))))
    finally:
        server.kill()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
