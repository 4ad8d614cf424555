"""Each place where a secret can be given, by each place where something is shown or kept.

One mark is the secret of every case. Commands succeed or fail, what is behind an address answers,
refuses, repeats what it was sent, or is not there: the mark is in nothing that is printed, written,
sent elsewhere, or known of a process.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest

from e2e.tools import Shell
from faults import bombs
from lab.otelcol import Receiver
from lab.scripted import Asked, Reply, Scripted
from lab.seaweed import Seaweed

MARK = "Zq7mArKx9w"
"""The secret. Its beginning is a word that nothing else here holds, also in base64."""
ROW = b"id,name\n1,a\n2,b\n"


@dataclass(frozen=True)
class Case:
    """Where the mark is given.

    Attributes:
        address: of a source, or of a target where ``to``; {web} is a server that repeats what it
            is sent, {gone} a port where nobody listens, {home} the home of the user.
        files: below the home, by name.
    """

    address: str
    to: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


AWS = {"AWS_ACCESS_KEY_ID": "id", "AWS_REGION": "x", "AWS_ENDPOINT_URL": "{web}"}
KEY = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{MARK}\n-----END ENCRYPTED PRIVATE KEY-----\n"
GOOGLE = {"type": "service_account", "project_id": "p", "client_email": "a@b.example",
          "token_uri": "{web}/token", "private_key_id": "k", "private_key": KEY}  # fmt: skip
CASES = {
    # --- the web ---
    "password of a URL": Case(f"http://u:{MARK}@{{host}}/a.csv"),
    "user alone": Case(f"http://{MARK}@{{host}}/a.csv"),
    "parameter": Case(f"{{web}}/a.csv?token={MARK}"),
    "parameter nobody knows": Case(f"{{web}}/a.csv?zz={MARK}"),
    "fragment": Case(f"{{web}}/a.csv#{MARK}"),
    "password, nobody there": Case(f"http://u:{MARK}@{{gone}}/a.csv"),
    "proxy": Case("http://example.invalid/a.csv", env={"http_proxy": f"http://u:{MARK}@{{host}}"}),
    "proxy that is gone": Case(
        "http://example.invalid/a.csv", env={"HTTP_PROXY": f"http://u:{MARK}@{{gone}}"}
    ),
    "netrc": Case(
        "{web}/a.csv", files={".netrc": f"machine 127.0.0.1 login u password {MARK}\n"}
    ),
    # --- object stores ---
    "secret key": Case("s3://bucket/a.csv", env={**AWS, "AWS_SECRET_ACCESS_KEY": MARK}),
    "session token": Case(
        "s3://bucket/*.csv",
        env={**AWS, "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": MARK},
    ),
    "profile": Case(
        "s3://bucket/a.csv", env={"AWS_PROFILE": "p", "AWS_ENDPOINT_URL": "{web}"},
        files={".aws/credentials": f"[p]\naws_access_key_id=i\naws_secret_access_key={MARK}\n"},
    ),
    "broken profile": Case(
        "s3://bucket/a.csv", env={"AWS_PROFILE": "p"},
        files={".aws/credentials": f"[p]\naws_access_key_id\n{MARK}\n"},
    ),
    "process of a profile": Case(
        "s3://bucket/a.csv", env={"AWS_PROFILE": "p", "AWS_ENDPOINT_URL": "{web}"},
        files={".aws/config": "[profile p]\ncredential_process = cat {home}/key.json\n",
               "key.json": f'{{"Version":1,"AccessKeyId":"i","SecretAccessKey":"{MARK}"}}'},
    ),
    "export to a bucket": Case(
        "s3://bucket/a.csv", to=True, env={**AWS, "AWS_SECRET_ACCESS_KEY": MARK}
    ),
    "keys in a URL of S3": Case(f"s3://id:{MARK}@bucket/a.csv", env={"AWS_ENDPOINT_URL": "{web}"}),
    "key of Azure": Case(
        "az://box/a.csv",
        env={"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": MARK},
    ),
    "connection string of Azure": Case(
        "az://box/a.csv",
        env={"AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=http;AccountName=a;"
             f"AccountKey={MARK};BlobEndpoint={{web}}/a;"},
    ),
    "signature of Azure": Case(
        "az://box/a.csv",
        env={"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_TOKEN": f"sv=1&sig={MARK}"},
    ),
    "file of Google": Case(
        "gs://box/a.csv", env={"GOOGLE_APPLICATION_CREDENTIALS": "{home}/g.json"},
        files={"g.json": json.dumps(GOOGLE)},
    ),
    "keys of Google": Case(
        "gs://box/a.csv", env={"GS_ACCESS_KEY_ID": "i", "GS_SECRET_ACCESS_KEY": MARK,
                               "AWS_ENDPOINT_URL": "{web}"},
    ),
    # --- databases and topics ---
    **{
        f"{what} of {scheme}{', target' * to}": Case(
            address.format(scheme=scheme, MARK=MARK), to=to,
            env={} if scheme != "clickhouse" else {"ROWFALL_PASSWORD": "x"},
        )
        for scheme in ("clickhouse", "clickhouses", "postgresql", "mysql", "singlestore")
        for to in (False, True)
        for what, address in {
            "password": "{scheme}://u:{MARK}@{{gone}}/d/t",
            "parameter": "{scheme}://u@{{gone}}/d/t?password={MARK}",
            "password at HTTP": "{scheme}://u:{MARK}@{{host}}/d/t",
        }.items()
        # Clients of MySQL wait for the server to begin.
        if scheme not in ("mysql", "singlestore") or what != "password at HTTP"
    },
    "password of ClickHouse": Case(
        "clickhouse://u@{host}/d", to=True, env={"CLICKHOUSE_PASSWORD": MARK}
    ),
    "password of rowfall": Case(
        "clickhouse://u@{host}/d", to=True, env={"ROWFALL_PASSWORD": MARK}
    ),
    "PGPASSWORD": Case("postgresql://u@{gone}/d/t", env={"PGPASSWORD": MARK}),
    "pgpass": Case(
        "postgresql://u@{gone}/d/t", files={".pgpass": f"127.0.0.1:*:*:u:{MARK}\n"}
    ),
    "broken pgpass": Case("postgresql://u@{gone}/d/t", files={".pgpass": f"{MARK}\n"}),
    "service": Case(
        "postgresql:///d/t?service=s", env={"PGSERVICEFILE": "{home}/service"},
        files={"service": f"[s]\nhost=127.0.0.1\nport=1\nuser=u\npassword={MARK}\n"},
    ),
    "broken service": Case(
        "postgresql:///d/t?service=s", env={"PGSERVICEFILE": "{home}/service"},
        files={"service": f"[s]\npassword\n= {MARK}\nport=many\n{MARK}\n"},
    ),
    "key of a certificate": Case(
        f"postgresql://u@{{gone}}/d/t?sslpassword={MARK}&sslmode=require"
    ),
    "MYSQL_PWD": Case("mysql://u@{gone}/d/t", env={"MYSQL_PWD": MARK}),
    "my.cnf": Case(
        "mysql://{gone}/d/t", files={".my.cnf": f"[client]\nuser=u\npassword={MARK}\n"}
    ),
    "broken my.cnf": Case(
        "mysql://{gone}/d/t", files={".my.cnf": f"[client]\nuser=u\npassword\n{MARK}\nport=x\n"}
    ),
    "SASL": Case(f"kafka://u:{MARK}@{{gone}}/t"),
    "SASL by a variable": Case("kafka://u@{gone}/t", env={"KAFKA_SASL_PASSWORD": MARK}),
    "property": Case(f"kafka://{{gone}}/t?ssl.key.password={MARK}&security.protocol=SSL"),
    "bad property": Case(f"kafka://{{gone}}/t?sasl.passwort={MARK}"),
    "registry": Case(
        f"kafka://{{gone}}/t?schema.registry.url=http://u:{MARK}@{{host}}", to=True
    ),
    "password of a registry": Case(
        f"kafka://{{gone}}/t?schema.registry.url={{web}}&schema.registry.user=u"
        f"&schema.registry.password={MARK}",
        to=True,
    ),
    "nearly an address": Case(f"postgresql:/u:{MARK}@{{gone}}/d/t"),
    "address of Java": Case(f"jdbc:postgresql://u:{MARK}@{{gone}}/d"),
    "no scheme": Case(f"u:{MARK}@{{gone}}/d/t", to=True),
    # --- what is told to others ---
    "headers of OTLP": Case(
        "{web}/a.csv",
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "{gone}", "OTEL_EXPORTER_OTLP_HEADERS": f"a={MARK}"},
    ),
    "key of OpenLineage": Case(
        "{web}/a.csv", env={"OPENLINEAGE_URL": "{web}", "OPENLINEAGE_API_KEY": MARK}
    ),
}  # fmt: skip


class Watched:
    """Looks at the arguments and variables of all children while commands run.

    Attributes:
        seen: places where the mark stood.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        known = {os.getpid()}
        while not self._end.wait(0.01):
            for pid in {*bombs.tree(os.getpid())} - known:
                known.add(pid)
                for name in ("cmdline", "environ"):
                    with suppress(OSError):
                        if MARK.encode() in Path(f"/proc/{pid}/{name}").read_bytes():
                            command = Path(f"/proc/{pid}/cmdline").read_bytes()
                            self.seen.add(f"{name} of {command!r}")


