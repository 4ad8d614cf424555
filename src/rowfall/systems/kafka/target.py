"""A topic of Kafka: ``kafka://host:9092/topic``; each row becomes one message.

The engine writes the rows as text, as it would write a file, and the text is cut into messages.
Where each message has a key, or is of Avro, the engine makes both of each row by an expression, and
writes blocks that have their sizes in front. It registers the schema of Avro by itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

from rowfall.core import formats, sql, uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Projection, Schema
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import ERROR, Options
from rowfall.core.patterns import regex
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.systems.kafka.client import SERVERS, parse, revealed, secrets_of
from rowfall.targets.base import Caps, Publish, state_folder
from rowfall.targets.transactional import RowFormat, TransactionalTable

FORMATS = ("JSONEachRow", "CSV", "TSV", "Avro")
AVRO = "Avro"
_AVRO_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_TAG = "rowfall: "  # of errors about a value, see rowfall.schema.types.strict_reading
_MOST_LONG = (1 << 63) - 1  # of Avro's largest integer
ONCE = (
    "exactly once for readers with isolation.level=read_committed: the messages of a file and the "
    "record of it are in one transaction, so a re-run after a crash sends only what is missing"
)
AT_LEAST_ONCE = (
    "at least once: after a crash or an error a re-run sends the files again that were under way "
    "(--transactional sends each row exactly once)"
)
# Options of tables, which a topic has none of.
_OF_TABLES = (
    "engine", "order_by", "partition_by", "shard_key", "unlogged", "replace", "atomic", "direct",
    "upsert", "widen", "wait", "verify",
)  # fmt: skip
# What a message is made of, as :func:`rowfall.systems.kafka.rows.keyed` reads it.
_KEY_SIZE, _KEY, _SIZE, _VALUE = (f"_rowfall_{name}" for name in ("ks", "k", "vs", "v"))
_PARTS = (
    Column(_KEY_SIZE, "Int32", source=_KEY_SIZE), Column(_KEY, "String", source=_KEY),
    Column(_SIZE, "UInt32", source=_SIZE), Column(_VALUE, "String", source=_VALUE),
)  # fmt: skip


class KafkaTopic(TransactionalTable):
    """Rows go to one topic.

    Raises:
        UsageError: no topic, a format that is not text, or an option of tables.
    """

    scheme: ClassVar[str] = "kafka"
    takes: ClassVar[frozenset[str]] = frozenset({"to_format"})

    def __init__(
        self, text: str, table: str, options: Options, password: Secret | None = None
    ) -> None:
        self.options = options
        address = parse(text)
        topic, registry = address.topic, address.registry
        config = dict(address.properties)
        for name in _OF_TABLES:
            if getattr(options, name):
                raise UsageError(
                    f"--{name.replace('_', '-')} is for tables, and {uri.mask(text)} is a topic",
                    hint="Leave it out.",
                )
        if options.on_conflict != ERROR or options.prefill:
            name = "--prefill" if options.prefill else "--on-conflict"
            raise UsageError(
                f"{name} is for tables, and {uri.mask(text)} is a topic", hint="Leave it out."
            )
        if options.partitions is not None and options.partitions < 1:
            raise UsageError(f"--partitions {options.partitions} is not a number of partitions")
        self.format = FORMATS[0]
        if options.to_format:
            self.format = formats.find(options.to_format).name
        if self.format not in FORMATS:
            raise UsageError(
                f"messages cannot be written as {self.format}",
                hint=f"Messages are {_listed()}: --to-format CSV",
            )
        self.rows = RowFormat(
            self.format,
            self.format if self.format != AVRO and not options.key else "",
            settings=_registry_settings(registry, topic, uri.mask(text), self.format),
        )
        self.takes_back = options.transactional
        if password is not None:
            config["sasl.password"] = password
        plain = revealed(config)
        servers = plain[SERVERS]
        host, _, port = servers.partition(",")[0].rpartition(":")
        self.address: ServerAt | None = ServerAt(
            host or port, int(port) if host and port.isdigit() else 9092, False,
            plain.get("sasl.username", ""), None, {**plain, "rowfall.format": self.format},
            kind=self.scheme,
        )  # fmt: skip
        self.server: ServerAt | None = None
        self.folder: Path | None = None
        self.database, self.table = "", topic
        self.text = uri.mask(text)
        digest = blake2b(f"{servers}/{topic}".encode(), digest_size=4).hexdigest()
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{servers}-{topic}")
        self.ledger_path = state_folder() / f"{name[:100]}-{digest}.ledger"
        self.secrets: tuple[Secret, ...] = (*secrets_of(config), *uri.secret_values(text))
        if "password" in registry:
            self.secrets += (Secret(registry["password"]),)
        promise = ONCE if options.transactional else AT_LEAST_ONCE
        self.caps = Caps(Publish.MESSAGES, promise, "a topic", takes_table_name=False)

    def only_engine_writes(self, column: Column) -> bool:
        """See :class:`rowfall.targets.transactional.TransactionalTable`.

        Times of a zone are messages in that zone, and rowfall-decode writes UTC.
        """
        type_ = parse_type(column.type)
        zoned = type_.base.startswith("DateTime") and "'" in type_.args
        return super().only_engine_writes(column) or (zoned and "'UTC'" not in type_.args)

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        """Return (): no SQL makes a topic; the client of the brokers does."""
        self._check_key(schema.columns)
        return ()

    def command(self, schema: Schema) -> str:
        self._check_key(schema.columns)
        key = f" with the key {self.options.key}" if self.options.key else ""
        return f"produce to {self.table}, one message of {self.format} for each row{key}"

    def sent(self, schema: Schema) -> Schema:
        """Return the schema of what is written: key and value of each row, where not its text."""
        if not self._by_rows:
            return schema
        made = self.select_written(schema.columns)
        if schema.projection is not None:
            # In one SELECT with the columns, whose names it may use.
            projection = replace(schema.projection, select=f"{schema.projection.select}, {made}")
        else:
            projection = Projection(schema.columns, made)
        return replace(schema, columns=_PARTS, projection=projection)

    @property
    def _by_rows(self) -> bool:
        """Tell whether the engine makes the messages one by one."""
        return bool(self.options.key) or self.format == AVRO

    def select_written(self, columns: Sequence[Column]) -> str:
        self._check_key(columns)
        size, text = "toInt32(-1)", "''"
        if self.options.key:
            key = sql.name(self.options.key)
            text = f"ifNull(toString({key}), '')"
            size = f"toInt32(if(isNull({key}), -1, length({text})))"
        names = ", ".join(sql.name(column.name) for column in columns)
        value = f"formatRowNoNewline({quote(self.format)}, {names})"
        if self.format == AVRO:
            # Without "NoNewline", which would take a last byte of 10 away.
            value = f"formatRow('AvroConfluent', {names})"
            size += "".join(f" + {_too_large(c)}" for c in columns if _unsigned(c))
        return (
            f"toInt32({size}) AS {_KEY_SIZE}, {text} AS {_KEY}, {value} AS {_VALUE}, "
            f"toUInt32(length({_VALUE})) AS {_SIZE}"
        )

    def into(self, staging: str, schema: Schema) -> SqlText:
        """Return the pipe ``staging`` as a file that the engine writes."""
        structure = sql.structure((c.name, c.type) for c in schema.columns)
        format_ = "Native" if self._by_rows else self.format
        return SqlText.of(
            f"FUNCTION file({quote(staging)}, {quote(format_)}, {quote(structure)}, 'none')"
        )

    def _check_key(self, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns]
        key = self.options.key
        if key and key not in names:
            raise UsageError(
                f"--key {key} names no column of the rows",
                hint=f"{did_you_mean(key, names)}Columns: {', '.join(names[:20])}.",
            )
        odd = [name for name in names if not _AVRO_NAME.fullmatch(name)]
        if self.format == AVRO and odd:
            raise UsageError(
                f"the column {odd[0]!r} has no name that Avro takes: letters, digits and _",
                hint=f"Name it anew: --rename {shlex.quote(f'{odd[0]}=name')}",
            )


def _unsigned(column: Column) -> bool:
    return parse_type(column.type).base == "UInt64"


def _too_large(column: Column) -> str:
    """Return SQL that is 0, or raises at a value that a long of Avro would wrap."""
    message = f"{_TAG}a value of {column.name} is larger than a long of Avro (63 bits)"
    return f"throwIf(ifNull({sql.name(column.name)} > {_MOST_LONG}, 0), {quote(message)})"


def _registry_settings(
    registry: Mapping[str, str], topic: str, text: str, format_: str
) -> Mapping[str, str]:
    """Return the settings with which the engine writes messages of Avro; {} for other formats.

    Raises:
        UsageError: there is a registry and no Avro, or the other way round.
    """
    if format_ != AVRO:
        if registry:
            raise UsageError(
                "a schema registry is for messages of Avro", hint="Add --to-format Avro."
            )
        return {}
    if not registry.get("url"):
        raise UsageError(
            "messages of Avro need a schema registry",
            hint=f"Name it: --to {shlex.quote(f'{text}?schema.registry.url=http://host:8081')}",
        )
    scheme, _, rest = registry["url"].rstrip("/").partition("://")
    login = ""
    if registry.get("user"):
        login = (
            f"{uri.encode(registry['user'], '')}:{uri.encode(registry.get('password', ''), '')}@"
        )
    return {
        "format_avro_schema_registry_url": f"{scheme}://{login}{rest}",
        # As serializers name the schema of a topic's values by default.
        "output_format_avro_confluent_subject": f"{topic}-value",
        "output_format_avro_string_column_pattern": ".*",
    }


def _listed() -> str:
    return f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
