"""The Job and the CronJob of ``deploy/``: their command lines, and what becomes of exit codes."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lake import Lake
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed
from rowfall.core.version import __version__

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def documents(file: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the project file's ConfigMap and the specification of the Job."""
    secret, config, job = yaml.safe_load_all((DEPLOY / file).read_text())
    assert (secret["kind"], config["kind"]) == ("Secret", "ConfigMap")
    spec = job["spec"]
    if job["kind"] == "CronJob":
        assert spec["concurrencyPolicy"] == "Forbid"
        spec = spec["jobTemplate"]["spec"]
    return config, spec


def becomes(spec: dict[str, Any], code: int) -> str:
    """Return what Kubernetes does with a Job whose container has ended with a code."""
    for rule in spec["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes")
        if codes and codes["operator"] == "In" and code in codes["values"]:
            return str(rule["action"])
    return "Count" if code else "Complete"


@pytest.mark.parametrize("file", ["load.yaml", "cronjob.yaml"])
def test_the_form_of_the_job(file: str) -> None:
    config, spec = documents(file)
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["restartPolicy"] == "Never"  # podFailurePolicy is refused with another
    assert container["image"] == f"rowfall:{__version__}"  # as packaging/image.sh names it
    first, *rules = spec["podFailurePolicy"]["rules"]
    condition = {"type": "DisruptionTarget", "status": "True"}
    assert first == {"action": "Ignore", "onPodConditions": [condition]}
    assert {rule["onExitCodes"]["containerName"] for rule in rules} == {container["name"]}
    # Of the codes of rowfall 1, 6 to 8, 70, 130, and 137 of a pod that was killed are tried again.
    codes = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130, 137)
    found = [becomes(spec, code) for code in codes]
    assert found == ["Complete", "Count", *["FailJob"] * 4, *["Count"] * 6]
    assert spec["backoffLimit"] > 0
    volumes = {one["name"] for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    name = config["metadata"]["name"]
    used = {
        one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"] if "value" not in one
    }
    assert used == {name}


@pytest.mark.long
@pytest.mark.parametrize("file", ["load.yaml", "cronjob.yaml"])
def test_the_command_line_of_the_job(lake: Lake, s3: Seaweed, bucket: str, file: str) -> None:
    config, spec = documents(file)
    (container,) = spec["template"]["spec"]["containers"]
    arguments, env = lake.command_of(config, container, s3, bucket)

    def pod(number: int) -> int:
        """Run a pod that remembers nothing; return its exit code."""
        home = str(lake.shell.folder / f"home{number}")
        return lake.shell.run(*arguments, env=env | {"ROWFALL_HOME": home}).code

    assert becomes(spec, pod(0)) == "FailJob"  # nothing is there
    s3.put(bucket, "orders/a.csv.gz", gzip.compress(b"id\n1\n2\n"))
    assert [becomes(spec, pod(number)) for number in (1, 2)] == ["Complete"] * 2
    assert lake.row("SELECT count(), sum(id) FROM {db}.orders") == [2, 3]
    bad = b"id\n" + b"3\n" * 20_000 + b"x\n"
    s3.put(bucket, "orders/b.csv.gz", gzip.compress(bad))
    assert becomes(spec, pod(3)) == "Count"
    s3.put(bucket, "orders/b.csv.gz", gzip.compress(b"id\n3\n"))
    assert becomes(spec, pod(4)) == "Complete"
    assert lake.row("SELECT count(), sum(id) FROM {db}.orders") == [3, 6]
