"""What a plan forecasts, beside the load that follows."""

from __future__ import annotations

import pytest

from e2e.tools import Shell
from lab.seaweed import Seaweed

ROWS = 60_000


@pytest.mark.parametrize(
    ("table", "suffix", "near"),
    [
        ("trips", "csv.gz", 0.1),
        ("trips", "parquet", 0.0),
        pytest.param("taxi", "json.gz", 0.1, marks=pytest.mark.long),
        pytest.param("hits", "csv.gz", 0.1, marks=pytest.mark.long),
        pytest.param("hits", "parquet", 0.0, marks=pytest.mark.long),
    ],
)
def test_rows(shell: Shell, table: str, suffix: str, near: float) -> None:
    """Of Parquet the footers say them; of text a sample does."""
    made = f"in/{{n}}.{suffix}"
    shell.ok("load", f"generate://{table}?rows={ROWS}", "--to", made, "--files", "3")
    forecast = shell.ok("plan", f"in/*.{suffix}", "--json").document["forecast"]
    assert forecast["rows"] == pytest.approx(ROWS, rel=near)
    assert 0 < forecast["seconds"] < 10
    assert forecast["unmeasured"] == ""
    # Most of so little is the start: a rate of it is none that a load has.
    text = shell.ok("plan", f"in/*.{suffix}").out
    assert "less than a second\n" in text
    assert "rows/s" not in text


@pytest.mark.parametrize("suffix", ["csv.gz", pytest.param("parquet", marks=pytest.mark.long)])
def test_rows_of_objects(shell: Shell, s3: Seaweed, bucket: str, suffix: str) -> None:
    """They were a guess by their bytes: 71 % too few of trips."""
    shell.ok("load", f"generate://trips?rows={ROWS}", "--to", f"s3://{bucket}/in/{{n}}.{suffix}",
             "--files", "3", env=s3.env)  # fmt: skip
    plan = shell.ok("plan", f"s3://{bucket}/in/*.{suffix}", "--json", env=s3.env)
    forecast = plan.document["forecast"]
    assert forecast["rows"] == pytest.approx(ROWS, rel=0.1)
    # How fast the store is nobody has asked.
    assert forecast["unmeasured"] == "the speed of the source and of the network"
    text = shell.ok("plan", f"s3://{bucket}/in/*.{suffix}", env=s3.env).out
    assert "or more: the speed of the source and of the network was not measured" in " ".join(
        text.split()
    )


def test_more_values_take_longer(shell: Shell) -> None:
    """Of files with as many bytes."""
    shell.ok("load", "generate://taxi?rows=20000", "--to", "taxi.csv.gz")
    shell.ok("load", "generate://trips?rows=2000000", "--to", "trips.csv.gz")
    few, many = (
        shell.ok("plan", f"{name}.csv.gz", "--json").document["forecast"]
        for name in ("taxi", "trips")
    )
    size = {name: (shell.folder / f"{name}.csv.gz").stat().st_size for name in ("taxi", "trips")}
    assert size["trips"] == pytest.approx(size["taxi"], rel=2)
    start = 0.3  # of any load
    assert many["seconds"] - start > 1.3 * (few["seconds"] - start)