@pytest.fixture
def web() -> Iterator[Scripted]:
    """Refuses what has the mark, and repeats all that it was sent."""

    def reply(asked: Asked) -> Reply:
        sent = [unquote(asked.path), *map(str, asked.headers.values())]
        for value in [*sent]:
            with suppress(ValueError):
                sent.append(base64.b64decode(value.partition(" ")[2]).decode())
        if any(MARK in text for text in sent):
            return Reply(status=403, body=f"{asked.method} refused: {sent}".encode())
        return Reply(ROW, headers={"ETag": '"one"'})

    with Scripted(reply) as server:
        yield server


def filled(text: str, web: Scripted, home: Path) -> str:
    """Return a text of a case with its places."""
    places = {"web": web.url("")[:-1], "host": web.host, "gone": "127.0.0.1:1", "home": str(home)}
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def forms(mark: str) -> set[str]:
    """A secret as it is, as hexadecimal digits, and as it stands in base64."""
    return {mark, mark.encode().hex(), *(
        # Behind none to two other bytes, without what those change.
        base64.b64encode(b"x" * n + mark.encode())[4 * bool(n) : 12].decode() for n in range(3)
    )}  # fmt: skip


def check(shell: Shell, given: Mapping[str, str], *texts: str, mark: str = MARK) -> None:
    """Check that the mark is in no text, and in no file but those that were given."""
    known = forms(mark)
    for text in texts:
        for form in known:
            at = text.find(form)
            assert at < 0, text[max(0, at - 300) : at + 100]
    for folder in (shell.folder, shell.cli.home):
        for path in folder.rglob("*"):
            if path.is_file() and not any(str(path).endswith(name) for name in given):
                data = path.read_bytes()
                assert not any(form.encode() in data for form in known), path


