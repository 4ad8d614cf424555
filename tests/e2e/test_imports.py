"""The commands of ``examples/imports.md``, each run once: all of them load the same taxi trips."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from e2e.tools import Shell
from lab.hdfs import Hdfs
from lab.kafka import Kafka
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from rowfall.sources.recipes import taxi

# Four services, and thirteen loads.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("hdfs"), pytest.mark.timeout(600)]

_EXAMPLES = Path(__file__).parents[2] / "examples" / "imports.md"
_ROWS = 2_000
_SUMS = (
    "SELECT count(), sum(trip_id), round(sum(toFloat64(total_amount)), 1), sum(length(pickup)) "
    "FROM trips"
)
_MYSQL = {
    "UInt32": "INT UNSIGNED", "UInt8": "TINYINT UNSIGNED", "Int8": "TINYINT", "Float64": "DOUBLE",
    "Float32": "FLOAT", "String": "VARCHAR(60)", "DateTime": "DATETIME",
    "FixedString(1)": "CHAR(1)",
}  # fmt: skip
_POSTGRESQL = {
    "UInt32": "BIGINT", "UInt8": "SMALLINT", "Int8": "SMALLINT", "Float64": "DOUBLE PRECISION",
    "Float32": "REAL", "String": "TEXT", "DateTime": "TIMESTAMP(0)", "FixedString(1)": "TEXT",
}  # fmt: skip


def columns(types: dict[str, str]) -> str:
    """The columns of the table in the words of a database."""
    found = []
    for column in taxi(1).schema.columns:
        bare = column.type.removeprefix("Nullable(")
        nullable = bare != column.type
        key = " PRIMARY KEY" if column.name == "trip_id" else ""
        type_ = types[bare[:-1] if nullable else bare]
        found.append(f"{column.name} {type_}{'' if nullable else ' NOT NULL'}{key}")
    return ", ".join(found)


def test_every_import_is_one_command(
    shell: Shell, hdfs: Hdfs, kafka: Kafka, mariadb: MariaDB, postgresql: PostgresqlServer
) -> None:
    source = f"generate://taxi?rows={_ROWS}"
    for suffix in ("parquet", "csv", "csv.gz", "json", "json.gz"):
        shell.ok("load", source, "--to", f"trips/{{n}}.{suffix}", "--files", "4")
    shell.ok("load", source, "--to", "all.tsv", "--to-format", "TSV")
    shell.ok("load", source, "--to", "all.csv", "--to-format", "CSV")
    text = shell.folder / "all.tsv"
    for path in (shell.folder / "trips").iterdir():
        if path.suffix in (".csv", ".parquet"):
            hdfs.put(f"/imports/{path.name}", path.read_bytes())
    mariadb.query("CREATE DATABASE imports", f"CREATE TABLE imports.trips ({columns(_MYSQL)})")
    with mariadb.connect("imports", local_infile=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"LOAD DATA LOCAL INFILE '{text}' INTO TABLE trips")
    postgresql.run(f"CREATE TABLE trips ({columns(_POSTGRESQL)})")
    with (
        postgresql.connect() as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY trips FROM STDIN") as copy,
    ):
        copy.write(text.read_bytes())
    topic = kafka.create("trips")
    kafka.send(topic, (shell.folder / "all.csv").read_bytes().splitlines())
    structure = ", ".join(f"{c.name} {c.type}" for c in taxi(1).schema.columns)
    there = {
        "hdfs://namenode/trips/*.parquet": hdfs.at("/imports/*.parquet"),
        "hdfs://namenode/trips/*.csv": hdfs.at("/imports/*.csv"),
        "postgresql://reader@host/shop/trips": f"{postgresql.uri}/trips",
        "mysql://reader@host/shop/trips": mariadb.uri("imports/trips"),
        "kafka://host:9092/trips": f"kafka://{kafka.servers}/{topic}",
        "trip_id UInt32, ...": structure,
    }
    secret = {"PGPASSWORD": postgresql.password}
    shell.ok("load", source, "--to", "wanted", "--table", "trips")
    wanted = shell.row(_SUMS, "--to", "wanted")
    commands = re.findall(r"`rowfall load (.*?)`", _EXAMPLES.read_text())
    assert len(commands) == 13
    for number, command in enumerate(commands):
        words = [there.get(word, word) for word in shlex.split(command)]
        shell.ok("load", *words, "--to", f"to{number}", env=secret)
        assert shell.row(_SUMS, "--to", f"to{number}") == wanted, command
        again = shell.ok("load", *words, "--to", f"to{number}", env=secret)
        assert "nothing" in again.err, command
    postgresql.run("DROP TABLE trips")
    hdfs.delete("/imports")
