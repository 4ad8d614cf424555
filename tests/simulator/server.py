"""A model of one ClickHouse server: tables made of parts, and the statements that change them.

SELECTs are answered by :mod:`selects` from the same columns of ``system.parts``, ``system.tables``
and so on that a server shows; ``tests/contract/test_model.py`` compares them with real engines. A
statement that the model does not know is an error of the simulation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from rowfall.core.errors import RowfallError
from rowfall.systems.clickhouse.codes import TABLE_EXISTS, UNKNOWN_TABLE, translate
from simulator import selects

NO_UUID = "00000000-0000-0000-0000-000000000000"
DUPLICATE_COLUMN = 15
INCOMPATIBLE_COLUMNS = 122
NO_SUCH_DATA_PART = 232
TABLE_NOT_EMPTY = 705
NO_NODE_ANSWERS = 279

Row = dict[str, Any]
Source = tuple[str, str, int]
"""A row of a source: split, partition, number. Wherever it is, it stays the same one."""


def refusal(code: int, text: str) -> RowfallError:
    """Return the error that the code makes of a server's answer."""
    return translate(f"Code: {code}. DB::Exception: {text} (version 24.10.1.1 (official build))")


@dataclass
class Keeper:
    """What Keeper holds of one replicated table.

    Attributes:
        log: who has changed the table, the parts that came, and the names of those that went.
        attached: UUIDs of parts that were attached: one that comes again is left out.
        last_blocks: of each partition, the number that was given last.
    """

    log: list[tuple[str, list[Row], list[str]]] = field(default_factory=list)
    attached: set[str] = field(default_factory=set)
    last_blocks: dict[str, int] = field(default_factory=dict)


@dataclass
class Table:
    """One table; ``parts`` are rows of ``system.parts``, with what they hold under ``_rows``.

    Attributes:
        lines: of a table that is written row by row (the journal).
        fills: of a materialized view, the table that gets its rows; ``reads`` what feeds it.
        detached: what DETACH has put aside.
        last_block: the number that was given last.
        mark: who has brought the last rows, in a file of the table's own folder.
        keeper: of a replicated table, what its replicas share; ``seen``: how much of its log this
            one has carried out.
    """

    database: str
    name: str
    uuid: str
    engine: str = "MergeTree"
    engine_full: str = "MergeTree PARTITION BY p ORDER BY k SETTINGS index_granularity = 8192"
    columns: tuple[str, ...] = ("p", "k")
    select: str = ""
    comment: str = ""
    parts: list[Row] = field(default_factory=list)
    lines: list[Row] | None = None
    fills: tuple[str, str] = ("", "")
    reads: tuple[str, str] = ("", "")
    detached: list[Row] = field(default_factory=list)
    last_block: int = 0
    keeper: Keeper | None = None
    seen: int = 0
    mark: str = ""
    mark_on_disk: str = ""

    @property
    def at(self) -> tuple[str, str]:
        return self.database, self.name

    def active(self) -> list[Row]:
        return [p for p in self.parts if p["active"]]

    def visible(self) -> list[Source]:
        return [row for p in self.parts if p["active"] for row in p["_rows"]]

    def copy(self) -> Table:
        """Return a copy that shares nothing that changes."""
        made = Table(**self.__dict__)
        made.parts = [dict(p) for p in self.parts]
        made.detached = [dict(p) for p in self.detached]
        made.lines = None if self.lines is None else [dict(x) for x in self.lines]
        return made

    def setting(self, name: str) -> str:
        """Return a setting of the table, "" where it has the server's."""
        found = re.search(rf"\b{name} = (\w+)", self.engine_full)
        return found[1] if found else ""

    def next_block(self, partition: str = "") -> int:
        if self.keeper is not None:
            number = self.keeper.last_blocks.get(partition, -1) + 1
            self.keeper.last_blocks[partition] = number
            return number
        self.last_block += 1
        return self.last_block


@dataclass
class Running:
    """A statement that the server carries out, or that is still on its way to it."""

    text: str
    query_id: str
    arrived: bool
    owner: str = ""


