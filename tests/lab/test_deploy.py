"""What ``deploy/`` gives to servers: read by ClickHouse itself, and of one mind about names."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from lab.clickhouse import binary
from lab.packages import packages

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text()


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("cluster.xml", "macros.shard", "2"),
        ("cluster.xml", "macros.replica", "clickhouse-2-1"),
        ("cluster.xml", "remote_servers.lab.secret", "a secret"),
        ("cluster.xml", "interserver_http_host", "clickhouse-2-1"),
        ("cluster.xml", "zookeeper.node.host", "keeper"),
        ("users.xml", "users.rowfall.password", "a password"),
        ("keeper.xml", "keeper_server.raft_configuration.server.hostname", "keeper"),
    ],
)
def test_the_server_reads_it(file: str, key: str, value: str) -> None:
    environment = {"SHARD": "2", "REPLICA": "clickhouse-2-1", "CLUSTER_SECRET": "a secret"}
    done = subprocess.run(
        [binary(), "extract-from-config", f"--config-file={DEPLOY / file}", f"--key={key}"],
        env={**environment, "ROWFALL_PASSWORD": "a password"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == value, done.stderr


def test_every_name_is_a_service_and_the_other_way_round() -> None:
    services = set(re.findall(r"^  ([a-z0-9-]+):$", COMPOSE.partition("services:")[2], re.M))
    services -= {"s3", "rowfall"}
    text = "".join((DEPLOY / file).read_text() for file in ("cluster.xml", "keeper.xml"))
    assert services == set(re.findall(r"<host(?:name)?>(.+?)<", text))


def test_every_server_says_who_it_is() -> None:
    found = re.findall(
        r"^  clickhouse-(\d)-(\d):\n.*\n.*SHARD: \"(\d)\", REPLICA: clickhouse-(\d)-(\d)\}"
        r"(?:\n.*){3}\n      - data-(\d)-(\d):",
        COMPOSE,
        re.M,
    )
    assert len(found) == 4
    for shard, replica, *others in found:
        assert others == [shard, shard, replica, shard, replica]


# --- Kubernetes -----------------------------------------------------------------------------------

SCHEMAS = Path(__file__).parent / "kubernetes.txt"
# Those of the operator, whose resources no package describes.
OPERATED = {"ClickHouseInstallation", "ClickHouseKeeperInstallation"}


def refusals(document: dict[str, Any], version: str) -> list[str]:
    """What a server of some version would refuse in a resource, unknown fields too."""
    folder = next(
        (packages(SCHEMAS) / "kubernetes_validate/kubernetes-json-schema").glob(
            f"v{version}.*-local-strict"
        )
    )
    api = document["apiVersion"].replace("/", "-")
    schema = json.loads((folder / f"{document['kind'].lower()}-{api}.json").read_text())
    known = json.loads((folder / "_definitions.json").read_text())
    registry = Registry[Any]().with_resource(
        "_definitions.json", Resource.from_contents(known, DRAFT7)
    )
    checker = jsonschema.Draft7Validator(schema, registry=registry)
    return [f"{'.'.join(map(str, e.path))}: {e.message}" for e in checker.iter_errors(document)]


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_kubernetes_takes_every_resource(version: str) -> None:
    """By the schemas of its own API, of an old version and of the newest.

    Before 1.29 they ask for fields that its documents call optional.
    """
    kinds = []
    for file in sorted(DEPLOY.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            if "kind" not in document or document["kind"] in OPERATED:
                continue
            kinds.append(document["kind"])
            assert refusals(document, version) == [], file
    assert {"Deployment", "Job", "CronJob", "StatefulSet", "Service"} <= set(kinds)
    deployment = list(yaml.safe_load_all((DEPLOY / "pipeline.yaml").read_text()))[-1]
    deployment["spec"]["replica"] = "2"
    del deployment["spec"]["selector"]
    assert len(refusals(deployment, version)) == 2
