"""A real Kafka broker in KRaft mode, from the jars of Maven Central.

One node is broker and controller. Its producer, the transactions and the topics of tests come from
confluent-kafka. The schema registry is a stand-in of a few lines (:class:`Registry`): Confluent's
own is in no registry of packages; the wire format is the real one.
"""

from __future__ import annotations

import base64
import fcntl
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.process import Service, ServiceError, free_ports, reachable

_VERSION = "4.3.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>lab</groupId><artifactId>kafka</artifactId>
<version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId>
<version>1.7.36</version></dependency>
</dependencies></project>
"""
# The second compiler of Java would take more CPU than the tests win by it.
_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms={delay}
auto.create.topics.enable=false
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=20000000
num.network.threads=2
num.io.threads=2
log.initial.task.delay.ms=500
log.retention.ms=-1
"""


class Kafka(Service):
    """One broker without accounts; keeps its topics over kill -9.

    Attributes:
        port, servers: ``127.0.0.1:port``.
    """

    name = "kafka"

    def __init__(self, delay: int = 0, version: str = _VERSION) -> None:
        """``delay``: ``group.initial.rebalance.delay.ms``; brokers have 3000 by default."""
        super().__init__()
        self.port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{self.port}"
        self._jars = reachable(_jars(version))
        data = self.folder / "data"
        settings = self.folder / "server.properties"
        settings.write_text(
            _SETTINGS.format(port=self.port, controller=controller, data=data, delay=delay)
        )
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = subprocess.run(
            [*self._java(), "kafka.tools.StorageTool", "format", "-t", name, "-c", settings],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if formatted.returncode:
            raise ServiceError(f"kafka cannot format {data}: {formatted.stderr[-500:]}")
        for folder, names, files in os.walk(data):
            for path in (folder, *(os.path.join(folder, n) for n in (*names, *files))):
                self._own(Path(path))

    def _java(self) -> list[str]:
        return [*_JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{self._jars}/*"]

    def command(self) -> Sequence[str | Path]:
        return [*self._java(), "kafka.Kafka", self.folder / "server.properties"]

    def environment(self) -> Mapping[str, str]:
        return {}

    def healthy(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            self.admin.list_topics(timeout=2)
        except KafkaException as error:
            raise OSError(str(error)) from error
        return True

    @cached_property
    def admin(self) -> Any:
        """The client for topics; what it is asked is lost when it is not kept."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, topic: str = "", partitions: int = 1, **config: object) -> str:
        """Make a topic and return its name; ``cleanup_policy="compact"`` and the like."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        topic = topic or f"t{uuid.uuid4().hex[:10]}"
        given = {name.replace("_", "."): str(value) for name, value in config.items()}
        made = NewTopic(topic, partitions, 1, config=given)
        _done(self.admin.create_topics([made]))
        return topic

    def drop(self, topic: str) -> None:
        _done(self.admin.delete_topics([topic]))

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the messages before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        _done(self.admin.delete_records([TopicPartition(topic, partition, offset)]))

    def producer(self, **config: object) -> Any:
        from confluent_kafka import Producer

        given = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({
            "bootstrap.servers": self.servers, "linger.ms": 20, "log_level": 0,
            "queue.buffering.max.messages": 1_000_000, **given,
        })  # fmt: skip

    def send(
        self, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any
    ) -> None:
        """Produce messages to one partition, in order; ``more`` as of ``Producer.produce``."""
        producer = self.producer()
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=partition, **more)
                    break
                except BufferError:
                    producer.poll(0.1)
        if left := producer.flush(60):
            raise ServiceError(f"{left} messages were not sent")


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


def _jars(version: str) -> Path:
    """Return the folder of the jars; fetched once for a machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rowfall-lab")
    cache.mkdir(parents=True, exist_ok=True)
    found = cache / f"kafka-{version}"
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found.exists():
            return found
        maven = shutil.which("mvn")
        if maven is None or shutil.which("java") is None:
            raise ServiceError("kafka needs java and mvn: apt-get install maven")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            Path(folder, "pom.xml").write_text(_POM.format(version=version))
            done = subprocess.run(
                [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise ServiceError(f"mvn cannot fetch kafka {version}: {done.stdout[-1000:]}")
            Path(folder, "jars").rename(found)
    return found


class Registry:
    """A stand-in for a schema registry: serves schemas by their id, as Confluent's does.

    Attributes:
        url: of it. ``asked``: paths of the requests so far.
    """

    def __init__(self, user: str = "", password: str = "") -> None:
        self._schemas: dict[int, dict[str, object]] = {}
        self.asked: list[str] = []
        registry = self
        login = base64.b64encode(f"{user}:{password}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                if user and self.headers.get("Authorization") != f"Basic {login}":
                    self._send(401, {"error_code": 401, "message": "Unauthorized"})
                    return
                path, _, query = self.path.partition("?")
                known = registry._schemas.get(int(path.rpartition("/")[2]))
                if known is None:
                    self._send(404, {"error_code": 40403, "message": "Schema not found"})
                    return
                serialized = "format=serialized" in query and "serialized" in known
                schema = known["serialized" if serialized else "schema"]
                self._send(200, {"schema": schema, "schemaType": known["type"]})

            def _send(self, status: int, document: object) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, schema: str, kind: str = "AVRO", serialized: bytes = b"") -> int:
        """Keep a schema and return its id; ``serialized``: a FileDescriptorProto of Protobuf."""
        number = len(self._schemas) + 1
        self._schemas[number] = {"schema": schema, "type": kind}
        if serialized:
            self._schemas[number]["serialized"] = base64.b64encode(serialized).decode()
        return number

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