@dataclass(eq=False)
class Server:
    """One server.

    Attributes:
        contents: of each split, its rows.
        log: ``system.query_log``: whether ended statements succeeded, by their id, in their order.
        log_runs: ``starts`` at the last success of each.
        truncated: the same log of TRUNCATE: the time and the table of each.
        running: statements that nobody waits for any more: carried out later, or never.
        clock: the server's, in seconds.
        starts: how often it was started again; ``uptime``: seconds since, which no clock changes.
        blocks: an INSERT cuts its rows into blocks, each of which becomes parts of its own.
        host: its name; ``number`` makes its UUIDs different from those of other servers.
        up: it answers; ``back``: when it does again, in the time of the simulated world.
        layout: the shards of its cluster, each a list of replicas, as ``remote_servers`` has them.
        renames: takes back each RENAME and EXCHANGE that is not on the disk yet, the last one last.
    """

    contents: dict[str, list[Source]] = field(default_factory=dict)
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    log: dict[str, list[bool]] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    clock: float = 1_000.0
    uuids: int = 0
    ticks: int = 0
    log_runs: dict[str, int] = field(default_factory=dict)
    truncated: list[tuple[float, str]] = field(default_factory=list)
    starts: int = 0
    uptime: float = 100.0
    blocks: bool = False
    host: str = "n0"
    number: int = 0
    up: bool = True
    back: float = 0.0
    layout: list[list[Server]] = field(default_factory=list)
    renames: list[Callable[[], None]] = field(default_factory=list)

    # --- tables -------------------------------------------------------------------------------

    def table(self, database: str, name: str) -> Table:
        found = self.tables.get((database, name))
        if found is None:
            raise refusal(UNKNOWN_TABLE, f"Table {database}.{name} does not exist")
        return found

    def uuid(self) -> str:
        self.uuids += 1
        return f"{self.uuids:08x}-{self.number:04x}-4000-8000-000000000000"

    def tick(self) -> int:
        """Return the time of a change to a file; each has one of its own."""
        self.ticks += 1
        return self.ticks

    def changed_at(self, path: str) -> int:
        """Return when a file of a part was changed or linked last; 0 where there is none."""
        folder = path.rpartition("/")[0] + "/"
        return next((p["_changed"] for p in _parts(self) if p["path"] == folder), 0)

    def add(self, table: Table) -> None:
        if table.at in self.tables:
            raise refusal(TABLE_EXISTS, f"Table {table.database}.{table.name} already exists")
        self.tables[table.at] = table

    def part(
        self, table: Table, partition: str, rows: Iterable[Source], *, uuid: str = "",
        level: int = 0, first: int | None = None, last: int | None = None,
    ) -> Row:  # fmt: skip
        """Return a new active part of a table; by default with a block of its own."""
        first = table.next_block(partition) if first is None else first
        last = first if last is None else last
        rows = tuple(rows)
        if not uuid:
            uuid = self.uuid() if table.setting("assign_part_uuids") == "1" else NO_UUID
        made = {
            "database": table.database, "table": table.name, "engine": table.engine,
            "partition_id": partition, "partition": partition, "uuid": uuid, "rows": len(rows),
            "active": 1, "min_block_number": first, "max_block_number": last, "level": level,
            "data_version": first, "bytes_on_disk": len(rows), "remove_time": 0,
            "name": f"{partition}_{first}_{last}_{level}", "modification_time": self.clock,
            "path": f"/data/{table.uuid}/{partition}_{first}_{last}_{level}/",
            "_rows": rows, "_synced": table.setting("fsync_after_insert") == "1",
            "_changed": self.tick(),
        }  # fmt: skip
        table.parts.append(made)
        return made

    def outdate(self, part: Row) -> None:
        part["active"], part["remove_time"] = 0, self.clock

    def insert(self, table: Table, rows: Iterable[Source]) -> None:
        """Insert rows: a part for each partition; views that read from the table see them, too."""
        found: dict[tuple[str, int], list[Source]] = defaultdict(list)
        for row in rows:
            found[row[1], row[2] if self.blocks else 0].append(row)
        for (partition, _), own in found.items():
            self.tell(table, [self.part(table, partition, own)])
        for view in [t for t in self.tables.values() if t.reads == table.at]:
            every = [row for own in found.values() for row in own]
            self.insert(self.table(*view.fills), every)

    def attach(self, target: Table, staging: Table, most: int | None = None) -> None:
        """Attach all parts of a table to another one.

        Args:
            most: the server dies when it has attached so many.
        """
        if target.columns != staging.columns:
            raise refusal(INCOMPATIBLE_COLUMNS, "Tables have different structure")
        order = sorted(staging.active(), key=lambda p: (p["partition_id"], p["min_block_number"]))
        if target.keeper is not None:
            for partition in sorted({p["partition_id"] for p in order}):
                target.next_block(partition)  # of the range that REPLACE would drop
        for part in order[:most]:
            part["_changed"] = self.tick()  # its files are linked
            if not part["rows"]:
                continue
            if target.keeper is not None:
                # Its checksum, which holds the UUID, is that of a part which was attached before.
                if part["uuid"] in target.keeper.attached:
                    continue
                target.keeper.attached.add(part["uuid"])
            made = self.part(target, part["partition_id"], part["_rows"], uuid=part["uuid"],
                             level=part["level"])  # fmt: skip
            self.tell(target, [made])

    def merge(self, table: Table, partition: str, least: int = 2) -> bool:
        """Make one part of all parts of a partition. Returns whether there was anything to do.

        Args:
            least: so many parts are worth it; OPTIMIZE FINAL writes even a single one again.
        """
        self.catch_up(table)
        old = [p for p in table.parts
               if p["active"] and p["rows"] and p["partition_id"] == partition]  # fmt: skip
        if len(old) < least:
            return False
        made = self.part(
            table, partition, [row for p in old for row in p["_rows"]],
            level=1 + max(p["level"] for p in old),
            first=min(p["min_block_number"] for p in old),
            last=max(p["max_block_number"] for p in old),
        )  # fmt: skip
        for part in old:
            self.outdate(part)
        self.tell(table, [made], old)
        return True

    def clear(self) -> None:
        """Forget outdated parts, as the server does after eight minutes: the kernel has written
        all the others to the disk by then."""
        self.sync()
        for table in self.tables.values():
            table.parts = table.active()

    def empty(self, table: Table, partition: str, rows: Iterable[Row]) -> None:
        """Take parts away at once: an empty part covers them, and is outdated itself."""
        for part in list(rows):
            table.parts.remove(part)
            self.tell(table, [], [part])
            made = self.part(
                table, partition, (), level=part["level"] + 1, first=part["min_block_number"],
                last=part["max_block_number"],
            )  # fmt: skip
            self.outdate(made)

    def tell(self, table: Table, made: list[Row], gone: Iterable[Row] = ()) -> None:
        """Write into Keeper's log what a replica has done."""
        if table.keeper is not None:
            names = [p["name"] for p in gone]
            table.keeper.log.append((self.host, [dict(p) for p in made], names))

    def catch_up(self, table: Table) -> None:
        """Let a replica do what the others have done since it looked last."""
        if table.keeper is None:
            return
        for who, made, gone in table.keeper.log[table.seen :]:
            if who == self.host:
                continue
            for part in [p for p in table.parts if p["name"] in gone and p["active"]]:
                self.outdate(part)
            names = {p["name"] for p in made}
            table.parts = [p for p in table.parts if p["active"] or p["name"] not in names]
            table.parts += [{**p, "active": 1, "remove_time": 0} for p in made]
        table.seen = len(table.keeper.log)

    def fetch(self) -> None:
        """Let all replicated tables catch up."""
        for table in self.tables.values():
            self.catch_up(table)

    def rename(self, table: Table, name: tuple[str, str]) -> None:
        del self.tables[table.at]
        self.put(table, name)

    def put(self, table: Table, name: tuple[str, str]) -> None:
        table.database, table.name = name
        for part in table.parts:
            part["database"], part["table"] = name
        self.tables[name] = table

    def restart(self) -> None:
        """Start again after a kill: nothing runs any more, and what was not logged is not known."""
        self.running = [r for r in self.running if not r.arrived]
        for table in self.tables.values():
            # Numbers go on after the highest that is there.
            table.last_block = max((p["max_block_number"] for p in table.parts), default=0)
            if table.lines is not None:
                table.last_block = max((x["_block_number"] for x in table.lines), default=0)
        self.starts += 1
        self.uptime = 0.0

    def cut_power(self, keep: Callable[[], bool]) -> None:
        """Lose what is not synced, except where ``keep`` says that it had been written anyway."""
        # A journalling file system loses the last changes of folders, never one before another.
        while self.renames and not keep():
            self.renames.pop()()
        self.renames.clear()
        for table in self.tables.values():
            table.parts = [p for p in table.parts if p["_synced"] or keep()]
            if table.mark != table.mark_on_disk and not keep():
                table.mark = table.mark_on_disk
            table.mark_on_disk = table.mark
            _load_covered(table)
            if table.lines is not None:
                table.lines = [x for x in table.lines if x["_synced"] or keep()]
        self.log.clear()
        self.truncated.clear()
        self.restart()

    def sync(self) -> None:
        """Bring everything to the disk (``syncfs``)."""
        self.renames.clear()
        for table in self.tables.values():
            table.mark_on_disk = table.mark
            for row in (*table.parts, *(table.lines or ())):
                row["_synced"] = True

    # --- statements ---------------------------------------------------------------------------

    def carry_out(self, text: str, query_id: str = "", most: int | None = None) -> list[list[Any]]:
        """Run one statement and return its rows.

        Args:
            most: the server dies when an ATTACH has taken so many parts.
        """
        if text.startswith(("SELECT", "WITH")):
            return self._select(text)
        if text.startswith(("EXPLAIN QUERY TREE", "DESCRIBE TABLE")):
            return []  # the texts of our views are plain
        shapes = STATEMENTS.get(text.partition(" ")[0], ())
        known = ((match, act) for pattern, act in shapes if (match := pattern.fullmatch(text)))
        match, act = next(known, (None, _nothing))
        if match is None:
            raise selects.UnknownSqlError(f"a statement that the model does not know: {text}")
        try:
            found = act(self, most, *match.groups())
        except RowfallError:
            if query_id:
                self.log.setdefault(query_id, []).append(False)
            raise
        if query_id and most is None:
            self.log.setdefault(query_id, []).append(True)
            self.log_runs[query_id] = self.starts
        return found or []

    def _select(self, text: str) -> list[list[Any]]:
        if not text.startswith(_WHOLE_CLUSTER):
            return selects.answer(self, text)
        if found := _ON_NODES.fullmatch(text):
            return [
                [number, *row] for number, node in enumerate(self.nodes(), 1)
                if node.up for row in selects.answer(node, found[1])
            ]  # fmt: skip
        if text.startswith("SELECT 1 FROM clusterAllReplicas("):
            raise refusal(NO_NODE_ANSWERS, "All connection tries failed")
        if found := _OVER_SHARDS.fullmatch(text):
            first = [[node for node in shard if node.up] for shard in self.layout]
            if not all(first):
                raise refusal(NO_NODE_ANSWERS, "All connection tries failed")
            return [[sum(len(up[0].table(*found.groups()).visible()) for up in first)]]
        return selects.answer(self, text)

    def nodes(self) -> list[Server]:
        """Return the nodes of its cluster in the order of ``remote_servers``."""
        return [node for shard in self.layout for node in shard]

    # --- what SELECTs see ---------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.clock

    def function(self, name: str, values: list[Any]) -> Any:
        if name == "getsetting" and values[0] in _SETTINGS:
            return _SETTINGS[values[0]]
        if name in ("version", "timezone", "getserverport"):
            return {"version": "24.10.1.1", "timezone": "UTC", "getserverport": 8123}[name]
        if name == "uptime":
            return int(self.uptime)
        if name == "serveruuid":
            return f"server {self.host}"
        raise selects.UnknownSqlError(f"{name}({values})")

    def rows_of(self, database: str, table: str) -> list[Row]:
        if database == "system":
            rows: list[Row] = SYSTEM[table](self)
            return rows
        found = self.table(database, table)
        if found.lines is not None:
            return found.lines
        return [
            {**dict.fromkeys(found.columns, ""), "_row": row, "k": f"{row[0]} {row[2]}",
             "p": row[1], "_part": part["name"],
             "_partition_id": part["partition_id"], "_part_offset": number}
            for part in found.active() for number, row in enumerate(part["_rows"])
        ]  # fmt: skip