# Each case is nine commands; clients of brokers and of some stores wait before they give up.
GATE = {"password of a URL", "session token", "nearly an address", "broken service"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in GATE else pytest.mark.long) for name in CASES
])  # fmt: skip
def test_a_secret_is_nowhere(shell: Shell, web: Scripted, name: str) -> None:
    case, home = CASES[name], shell.cli.home
    for file, text in case.files.items():
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(text, web, home))
        path.chmod(0o600)
    shell.write("own.csv", ROW)
    address = filled(case.address, web, home)
    with Receiver() as told, Watched() as watched:
        shell.env.update(
            RUST_BACKTRACE="full", ROWFALL_DEBUG="1", OTEL_EXPORTER_OTLP_ENDPOINT=told.url
        )
        shell.env.update({key: filled(value, web, home) for key, value in case.env.items()})
        where = ("own.csv", "--to", address) if case.to else (address,)
        few = ("--patience", "1s") if "://" in address else ()
        load = ("load", *where, "--table", "t", *few)
        done = [
            shell.run("plan", *where, "--table", "t", "-v"),
            shell.run(*load, "-v", "--log-file", "log.jsonl"),
            shell.run(*load, "--json", "--force", "--verify"),
            shell.run("status", *(("--to", address) if case.to else ())),
            shell.run("report", "last", "--json"),
            shell.run("report", "last", "--html", "page.html"),
        ]
        if not case.to:
            done += [
                shell.run("query", f"SELECT * FROM '{address}'"),
                shell.run("export", "--query", "SELECT 1", "o.csv", "--from", address),
            ]
    assert watched.seen == set()
    check(shell, case.files, told.text, *(text for one in done for text in (one.out, one.err)))


LOADED = (
    "password of a URL", "user alone", "parameter", "parameter nobody knows", "fragment", "netrc",
    "key of OpenLineage",
)  # fmt: skip
"""Cases in which what is behind the address answers, and the load succeeds."""
INTO = {
    "folder": (), "lake": ("--to", "iceberg+lake/t"), "duckdb": ("--to", "x.duckdb"),
    "parquet": ("--to", "out.parquet"), "lines": ("--to", "out.jsonl"),
}  # fmt: skip
LINEAGE = "transport: {type: file, log_file_path: lineage.json, append: true}\n"


