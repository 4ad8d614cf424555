"""Which assets a project file makes."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from scene import ProjectFolder

from rowfall.core.errors import UsageError
from rowfall_dagster import Rowfall, rowfall_assets

FILE = """
[connections.warehouse]
uri = "clickhouse://loader@ch1:8443/analytics"
password = "env:WAREHOUSE_PASSWORD"

[loads.orders]
source = "orders/*.csv"
to = "warehouse"
table = "shop.orders"

[loads.lines]
source = "lines/*.csv"
to = "warehouse"
needs = ["orders"]

[loads.lines_of_old]
source = "old/*.csv"
to = "warehouse"
table = "lines"

[loads.events]
params = ["day"]
source = "events/{day}.csv"
table = "events"
needs = ["lines"]
"""


def made(project: ProjectFolder, **options: Any) -> dg.AssetsDefinition:
    @rowfall_assets(project.path, **options)
    def assets(context: dg.AssetExecutionContext, rowfall: Rowfall) -> Iterator[Any]:
        yield from rowfall.run(context)

    return assets


def test_each_load_is_an_asset_called_as_its_table(project: ProjectFolder) -> None:
    project.toml(FILE)
    assets = made(project, key_prefix=["raw"], group_name="loads")
    assert {key.path[-1]: key for key in assets.keys} == {
        "orders": dg.AssetKey(["raw", "shop", "orders"]),
        "lines": dg.AssetKey(["raw", "lines", "lines"]),  # two loads fill this table
        "lines_of_old": dg.AssetKey(["raw", "lines", "lines_of_old"]),
    }
    specs = {spec.key.path[-1]: spec for spec in assets.specs}
    assert [dep.asset_key for dep in specs["lines"].deps] == [specs["orders"].key]
    assert specs["orders"].kinds == {"rowfall", "clickhouse"}
    assert specs["orders"].group_name == "loads"
    assert "loader" not in str(specs["orders"].metadata)


def test_partitions_take_the_loads_with_their_parameter(project: ProjectFolder) -> None:
    project.toml(FILE)
    days = dg.DailyPartitionsDefinition("2026-01-01")
    assets = made(project, partitions_def=days, param="day")
    (spec,) = assets.specs
    assert spec.key == dg.AssetKey("events")
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey(["lines", "lines"])]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loads": ["ordres"]}, "has no load ordres; there are: orders, lines"),
        ({"loads": ["events"]}, r"\[loads.events\]: its params are day, and partitions fill none"),
        ({"partitions_def": dg.StaticPartitionsDefinition(["a"])}, "no load with params = "),
    ],
)  # fmt: skip
def test_loads_that_cannot_be_assets(
    project: ProjectFolder, options: dict[str, Any], says: str
) -> None:
    project.toml(FILE)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=says):
        made(project, **options)


def test_a_mistake_in_the_file_is_said_with_its_line(project: ProjectFolder) -> None:
    project.toml(FILE.replace('needs = ["orders"]', 'need = ["orders"]'))
    with pytest.raises(UsageError, match="line 14"):
        made(project)