def _load_covered(table: Table) -> None:
    """Let outdated parts be active again where the part that covers them is gone."""
    for part in table.parts:
        if part["active"] or any(_covers(p, part) for p in table.parts if p is not part):
            continue
        part["active"], part["remove_time"] = 1, 0


def _covers(one: Row, other: Row) -> bool:
    return bool(
        one["partition_id"] == other["partition_id"] and one["level"] > other["level"]
        and one["min_block_number"] <= other["min_block_number"]
        and one["max_block_number"] >= other["max_block_number"]
    )  # fmt: skip


# --- the system's tables --------------------------------------------------------------------------


def _parts(server: Server) -> list[Row]:
    return [p for t in server.tables.values() for p in t.parts]


def _tables(server: Server) -> list[Row]:
    found = []
    readers: dict[tuple[str, str], list[Table]] = {}
    for view in server.tables.values():
        readers.setdefault(view.reads, []).append(view)
    for table in server.tables.values():
        views = readers.get(table.at, ())
        found.append({
            "database": table.database, "name": table.name, "uuid": table.uuid,
            "engine": table.engine, "engine_full": table.engine_full, "storage_policy": "default",
            "partition_key": "" if table.lines is not None else "p", "sorting_key": "k",
            "create_table_query": _create_query(
                table.database, table.name, table.engine_full, table.columns, table.select,
                table.fills,
            ), "as_select": table.select,
            "dependencies_database": [v.database for v in views],
            "dependencies_table": [v.name for v in views],
            "data_paths": [f"/store/{table.uuid[:3]}/{table.uuid}/"], "total_bytes": 1,
            "total_rows": sum(p["rows"] for p in table.active()), "is_temporary": 0,
            "metadata_modification_time": 0, "has_own_data": int(not table.select),
            "comment": table.comment,
        })  # fmt: skip
    return found


