"""One plain chDB session as a process of its own: the opponent, and the check after every run.

Reads one JSON object from stdin, so that keys never travel in the arguments:
    {"path": data folder, "run": [statements], "ask": [SELECTs]}
Writes one to stdout: {"seconds": of the statements, "answers": [rows of each SELECT]}.

It does what a careful user's script does and nothing that costs: no progress, no result kept.
"""

from __future__ import annotations

import json
import os
import sys
import time

import chdb


def main() -> None:
    request = json.load(sys.stdin)
    connection = chdb.connect(request["path"])
    start = time.perf_counter()
    for statement in request["run"]:
        connection.query(statement, "Null")
    seconds = time.perf_counter() - start
    answers = [
        json.loads(bytes(connection.query(text, "JSONCompact").bytes()))["data"]
        for text in request["ask"]
    ]
    connection.close()
    sys.stdout.write(json.dumps({"seconds": seconds, "answers": answers}))
    sys.stdout.flush()
    # Everything is closed; skipping the interpreter's own shutdown saves the opponent time.
    os._exit(0)


if __name__ == "__main__":
    main()
