"""Check that every option of a load applies to its destination: one table, read from the top."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.options import ADD, ERROR, Options
from rowfall.targets.base import Target

DATABASE, TOPIC, FILES = "database", "topic", "files"
TABLES, SERVER, CLUSTER = "tables", "server", "cluster"
"""Kinds of things that a destination offers; ``tables`` are those of ClickHouse."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Options that only some destinations take.

    Attributes:
        needs: what the destination has to offer; "" for nothing.
        unless: with this it refuses them all the same.
        text: of the error, behind ``--option ``; ``{target}`` is the target.
    """

    names: Sequence[str]
    needs: str
    unless: str
    text: str
    hint: str | None = None


_RULES = (
    _Rule(
        ("unlogged", "on_conflict", "prefill"), DATABASE, "",
        "is for tables of other databases, and {target} is not one",
        "Leave it out, or give one with --to postgresql://user@host/database.",
    ),
    _Rule(
        ("key", "transactional", "partitions"), TOPIC, "",
        "is for topics, and {target} is not one",
        "Leave it out, or name a topic with --to kafka://host:9092/topic.",
    ),
    _Rule(
        ("pull", "push", "streams"), "", DATABASE,
        "is not for {target}: rows are read here and sent", "Leave it out.",
    ),
    _Rule(
        ("pull", "push", "streams"), SERVER, "",
        "needs a server, and {target} is not one",
        "Give a server with --to clickhouse://host:8123/database.",
    ),
    _Rule(
        ("fleet", "on", "workers"), SERVER, "",
        "needs a ClickHouse server, where leases of files are kept, and {target} is none: one "
        "process at a time has it",
        "Leave it out, or give a server with --to clickhouse://host:8123/database.",
    ),
    _Rule(
        ("spare_servers", "build_address"), SERVER, "",
        "needs a server of ClickHouse, and {target} is not one", "Leave it out.",
    ),
    _Rule(
        ("shard_key", "replicated", "skip_unavailable_shards", "method"), CLUSTER, "",
        "needs a cluster, and {target} is not one",
        "Name one with --to 'clickhouse://host:8123/database?cluster=NAME'.",
    ),
    _Rule(
        ("where", "limit", "sample"), "", CLUSTER,
        "needs a single table: on a cluster all rows of a file are counted",
        "Load all rows, or load into the table of one server.",
    ),
    _Rule(
        ("atomic", "replace", "upsert"), "", CLUSTER,
        "needs a single table, and each shard of a cluster has its own",
        "Leave it out: rowfall plan says what readers then see.",
    ),
    _Rule(
        ("files", "to_format"), FILES, "",
        "is for files to write, and {target} is not one",
        "Write files with --to 'part_{n}.csv.gz'.",
    ),
    _Rule(
        ("atomic", "direct", "wait", "widen", "upsert"), TABLES, "",
        "needs a table of ClickHouse, and {target} has none",
    ),
)  # fmt: skip
# Of options with a default, what stands for "not given".
_UNSET = {"on_conflict": ERROR, "method": "local"}


def check_options(
    target: Target, options: Options, offers: Collection[str], takes: Collection[str] = ()
) -> None:
    """Check that every option applies to a destination.

    Args:
        offers: by it, of the words above.
        takes: options that this target takes whatever it offers.

    Raises:
        UsageError: which one does not.
    """
    for rule in _RULES:
        if (not rule.needs or rule.needs in offers) and rule.unless not in offers:
            continue
        for name in rule.names:
            value = getattr(options, name)
            if name == "key" and options.cursor is not None:
                continue  # it names the key of the rows that are read
            if value and value != _UNSET.get(name) and name not in takes:
                raise UsageError(
                    f"--{name.replace('_', '-')} {rule.text.format(target=target.text)}",
                    hint=rule.hint,
                )
    if "replicas" in (options.wait or "").split(",") and CLUSTER not in offers:
        raise UsageError(f"--wait replicas needs a cluster, and {target.text} is not one")
    if DATABASE in offers and options.on_new_column == ADD:
        raise UsageError(
            f"--on-new-column add is for tables of ClickHouse, and {target.text} has none",
            hint="Add the column to the table before the load, or take ignore.",
        )