@cache
def _create_query(
    database: str, name: str, engine: str, names: tuple[str, ...], select: str,
    fills: tuple[str, str],
) -> str:  # fmt: skip
    if select:
        return (f"CREATE MATERIALIZED VIEW {database}.{name} TO "
                f"{fills[0]}.{fills[1]} AS {select}")  # fmt: skip
    columns = ", ".join(f"`{c}` String" for c in names)
    return f"CREATE TABLE {database}.{name} ({columns}) ENGINE = {engine}"


def _columns(server: Server) -> list[Row]:
    return [
        {"database": t.database, "table": t.name, "name": c, "type": "String", "position": n,
         "default_kind": "", "is_in_sorting_key": int(c == "k")}
        for t in server.tables.values() for n, c in enumerate(t.columns, 1)
    ]  # fmt: skip


def _processes(server: Server) -> list[Row]:
    return [
        {"query_id": r.query_id, "initial_query_id": r.query_id, "query": r.text}
        for r in server.running if r.arrived
    ]  # fmt: skip


_SETTINGS = {
    "allow_experimental_analyzer": True, "max_threads": 2, "max_memory_usage": 0,
    "max_memory_usage_for_user": 0,
}  # fmt: skip
_ON_NODES = re.compile(r"SELECT _shard_num, \* FROM clusterAllReplicas\('c', view\((.*)\)\) "
                       "SETTINGS .*", re.DOTALL)  # fmt: skip
