"""A real Kafka broker in KRaft mode, from the jars of Maven Central.

One node is broker and controller. Its producer, the transactions and the topics of tests come from
confluent-kafka. The schema registry is a stand-in of a few lines (:class:`Registry`): Confluent's
own is in no registry of packages; the wire format is the real one.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from lab import maven
from lab.process import UNVERIFIED, Service, ServiceError, free_ports, reachable

_VERSION = "4.3.1"
# The second compiler of Java would take more CPU than the tests win by it.
_JAVA = (
    "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
    *UNVERIFIED,
)  # fmt: skip
_QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
_LISTENERS = """listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
"""
# Beside it, for tests themselves, the open one.
_SECURE = """listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL_SSL://127.0.0.1:{secure}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://localhost:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
listener.name.sasl_ssl.plain.sasl.jaas.config=\
  org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="broker" password="broker" user_loader="{password}" user_stranger="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
  org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
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
auto.create.topics.enable=true
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=20000000
num.network.threads=2
num.io.threads=2
log.initial.task.delay.ms=500
log.retention.ms=-1
"""


class Kafka(Service):
    """One broker; keeps its topics over kill -9.

    Attributes:
        port, servers: ``127.0.0.1:port``.
        secure_servers: of a ``secure`` one, where accounts log in over TLS: ``loader`` and
            ``stranger``, by PLAIN, and after :meth:`let_in` by SCRAM-SHA-256, too.
        ca: the certificate that its own is checked by. ``password``: of the accounts.
    """

    name = "kafka"
    password = "open-sesame"

    def __init__(self, delay: int = 0, version: str = _VERSION, *, secure: bool = False) -> None:
        """``delay``: ``group.initial.rebalance.delay.ms``; brokers have 3000 by default."""
        super().__init__()
        self.port, controller, tls = free_ports(3)
        self.servers = f"127.0.0.1:{self.port}"
        self.secure_servers = f"localhost:{tls}"
        self.ca = self.folder / "ca.pem"
        listeners = (_SECURE if secure else _LISTENERS).format(
            port=self.port, controller=controller, secure=tls, folder=self.folder,
            password=self.password,
        )  # fmt: skip
        if secure:
            self._certify()
        self._jars = reachable(jars(version))
        data = self.folder / "data"
        settings = self.folder / "server.properties"
        settings.write_text(
            listeners + _SETTINGS.format(controller=controller, data=data, delay=delay)
        )
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        named = f"--cluster-id={name}"  # one name in 64 starts with "-", like an option of its own
        formatted = subprocess.run(
            [*self._java(), "kafka.tools.StorageTool", "format", named, "-c", settings],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if formatted.returncode:
            raise ServiceError(f"kafka cannot format {data}: {formatted.stderr[-500:]}")
        for folder, names, files in os.walk(data):
            for path in (folder, *(os.path.join(folder, n) for n in (*names, *files))):
                self._own(Path(path))

    def _certify(self) -> None:
        """Make a certificate that is its own authority."""
        openssl = shutil.which("openssl")
        if openssl is None:
            raise ServiceError("a broker with TLS needs openssl: apt-get install openssl")
        key, both = self.folder / "key.pem", self.folder / "broker.pem"
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
             "-out", self.ca],
            check=True, capture_output=True,
        )  # fmt: skip
        both.write_text(key.read_text() + self.ca.read_text())
        self._own(both)

    def let_in(self, topic: str) -> None:
        """Give ``loader`` a password for SCRAM, and the right to read a topic."""
        from confluent_kafka import admin

        api: Any = admin
        scram = api.ScramCredentialInfo(api.ScramMechanism.SCRAM_SHA_256, 4096)
        _done(self.admin.alter_user_scram_credentials(
            [api.UserScramCredentialUpsertion("loader", scram, self.password.encode())]
        ))  # fmt: skip
        _done(self.admin.create_acls([
            api.AclBinding(
                api.ResourceType.TOPIC, topic, api.ResourcePatternType.LITERAL, "User:loader", "*",
                operation, api.AclPermissionType.ALLOW,
            )
            for operation in (api.AclOperation.READ, api.AclOperation.DESCRIBE)
        ]))  # fmt: skip

    def _java(self) -> list[str]:
        return [*_JAVA, *_QUIET, "-cp", f"{self._jars}/*"]

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


def console_producer(servers: str, topic: str) -> list[str]:
    """Return the command of Kafka's own producer, which sends each line of its input.

    Of 3.9, the last whose server brings it along; with the options of its own script.
    """
    found = reachable(jars("3.9.1"))
    return ["java", "-Xmx512M", "-server", "-XX:+UseG1GC", *_QUIET, "-cp", f"{found}/*",
            "kafka.tools.ConsoleProducer", "--bootstrap-server", servers,
            "--topic", topic]  # fmt: skip


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


def jars(version: str) -> Path:
    """Return the folder of the jars; fetched once for a machine."""
    return maven.jars(
        f"kafka-{version}", f"org.apache.kafka:kafka_2.13:{version}",
        "org.slf4j:slf4j-simple:1.7.36",
    )  # fmt: skip


class Registry:
    """A stand-in for a schema registry: serves schemas by their id, as Confluent's does, and
    registers those that it is sent; ``refuses``: it finds them incompatible.

    Attributes:
        url: of it. ``asked``: paths of the requests so far.
    """

    def __init__(self, user: str = "", password: str = "") -> None:
        self._schemas: dict[str, dict[str, object]] = {}
        self._subjects: dict[str, dict[str, object]] = {}
        self.asked: list[str] = []
        self.refuses = False
        registry = self
        login = base64.b64encode(f"{user}:{password}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                if user and self.headers.get("Authorization") != f"Basic {login}":
                    self._send(401, {"error_code": 401, "message": "Unauthorized"})
                    return
                of_subject = self.path.startswith("/subjects/")
                name = self.path.split("/")[2 if of_subject else 3]
                known = (registry._subjects if of_subject else registry._schemas).get(name)
                if known is None:
                    self._send(404, {"error_code": 40403, "message": "Schema not found"})
                    return
                self._send(200, known)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                registry.asked.append(self.path)
                if user and self.headers.get("Authorization") != f"Basic {login}":
                    self._send(401, {"error_code": 401, "message": "Unauthorized"})
                elif registry.refuses:
                    self._send(409, {"error_code": 409, "message": "Schema is incompatible"})
                else:
                    schema, subject = json.loads(body)["schema"], self.path.split("/")[2]
                    known = [int(i) for i, one in registry._schemas.items()
                             if one["schema"] == schema]  # fmt: skip
                    self._send(200, {"id": (known or [registry.add(schema, "AVRO", subject)])[0]})

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

    def add(
        self, schema: str, kind: str = "AVRO", subject: str = "",
        references: Mapping[str, str] | None = None,
    ) -> int:  # fmt: skip
        """Keep a schema and return its id; ``references``: subjects by the names of imports."""
        number = len(self._schemas) + 1
        document: dict[str, object] = {"schema": schema, "schemaType": kind}
        if references:
            document["references"] = [
                {"name": name, "subject": of, "version": 1} for name, of in references.items()
            ]
        self._schemas[str(number)] = document
        self._subjects[subject] = document
        return number

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
