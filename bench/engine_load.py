"""One plain chDB session as a process of its own: the opponent, and the check after every run.

Reads one JSON object from stdin, so that keys never travel in the arguments:
    {"path": data folder, "run": [statements], "ask": [SELECTs], "merge": table or nothing}
Writes one to stdout: {"seconds": of the statements, "answers": [rows of each SELECT], "merged":
seconds and CPU seconds until each partition is one part, and until OPTIMIZE FINAL is done}.

It does what a careful user's script does and nothing that costs: no progress, no result kept.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import chdb


def main() -> None:
    request = json.load(sys.stdin)
    connection = chdb.connect(request["path"])
    start = time.perf_counter()
    for statement in request["run"]:
        connection.query(statement, "Null")
    seconds = time.perf_counter() - start
    merged = merge(connection, request["merge"]) if request.get("merge") else None
    answers = [
        json.loads(bytes(connection.query(text, "JSONCompact").bytes()))["data"]
        for text in request["ask"]
    ]
    connection.close()
    sys.stdout.write(json.dumps({"seconds": seconds, "answers": answers, "merged": merged}))
    sys.stdout.flush()
    # Everything is closed; skipping the interpreter's own shutdown saves the opponent time.
    os._exit(0)


def merge(connection: Any, table: str) -> list[tuple[float, float]]:
    """Merge partitions of several parts, then all that OPTIMIZE FINAL finds to do.

    A part that was never merged is written once more by FINAL, also where it is alone.
    """
    start, cpu = time.perf_counter(), time.process_time()
    several = connection.query(
        f"SELECT partition_id FROM system.parts WHERE active AND table = '{table}' "
        "GROUP BY partition_id HAVING count() > 1",
        "TSV",
    )
    times = []
    for statement in (
        [f"PARTITION ID '{one}' FINAL" for one in bytes(several.bytes()).decode().split()],
        ["FINAL SETTINGS optimize_skip_merged_partitions = 1"],
    ):
        for rest in statement:
            connection.query(f"OPTIMIZE TABLE {table} {rest}", "Null")
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return times


if __name__ == "__main__":
    main()