_WHOLE_CLUSTER = ("SELECT _shard_num, ", "SELECT 1 FROM clusterAll", "SELECT count() FROM cluster(")
_OVER_SHARDS = re.compile(r"SELECT count\(\) FROM cluster\(`?c`?, `(\w+)`\.`(\w+)`\)")


def _clusters(server: Server) -> list[Row]:
    return [
        {"cluster": "c", "shard_num": shard, "replica_num": replica, "host_name": node.host,
         "port": 9000, "internal_replication": 1, "is_local": int(node is server)}
        for shard, nodes in enumerate(server.layout, 1) for replica, node in enumerate(nodes, 1)
    ]  # fmt: skip


def _replicated(server: Server) -> list[tuple[Table, str]]:
    """Return replicated tables and their paths in Keeper."""
    return [(t, t.engine_full.split("'")[1]) for t in server.tables.values() if t.keeper]


def _replicas(server: Server) -> list[Row]:
    return [
        {"database": table.database, "table": table.name, "is_readonly": 0,
         "is_session_expired": 0, "queue_size": 0, "log_pointer": table.seen,
         "log_max_index": len(table.keeper.log) - 1 if table.keeper else 0,
         "replica_path": f"{path}/replicas/{server.host}",
         "zookeeper_path": path,
         "total_replicas": len(server.nodes())}
        for table, path in _replicated(server)
    ]  # fmt: skip


