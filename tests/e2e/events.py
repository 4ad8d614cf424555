"""Makes event archives as people have them: the type of an event decides about its payload."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

Payload = Callable[[random.Random, int], Any]


def _user(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(10**6)
    return {"id": number, "login": f"u{number % 977}", "site_admin": number % 50 == 0}


def _issue(rng: random.Random, n: int) -> dict[str, Any]:
    return {
        "number": n, "title": rng.choice(["Größe", 'a "b" \\ c', "x\n\ty", "\U0001f600 ok", ""]),
        "user": _user(rng), "labels": [{"name": f"l{i}", "color": None} for i in range(n % 3)],
        "milestone": {"title": "1.0", "open": n % 5} if n % 4 == 0 else None,
        "locked": n % 2 == 0,
    }  # fmt: skip


def _commit(rng: random.Random, n: int) -> dict[str, Any]:
    return {"sha": f"{rng.getrandbits(80):020x}", "message": "fix #1 {[}", "distinct": n % 3 > 0}


PAYLOADS: dict[str, Payload] = {
    "PushEvent": lambda r, n: {
        "push_id": 10**10 + n, "size": n % 4, "ref": "refs/heads/main",
        "commits": [_commit(r, n + i) for i in range(n % 4)],
    },
    "IssuesEvent": lambda r, n: {"action": "opened", "issue": _issue(r, n)},
    "IssueCommentEvent": lambda r, n: {
        "action": "created", "issue": _issue(r, n), "comment": {"id": n, "body": "x" * (n % 60)}
    },
    "WatchEvent": lambda _r, _n: {"action": "started"},
    "CreateEvent": lambda _r, n: {"ref": None if n % 2 else "v1", "ref_type": "tag", "size": "big"},
    "ForkEvent": lambda r, n: {"forkee": {"id": n, "owner": _user(r), "score": n / 8}},
    "ReleaseEvent": lambda _r, n: {"release": {"assets": [], "draft": False, "size": n * 1.5}},
    "GollumEvent": lambda _r, n: {"pages": [{"action": "edited", "rev": n}, {"title": "t"}]},
    "PublicEvent": lambda _r, _n: {},
    "MemberEvent": lambda r, _n: {"member": _user(r), "action": "added", "size": [1, 2]},
}  # fmt: skip


def event(rng: random.Random, number: int) -> dict[str, Any]:
    """Return one event; the organisation is there for one in three."""
    kind = rng.choice([*PAYLOADS, "PushEvent", "PushEvent", "WatchEvent"])
    made = {
        "id": str(40_000_000_000 + number),
        "type": kind,
        "actor": _user(rng),
        "repo": {"id": number % 321, "name": f"o/r{number % 321}"},
        "payload": PAYLOADS[kind](rng, number),
        "public": True,
        "created_at": f"2024-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
    }
    if number % 3 == 0:
        made["org"] = {"id": number % 7, "login": f"org{number % 7}"}
    return made


def write_archive(folder: Path, files: int, each: int) -> list[dict[str, Any]]:
    """Write ``hour-N.json.gz`` as an archive has them; return the events."""
    rng = random.Random(17)
    folder.mkdir()
    events = [event(rng, n) for n in range(files * each)]
    for number in range(files):
        lines = [
            json.dumps(e, ensure_ascii=number % 2 == 0, separators=(",", ":"))
            for e in events[number * each : (number + 1) * each]
        ]
        data = ("\n".join(lines) + "\n").encode()
        (folder / f"hour-{number}.json.gz").write_bytes(gzip.compress(data, 1))
    return events