def loads(shell: Shell, address: str, *where: str) -> list[str]:
    """Load from an address, and look at what is known of it then; returns all that was said."""
    name = () if {"iceberg+lake/t", "out.parquet", "out.jsonl"} & {*where} else ("--table", "t")
    shell.write("openlineage.yml", LINEAGE)
    given = (address, *name, *where)
    done = [
        shell.ok("load", *given, "-v", "--verify", "--log-file", "log.jsonl"),
        shell.ok("load", *given, "--json"),
        shell.run("status", "-v", *where),
        shell.run("report", "last", "--json", *where),
        shell.run("report", "last", "--html", "page.html", *where),
    ]
    lineage = (shell.folder / "lineage.json").read_text()
    assert '"COMPLETE"' in lineage, lineage
    return [text for one in done for text in (one.out, one.err)]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("into", INTO)
@pytest.mark.parametrize("name", LOADED)
def test_a_secret_of_a_load_that_succeeds(shell: Shell, name: str, into: str) -> None:
    """It is neither in what the load remembers nor in the metadata of what it has written."""
    case, home = CASES[name], shell.cli.home
    with Scripted(lambda _: Reply(ROW, headers={"ETag": '"one"'})) as web, Receiver() as told:
        for file, text in case.files.items():
            (home / file).write_text(filled(text, web, home))
            (home / file).chmod(0o600)
        shell.env.update({key: filled(value, web, home) for key, value in case.env.items()})
        shell.env.update(OTEL_EXPORTER_OTLP_ENDPOINT=told.url)
        shell.env.pop("OPENLINEAGE_URL", None)
        said = loads(shell, filled(case.address, web, home), *INTO[into])
    check(shell, case.files, told.text, *said)


@dataclass(frozen=True)
class Known:
    """A service with a password.

    Attributes:
        ask: runs a statement there. ``to``: address of the database, with the password.
        source: that of its table t.
        mark: the password. ``record``: lists the tables beside those of the user.
    """

    ask: Callable[[str], object]
    to: str
    source: str
    mark: str
    record: str


@pytest.fixture(params=["postgresql", "mariadb", "clickhouse"])
def known(request: pytest.FixtureRequest) -> Iterator[Known]:
    service, name = request.getfixturevalue(request.param), f"secrets{os.getpid()}"
    listed = (
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE "
        f"table_name LIKE '%rowfall%' AND table_schema LIKE '{name}'"
    )
    if request.param == "postgresql":
        at = service.uri.replace("@", f":{service.password}@", 1)
        service.run(f"CREATE SCHEMA {name}")
        to, source = f"{at}?schema={name}", f"{at}/{name}.t"
        yield Known(service.ask, to, source, service.password, listed)
        service.run(f"DROP SCHEMA {name} CASCADE")
        return
    service.query(f"CREATE DATABASE {name}")
    scheme = {"scheme": "mysql"} if request.param == "mariadb" else {}
    at = service.uri(name, **scheme)
    yield Known(service.query, at, f"{at}/t", service.password, listed)
    service.query(f"DROP DATABASE {name}")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_passwords_of_a_target_and_then_of_a_source(shell: Shell, known: Known) -> None:
    """They are not in the record of the target, which is a table beside the rows, either."""
    with Scripted(lambda _: Reply(ROW, headers={"ETag": '"one"'})) as web:
        address = f"http://u:{MARK}@{web.host}/a.csv?token={MARK}"
        said = loads(shell, address, "--to", known.to)
    said += loads(shell, known.source)
    check(shell, {}, *said)
    check(shell, {}, *said, mark=known.mark)
    names = re.findall(r"[\w$]+\.\w*rowfall\w*", str(known.ask(known.record)))
    assert names
    for name in names:
        held = str(known.ask(f"SELECT * FROM {name}"))
        check(shell, {}, held)
        check(shell, {}, held, mark=known.mark)


@pytest.mark.long
def test_the_key_of_a_bucket_whose_objects_are_loaded(shell: Shell, s3: Seaweed) -> None:
    with suppress(Exception):
        s3.create_bucket("secrets")
    s3.put("secrets", "a.csv", ROW)
    shell.env.update(s3.environment(), AWS_ENDPOINT_URL=s3.endpoint)
    check(shell, {}, *loads(shell, "s3://secrets/a.csv"), mark=s3.secret_key)