def _zookeeper(server: Server) -> list[Row]:
    """Return the log of each table, and the parts that Keeper lists for its replicas."""
    found = []

    def add(path: str, name: str, value: str = "") -> None:
        found.append({"path": path, "name": name, "value": value})

    for table, path in _replicated(server):
        keeper = table.keeper
        assert keeper is not None
        # What is read is carried out at once, so the queue is empty.
        add(f"{path}/replicas/{server.host}", "log_pointer", str(table.seen))
        for number in range(len(keeper.log)):
            add(f"{path}/log", f"log-{number:010}")
        for node in server.nodes():
            add(f"{path}/replicas", node.host)
            for own, _ in _replicated(node):
                if own.keeper is keeper:
                    parts = {p["name"]: p for p in own.active()}
                    # Also those of which the replica was never told.
                    parts |= {
                        p["name"]: p for who, made, _ in keeper.log[own.seen :] for p in made
                        if who == f"{node.host} and Keeper"
                    }  # fmt: skip
                    for name, part in parts.items():
                        add(f"{path}/replicas/{node.host}/parts", name, str(part["_rows"]))
    return found


SYSTEM: dict[str, Callable[[Server], list[Row]]] = {
    "parts": _parts,
    "tables": _tables,
    "columns": _columns,
    "processes": _processes,
    "replicas": _replicas,
    "zookeeper": _zookeeper,
    "clusters": _clusters,
    "macros": lambda server: [],
    "server_settings": lambda server: [{"name": "max_server_memory_usage", "value": "0"}],
    "metrics": lambda server: [{"metric": "MemoryTracking", "value": 0}],
    "asynchronous_metrics": lambda server: [{"metric": "OSMemoryAvailable", "value": 1 << 30}],
    "merges": lambda server: [],
    "mutations": lambda server: [],
    "databases": lambda server: [
        {"name": "d", "engine": "Atomic", "uuid": "d"}, {"name": "system", "engine": "Atomic"},
    ],
    "detached_parts": lambda server: [
        {**p, "reason": ""} for t in server.tables.values() for p in t.detached
    ],
    "query_log": lambda server: [
        *({"query_id": i, "type": "QueryFinish" if done else "ExceptionWhileProcessing",
           "event_date": 0, "event_time_microseconds": 0.0, "query_kind": "Insert", "tables": [],
           "query": ""} for i, ends in server.log.items() for done in ends),
        *({"query_id": "", "type": "QueryFinish", "event_date": at // 86_400,
           "event_time_microseconds": at, "query_kind": "Drop", "tables": [name],
           "query": f"TRUNCATE TABLE {name}"} for at, name in server.truncated),
    ],
    "merge_tree_settings": lambda server: [{"name": "parts_to_delay_insert", "value": "1000"}],
}  # fmt: skip


# --- the statements that change something ---------------------------------------------------------


def _create_lines(server: Server, most: Any, database: str, name: str, columns: str) -> None:
    if (database, name) in server.tables:
        return
    names = tuple(re.findall(r"(?:\(|, )(\w+) [A-Z]", f"({columns}"))
    full = columns.partition("ENGINE = ")[2]
    server.add(Table(database, name, server.uuid(), "MergeTree", full, names, lines=[]))


def _append(server: Server, most: Any, database: str, name: str, columns: str, rest: str) -> None:
    table = server.table(database, name)
    assert table.lines is not None
    # Kept only by a table that syncs what is inserted; the block is numbered under the same lock.
    synced = table.setting("fsync_after_insert") == "1"
    for values in selects.answer(server, f"SELECT {rest}"):
        table.lines.append({
            "at": server.clock, **dict(zip(columns.split(", "), values, strict=True)),
            "_block_number": table.next_block(), "_synced": synced,
        })  # fmt: skip


