"""A4: generated rows pushed by LOAD DATA over several connections, and objects that are pulled."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchRound, PublishedFigure
from rowfall.measure.bench import published
from rowfall.measure.bench.a3 import statements_of_mysql
from rowfall.measure.bench.places import DatabaseServer
from rowfall.measure.bench.ways import ArticleTable, BenchWorkshop, Method

FULL_ROWS = 2_000_000
_CONNECTIONS = 4
_DDL = "(document_id BIGINT UNSIGNED NOT NULL PRIMARY KEY, payload VARCHAR({size}) NOT NULL)"
# Files that are there before the clock starts, one for each connection, all at once.
_PUSH = """
import json, sys, threading, pymysql
asked = json.load(sys.stdin)
def send(path):
    connection = pymysql.connect(
        host=asked["host"], port=asked["port"], user=asked["user"], password=asked["password"],
        database=asked["database"], local_infile=True, autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("LOAD DATA LOCAL INFILE '" + path + "' INTO TABLE " + asked["table"])
threads = [threading.Thread(target=send, args=(path,)) for path in asked["files"]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def comparisons(shop: BenchWorkshop) -> Iterator[ArticleTable]:
    """Give the comparisons of the article."""
    for size, full, figure in ((512, FULL_ROWS, published.A4_PUSH),
                               (64, 4 * FULL_ROWS, published.A4_FREE)):  # fmt: skip
        rows = shop.rows(full)
        for name, server in (("MariaDB", shop.places.mysql),
                             ("SingleStore", shop.places.singlestore)):  # fmt: skip
            yield ArticleTable("A4", f"Push {size} bytes a row into {name}", rows,
                             _push(shop, rows, size, server, figure))  # fmt: skip
        source = f"generate://random?rows={rows}&bytes={size}"
        yield ArticleTable("A4", f"Make {size} bytes a row and throw them away", rows, [
            Method("rowfall load generate:// --to null:", ROWFALL,
                   partial(shop.load, source, "null:"), figure),
        ])  # fmt: skip


def _push(
    shop: BenchWorkshop, rows: int, size: int, server: Callable[[], DatabaseServer],
    figure: PublishedFigure,
) -> list[Method]:  # fmt: skip
    def table(name: str) -> DatabaseServer:
        at = server()
        drop, create = f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} {_DDL}"
        statements_of_mysql(shop, at, [drop, create.format(size=size)])
        return at

    def hand() -> BenchRound:
        at = table("by_hand")
        files = shop.files("random", rows, "tsv", _CONNECTIONS, size)
        asked = {"host": at.host, "port": at.port, "user": at.user, "password": at.password,
                 "database": at.database, "table": "by_hand",
                 "files": [str(path) for path in files]}  # fmt: skip
        found, _ = shop.measured([sys.executable, "-c", _PUSH], stdin=json.dumps(asked).encode(),
                                 servers=at.pids)  # fmt: skip
        _, count = statements_of_mysql(shop, at, ["SELECT count(*) FROM by_hand"])
        return replace(found, rows=count)

    def load() -> BenchRound:
        at = table("by_rowfall")
        return shop.load(
            f"generate://random?rows={rows}&bytes={size}", at.address, "--table", "by_rowfall",
            password=at.password, env={"MYSQL_PWD": at.password}, servers=at.pids,
        )  # fmt: skip

    return [
        Method(f"LOAD DATA, {_CONNECTIONS} connections", BY_HAND,
               hand, figure),
        Method("rowfall load generate://random", ROWFALL, load, figure),
    ]  # fmt: skip
