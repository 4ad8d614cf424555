"""Tables are named after their source, as a person would name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.targets.table_names import default_table

UUID = "9f2a1c04-5b7e-4a0d-9c1e-0f3a2b4c5d6e"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("trips.csv", "trips"),
        ("abc/c.csv", "c"),
        ("/data/trips_*.csv.gz", "trips"),
        ("trips/*.csv.gz", "trips"),
        ("trips/**/*.parquet", "trips"),
        ("logs-2024/", "logs_2024"),
        ("logs-2024-01-31", "logs"),
        ("part_0", "part"),
        ("orders/part_0", "orders"),
        (f"orders/part-00000-{UUID}.snappy.parquet", "orders"),
        (f"orders/part-00000-{UUID}-c000.snappy.parquet", "orders"),
        (f"part-00000-{UUID}.snappy.parquet", "part"),
        ("export (1).csv", "export"),
        ("orders/export (1).csv", "orders"),
        ("orders/data.csv.gz", "orders"),
        ("orders (2).csv", "orders"),
        ("orders - Copy.csv", "orders"),
        ("orders copy.csv", "orders"),
        ("data.csv.gz", "data"),
        ("/home/alice/data.csv", "data"),
        ("/home/alice/orders/data.csv", "orders"),
        ("/tmp/x.csv", "x"),  # noqa: S108 - only a name
        ("2024/*.csv.gz", "t_2024"),
        ("sales/2024/01/*.csv", "sales"),
        ("sales/2024-01-31.csv", "sales"),
        ("2024-01-31.csv", "t_2024"),
        ("2024-01_orders.csv", "orders"),
        ("01_customers.tsv", "customers"),
        ("*_orders.csv", "orders"),
        ("{jan,feb}_orders.csv", "orders"),
        ("orders_2024_q1.csv", "orders_2024_q1"),
        ("orders20240131.csv", "orders"),
        ("covid19.csv", "covid19"),
        ("web1.csv", "web1"),
        ("web[0-9].csv", "web"),
        ("sales_part1of10.csv", "sales_part1of10"),
        ("sales.part1.csv", "sales"),
        ("hits_0001_of_0100.parquet", "hits"),
        ("events/dt=2024-01-01/hour=3/part-0.parquet", "events"),
        ("report.v2.csv", "report_v2"),
        ("access.log", "access"),
        ("access.log.1.gz", "access"),
        ("Order Items.CSV", "order_items"),
        ("Umsätze 2023.csv", "umsatze_2023"),
        ("my sales 2024.csv", "my_sales_2024"),
        ("sales2024.csv", "sales2024"),
        ("sales 2024 (1).csv", "sales_2024"),
        ("sales-2024-01.csv", "sales"),
        ("sales 31.01.2024.csv", "sales"),
        ("sales_2024_*.csv", "sales"),
        ("v2.1.csv", "v2_1"),
        ("release-1.2.3.csv", "release_1_2_3"),
        ("trips.1.csv", "trips"),
        ("data.csv.2", "data"),
        ("s3://orders/2024/*.csv", "orders"),
        ("s3://lake/trips/day={n}/part.csv.gz", "trips"),
        ("s3://lake/data.csv", "data"),
        ("s3://lake/*.csv", "lake"),
        ("gs://lake/raw/clicks/*.json", "clicks"),
        ("https://example.com/files/trips.csv.gz?token=1", "trips"),
        ("https://example.com/a/export%20(1).csv", "a"),
        ("https://example.com/", "data"),
        ("generate://trips?rows=1e8", "trips"),
        ("generate://taxi", "taxi"),
        ("file:///srv/orders/1.csv", "orders"),
        # What has a name keeps it.
        ("mysql://me:word@host/shop/orders_2023", "orders_2023"),
        ("mariadb://host/shop?table=orders_2024_01", "orders_2024_01"),
        ("postgresql://host:5432/shop/fuzz_part", "fuzz_part"),
        ("postgres://host/shop/sales.Part_0", "Part_0"),
        ("postgresql://host/shop/a.b?schema=s", "a_b"),
        ("clickhouse://host:8123/shop/data", "data"),
        ("kafka://host:9092/clicks-2024", "clicks-2024"),
        ("kafka://host:9092/shop.orders.v2", "shop_orders_v2"),
        ("kafka://host:9092/clicks_1?registry=http://registry:8081/x", "clicks_1"),
        ("postgresql://host/shop", "shop"),
        ("delta+/lake/orders_2023", "orders_2023"),
        ("delta+s3://lake/shop/fuzz_part/", "fuzz_part"),
        ("iceberg+/lake/Orders.v2", "Orders_v2"),
        ("iceberg+s3://lake/shop/data", "data"),
        ("delta+az://lake/sales/dt=2024", "dt=2024"),
        ("delta+file:///lake/my%20orders_2024", "my orders_2024"),
        ("delta+/lake/shop/../orders_2024-01", "orders_2024-01"),
        ("delta+s3://lake", "lake"),
        ("iceberg+gs://lake/orders_2023/metadata/00003-1f.metadata.json", "orders_2023"),
        ("iceberg://lake/shop.eu.orders_2024_01", "orders_2024_01"),
        ("iceberg+s3://lake/db/orders_2023-" + "0f" * 16, "orders_2023"),
        (f"iceberg+s3://lake/db/orders_2023-{UUID}", "orders_2023"),
        (f"iceberg+s3://lake/db/{UUID}", UUID),
        ("-", "data"),
        ("...", "data"),
        ("数据.csv", "data"),
        ("3d_models.csv", "t_3d_models"),
        ("x" * 99 + ".csv", "x" * 60),
    ],
)
def test_names(source: str, name: str) -> None:
    assert default_table([source]) == name


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        (["orders_jan.csv", "orders_feb.csv"], "orders"),
        (["trips_1.csv", "trips_2.csv"], "trips"),
        (["2024/a.csv", "2024/b.csv"], "a"),
        (["orders/a.csv", "orders/b.csv"], "orders"),
        (["a.csv", "b.csv"], "a"),
        (["january.csv", "jane.csv"], "january"),
        (["a/orders.csv", "b/orders.csv"], "orders"),
    ],
)
def test_several_sources(sources: list[str], name: str) -> None:
    assert default_table(sources) == name


def test_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "orders-2024"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert default_table(["."]) == "orders_2024"
    assert default_table(["./data.csv"]) == "data"