def _create_as(
    server: Server, most: Any, exists: str | None, database: str, name: str, *rest: str
) -> None:
    source_database, source, full = rest
    if exists and (database, name) in server.tables:
        return
    like = server.table(source_database, source)
    engine_full, _, comment = (full or like.engine_full).partition(" COMMENT ")
    engine = engine_full.split(" ")[0].split("(")[0]
    server.add(Table(
        database, name, server.uuid(), engine, engine_full, like.columns,
        comment=selects.unescape(comment[1:-1]),
    ))  # fmt: skip


def _create(
    server: Server, most: Any, exists: str | None, database: str, name: str, full: str
) -> None:
    if exists and (database, name) in server.tables:
        return
    full = " ".join(full.split())
    server.add(Table(database, name, server.uuid(), full.split(" ")[0].split("(")[0], full))


def _create_view(
    server: Server, most: Any, database: str, name: str, to_database: str, to: str, select: str
) -> None:
    source = re.search(r"FROM `?(\w+)`?\.`?(\w+)`?", select)
    assert source is not None
    server.add(Table(
        database, name, server.uuid(), "MaterializedView", "", (), select,
        fills=(to_database, to), reads=(source[1], source[2]),
    ))  # fmt: skip


def _drop(
    server: Server, most: Any, kind: str, exists: str | None, empty: str | None, database: str,
    name: str, sync: str | None,
) -> None:  # fmt: skip
    if exists is None:
        server.table(database, name)
    if empty and (found := server.tables.get((database, name))) and found.visible():
        raise refusal(TABLE_NOT_EMPTY, f"Table {database}.{name} is not empty")
    server.tables.pop((database, name), None)


def _rename(server: Server, most: Any, pairs: str) -> None:
    for one in pairs.split(", "):
        old, new = (tuple(n.split("`")[1::2]) for n in one.split(" TO "))
        table = server.table(old[0], old[1])
        if new in server.tables:
            raise refusal(TABLE_EXISTS, f"Table {new} already exists")
        server.rename(table, (new[0], new[1]))
        server.renames.append(partial(_take_back_rename, server, table, (old[0], old[1])))


def _exchange(server: Server, most: Any, *names: str) -> None:
    one, other = server.table(names[0], names[1]), server.table(names[2], names[3])
    here, there = one.at, other.at
    server.put(one, there)
    server.put(other, here)
    server.renames.append(partial(_take_back_exchange, server, one, other))


def _take_back_rename(server: Server, table: Table, name: tuple[str, str]) -> None:
    if server.tables.get(table.at) is table and name not in server.tables:
        server.rename(table, name)


def _take_back_exchange(server: Server, one: Table, other: Table) -> None:
    here, there = one.at, other.at
    if server.tables.get(here) is one and server.tables.get(there) is other:
        server.put(one, there)
        server.put(other, here)


def _attach(server: Server, most: int | None, *names: str) -> None:
    target, staging = server.table(names[0], names[1]), server.table(names[2], names[3])
    server.attach(target, staging, most)


def _drop_part(server: Server, most: Any, database: str, name: str, part: str) -> None:
    table = server.table(database, name)
    found = [p for p in table.active() if p["name"] == part]
    if not found:
        raise refusal(NO_SUCH_DATA_PART, f"No part {part} in committed state")
    server.empty(table, found[0]["partition_id"], found)


def _drop_partition(
    server: Server, most: Any, database: str, name: str, what: str, partition: str
) -> None:
    table = server.table(database, name)
    found = [p for p in table.active() if p["partition_id"] == partition]
    if what == "DETACH":
        table.detached += [{**p, "modification_time": server.clock} for p in found if p["rows"]]
    server.empty(table, partition, found)


def _attach_partition(server: Server, most: Any, database: str, name: str, partition: str) -> None:
    table = server.table(database, name)
    for part in [p for p in table.detached if p["partition_id"] == partition]:
        table.detached.remove(part)
        # As if it were inserted: block and level are new, and only the UUID is that of the part.
        server.part(table, partition, part["_rows"], uuid=part["uuid"])


