"""Names of data sets are those that other tools give the same things."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.listing import Listing, Part
from rowfall.core.model import PlannedTarget
from rowfall.telemetry.names import MOST_OBJECTS, DatasetName, inputs_of, located, output_of
from unit.telemetry.plans import plan_of


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("s3://lake/trips/2024/a.csv.gz", "s3://lake", "trips/2024/a.csv.gz"),
        ("gs://lake/trips/a.csv", "gs://lake", "trips/a.csv"),
        ("/data/a b.csv", "file", "/data/a b.csv"),
        ("file:///data/a%20b.csv", "file", "/data/a b.csv"),
        ("hdfs://nn/lake/a.orc", "hdfs://nn:8020", "/lake/a.orc"),
        ("hdfs://nn:9000/lake/a.orc", "hdfs://nn:9000", "/lake/a.orc"),
        ("https://me@host/x/a.csv?token=1", "https://host", "/x/a.csv"),
        ("https://[HIDDEN]@host:8080/x/a.csv", "https://host:8080", "/x/a.csv"),
        ("mysql://me:[HIDDEN]@host/shop/orders", "mysql://host:3306", "shop.orders"),
        ("kafka://b1:9093,b2:9093/clicks", "kafka://b1:9093", "clicks"),
        ("kafka://b1/clicks?group.id=a", "kafka://b1:9092", "clicks"),
        ("postgresql://me@host/shop/orders", "postgres://host:5432", "shop.public.orders"),
        ("postgresql://host:5433/shop/sales.orders", "postgres://host:5433", "shop.sales.orders"),
        ("mysql://me@host:3307/shop/orders", "mysql://host:3307", "shop.orders"),
        ("mariadb://host/shop/orders", "mysql://host:3306", "shop.orders"),
        ("singlestore://host/shop/orders", "singlestore://host:3306", "shop.orders"),
        ("clickhouse://me@host/shop/orders", "clickhouse://host:8123", "shop.orders"),
        ("clickhouses://host/shop/orders", "clickhouse://host:8443", "shop.orders"),
        ("clickhouse://[::1]:8124/shop/orders", "clickhouse://[::1]:8124", "shop.orders"),
        ("iceberg+s3://lake/wh/t", "s3://lake", "wh/t"),
    ],
)
def test_addresses(address: str, namespace: str, name: str) -> None:
    assert located(address) == DatasetName(namespace, name)


def test_azure_is_named_with_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    assert located("az://lake/x/a.csv") == DatasetName("wasbs://lake@acme", "x/a.csv")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    assert located("az://lake/x/a.csv") == DatasetName("az://lake", "x/a.csv")


@pytest.mark.parametrize("address", ["generate://trips?rows=9", "stdin://", "arrow://x", "null://"])
def test_what_nobody_else_knows_has_no_name(address: str) -> None:
    assert located(address) is None


@pytest.mark.parametrize(
    ("text", "database", "table", "namespace", "name"),
    [
        ("clickhouse://me@host:8123/shop", "shop", "t", "clickhouse://host:8123", "shop.t"),
        ("clickhouses://host?cluster=lab", "d", "t", "clickhouse://host:8443", "d.t"),
        ("postgresql://me@host/shop", "sales", "t", "postgres://host:5432", "shop.sales.t"),
        ("mysql://host/shop", "shop", "t", "mysql://host:3306", "shop.t"),
        ("duckdb:///data/x.duckdb", "main", "t", "file", "/data/x.duckdb/main.t"),
        ("/data/rowfall-data", "default", "t", "file", "/data/rowfall-data/default.t"),
        ("kafka://host:9092/clicks", "", "clicks", "kafka://host:9092", "clicks"),
        ("iceberg+s3://lake/wh/t", "", "s3://lake/wh/t", "s3://lake", "wh/t"),
        ("s3://lake/out/part_{n}.parquet", "", "", "s3://lake", "out"),
        ("/data/out/part_{n}.parquet", "", "", "file", "/data/out"),
        ("/data/one.parquet", "", "", "file", "/data/one.parquet"),
    ],
)
def test_targets(text: str, database: str, table: str, namespace: str, name: str) -> None:
    to = PlannedTarget(text, database, table, "server", "")
    assert output_of(to) == DatasetName(namespace, name)


def test_nothing_is_written_to_null() -> None:
    assert output_of(PlannedTarget("null:", "", "", "server", "")) is None


def test_a_relative_file_has_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert located("a.csv") == DatasetName("file", str(tmp_path / "a.csv"))


def test_each_object_once_with_its_version() -> None:
    listing = Listing()
    for start in (0, 50):
        listing.add("s3://lake/a.csv", "etag-a", 50, start, start + 50, Part(100))
    listing.add("s3://lake/b.csv", "etag-b", 7)
    first, second = inputs_of(plan_of(listing, source="s3://lake/*.csv"))
    assert (first.at.name, first.version, first.bytes) == ("a.csv", "etag-a", 100)
    assert (second.at.name, second.version, second.bytes) == ("b.csv", "etag-b", 7)


def many(count: int, version: str = "e") -> Listing:
    listing = Listing()
    for number in range(count):
        listing.add(f"s3://lake/trips/{number % 30}/{number}.csv", f"{version}{number}", 2)
    return listing


def test_more_objects_are_their_folder() -> None:
    assert len(inputs_of(plan_of(many(MOST_OBJECTS)))) == MOST_OBJECTS
    (folder,) = inputs_of(plan_of(many(2_500)))
    assert folder.at == DatasetName("s3://lake", "trips")
    assert (folder.objects, folder.bytes) == (2_500, 5_000)
    (other,) = inputs_of(plan_of(many(2_500, "f")))
    assert folder.version != other.version, "it is that of all of them"


def test_a_topic_and_a_table_are_one() -> None:
    topic = Listing(continued=True)
    for partition in range(3):
        topic.add(f"kafka://clicks/{partition}", "id", None, 0, 10)
    (found,) = inputs_of(plan_of(topic, source="kafka://b1:9092/clicks"))
    assert found.at == DatasetName("kafka://b1:9092", "clicks")
    table = Listing(continued=True)
    table.add("postgresql://host:5432/shop/public.orders?key=id", "1", 9, 0, 10)
    (found,) = inputs_of(plan_of(table, source="postgresql://me@host/shop/orders"))
    assert found.at == DatasetName("postgres://host:5432", "shop.public.orders")
    files = Listing()
    for number in range(3):
        files.add(f"s3://lake/wh/t/data/{number}.parquet", f"e{number}", 5)
    (found,) = inputs_of(plan_of(files, source="iceberg+s3://lake/wh/t"))
    assert (found.at, found.objects) == (DatasetName("s3://lake", "wh/t"), 3)
