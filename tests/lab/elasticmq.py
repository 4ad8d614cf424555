"""A real service with the protocol of Amazon SQS: ElasticMQ, from the jars of Maven Central."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from lab import maven
from lab.process import UNVERIFIED, Service, free_ports, reachable

_VERSION = "1.6.11"
_JAVA = ("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *UNVERIFIED)
_SETTINGS = """include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{
  enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict
}}
rest-stats {{ enabled = false }}
"""


class ElasticMq(Service):
    """One server, whose queues are gone when it ends. It asks for no keys."""

    name = "elasticmq"

    def __init__(self) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self._jars = reachable(
            maven.jars(f"elasticmq-{_VERSION}", f"org.elasticmq:elasticmq-server_2.13:{_VERSION}")
        )
        self._settings = self.folder / "elasticmq.conf"
        self._settings.write_text(_SETTINGS.format(port=self.port))
        self._own(self._settings)

    def command(self) -> Sequence[str | Path]:
        return [
            *_JAVA, f"-Dconfig.file={self._settings}", "-cp", f"{self._jars}/*",
            "org.elasticmq.server.Main",
        ]  # fmt: skip

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/?Action=ListQueues", timeout=2) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False

    @cached_property
    def client(self) -> Any:
        import botocore.session

        return botocore.session.Session().create_client(
            "sqs", region_name="eu-central-1", endpoint_url=self.url,
            aws_access_key_id="any", aws_secret_access_key="any",
        )  # fmt: skip

    def create(self, queue: str) -> str:
        """Make a queue; return its URL."""
        made = self.client.create_queue(
            QueueName=queue, Attributes={"VisibilityTimeout": "2", "DelaySeconds": "0"}
        )
        return str(made["QueueUrl"])

    def left(self, url: str) -> int:
        """Return the messages of a queue, those that somebody has taken included."""
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        said = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
        return sum(int(said["Attributes"][name]) for name in names)

    def send(self, url: str, body: str) -> None:
        self.client.send_message(QueueUrl=url, MessageBody=body)


def created(bucket: str, *keys: str) -> str:
    """Return the event of new objects, as S3 sends it."""
    return json.dumps({"Records": [
        {
            "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "eu-central-1",
            "eventTime": "2026-11-28T10:00:00.000Z", "eventName": "ObjectCreated:Put",
            "s3": {
                "s3SchemaVersion": "1.0", "configurationId": "rowfall",
                "bucket": {"name": bucket, "arn": f"arn:aws:s3:::{bucket}"},
                "object": {"key": quote_plus(key, safe="/"), "size": 4, "sequencer": "0055AED6DC"},
            },
        }
        for key in keys
    ]})  # fmt: skip