def _truncate(server: Server, most: Any, exists: str | None, database: str, name: str) -> None:
    if exists and (database, name) not in server.tables:
        return
    table = server.table(database, name)
    for part in table.active():
        server.empty(table, part["partition_id"], [part])
    server.truncated.append((server.clock, f"{database}.{name}"))


def _insert(server: Server, most: Any, database: str, name: str, splits: str) -> None:
    rows = [row for split in splits.split(",") for row in server.contents[split]]
    server.insert(server.table(database, name), rows)


def _optimize(server: Server, most: Any, database: str, name: str) -> None:
    table = server.table(database, name)
    for partition in {p["partition_id"]: 0 for p in table.active()}:
        server.merge(table, partition, 1)


def _add_columns(server: Server, most: Any, database: str, name: str, commands: str) -> None:
    table = server.table(database, name)
    added = re.findall(r"ADD COLUMN `?(\w+)`?", commands)
    if known := set(added) & set(table.columns):
        raise refusal(DUPLICATE_COLUMN, f"Cannot add column {min(known)}: it already exists")
    table.columns = (*table.columns, *added)


def _modify_setting(server: Server, most: Any, database: str, name: str, settings: str) -> None:
    table = server.table(database, name)
    for item in settings.split(", "):
        key = item.split(" = ")[0]
        table.engine_full = re.sub(rf", {key} = \w+", "", table.engine_full) + f", {item}"


def _nothing(server: Server, most: Any, *_: str) -> None:
    """Do nothing: the model has no such thing."""


_AT = r"`([^`]+)`\.`([^`]+)`"
_SHAPES: list[tuple[str, Callable[..., Any]]] = [
    (rf"INSERT INTO {_AT} \(([\w, ]+)\) SELECT (.*)", _append),
    (rf"INSERT INTO {_AT} ROWS ([\w,]+)", _insert),
    (rf"CREATE TABLE (IF NOT EXISTS )?{_AT} AS {_AT}(?: ENGINE = (.*))?", _create_as),
    (r"CREATE TABLE IF NOT EXISTS `(\w+)`\.`(_rowfall_journal)` \((.*)", _create_lines),
    (rf"CREATE TABLE (IF NOT EXISTS )?{_AT}\s+\(.*?\)\s+ENGINE = (.*)", _create),
    (rf"CREATE MATERIALIZED VIEW {_AT} TO {_AT} AS (.*)", _create_view),
    (rf"DROP (TABLE|VIEW) (IF EXISTS )?(IF EMPTY )?{_AT}( SYNC)?.*", _drop),
    (r"RENAME TABLE (.*)", _rename),
    (rf"EXCHANGE TABLES {_AT} AND {_AT}", _exchange),
    (rf"ALTER TABLE {_AT} ATTACH PARTITION ALL FROM {_AT}", _attach),
    (rf"ALTER TABLE {_AT} DROP PART '(.*)'", _drop_part),
    (rf"ALTER TABLE {_AT} (DETACH|DROP) PARTITION ID '(.*)'", _drop_partition),
    (rf"ALTER TABLE {_AT} ATTACH PARTITION ID '(.*)'", _attach_partition),
    (rf"ALTER TABLE {_AT} (ADD COLUMN .*)", _add_columns),
    (rf"ALTER TABLE {_AT} MODIFY SETTING (.*)", _modify_setting),
    (rf"TRUNCATE TABLE (IF EXISTS )?{_AT}.*", _truncate),
    (rf"OPTIMIZE TABLE {_AT} FINAL", _optimize),
    (r"CREATE DATABASE IF NOT EXISTS .*", _nothing),
    (r"SYSTEM (?:SYNC FILE CACHE|FLUSH LOGS|STOP MERGES|START MERGES).*", _nothing),
]
STATEMENTS: dict[str, list[tuple[re.Pattern[str], Callable[..., Any]]]] = defaultdict(list)
"""By their first word."""
for _shape, _act in _SHAPES:
    STATEMENTS[_shape.partition(" ")[0]].append((re.compile(_shape, re.DOTALL), _act))
