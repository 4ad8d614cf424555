"""Loads from Google Cloud Storage and Azure: by the decoder, by the engine, and what they say."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.large import LINES, lines, parquet, shares
from e2e.large import ROWS as LARGE
from e2e.tools import Shell
from lab.azure import Azure
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.google import Google
from lab.seaweed import Seaweed
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.decoder import installed
from rowfall.deliver.ranges import LEAST
from rowfall.sources import open_source
from rowfall.sources.base import Addressed
from rowfall.stores import az

_numbers = itertools.count()
ROWS = 20_000
HOST = "storage.googleapis.com"  # signed for it, whatever the emulator's address is
COUNT = "SELECT count(), sum(id), uniqExact(id) FROM t"
EXACT = [2 * ROWS, ROWS * (2 * ROWS + 1), 2 * ROWS]


@dataclass
class Cloud:
    """A bucket or container with two objects that hold the ids from 1 to 2 * ROWS.

    Attributes:
        hidden: what nobody may see.
    """

    at: str
    service: Google | Azure | Seaweed
    env: dict[str, str]
    hidden: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return f"{self.at}/in/*.csv.gz"

    def put(self, key: str, body: bytes) -> None:
        self.service.put(self.at.partition("://")[2], key, body)


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


# Google by an HMAC key is signed as S3 is: what differs by service only is left to test-all.
ALL_CLOUDS = pytest.mark.parametrize("cloud", ["gs", "gs-hmac", "az"], indirect=True)


@pytest.fixture(params=["gs", pytest.param("gs-hmac", marks=pytest.mark.long), "az"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    name = f"cloud-{os.getpid()}-{next(_numbers)}"
    if request.param == "gs":
        google: Google = request.getfixturevalue("google")
        google.create_bucket(name)
        made = Cloud(f"gs://{name}", google, google.env)
    elif request.param == "az":
        azure: Azure = request.getfixturevalue("azure")
        azure.create_bucket(name)
        made = Cloud(f"az://{name}", azure, azure.env, (azure.key, "sig="))
    else:
        s3: Seaweed = request.getfixturevalue("s3")
        s3.create_bucket(name)
        made = Cloud(f"gs://{name}", s3, s3.google_env, (s3.secret_key, "X-Amz-Signature="))
    for n in range(2):
        lines = "".join(f"{i},n {i % 7}\n" for i in range(n * ROWS + 1, (n + 1) * ROWS + 1))
        made.put(f"in/{n} é.csv.gz", gzip.compress(b"id,name\n" + lines.encode(), 1))
    return made


def leaks(cloud: Cloud, text: str) -> bool:
    """Whether a key is in it, or a signature with its value."""
    return any(secret in text.replace(f"{secret}[HIDDEN]", "") for secret in cloud.hidden)


@pytest.mark.sampled(1)
@ALL_CLOUDS
@pytest.mark.parametrize("decoder", ["always", pytest.param("never", marks=pytest.mark.long)])
def test_a_load(shell: Shell, cloud: Cloud, decoder: str) -> None:
    done = shell.ok(
        "load", cloud.source, "--table", "t", "--decoder", decoder, "--verify", env=cloud.env
    )
    assert "the engine reads it instead" not in done.talk
    assert shell.row(COUNT) == EXACT
    again = shell.ok("load", cloud.source, "--table", "t", "--json", env=cloud.env).document
    assert again["rows"] == 0
    assert shell.row(COUNT) == EXACT


@pytest.mark.sampled(1)
def test_what_is_read_from_its_end(shell: Shell, cloud: Cloud) -> None:
    shell.ok("load", "generate://trips?rows=30000", "--to", "out/part.parquet")
    cloud.put("p/a.parquet", (shell.folder / "out/part.parquet").read_bytes())
    shell.ok("load", f"{cloud.at}/p/*.parquet", "--table", "p", "--verify", env=cloud.env)
    assert shell.row("SELECT count() FROM p") == [30_000]


@functools.cache
def big(rows: int) -> bytes:
    return b"".join(b"%09d,%010d\n" % (i, i) for i in range(1, rows + 1))


@pytest.mark.sampled(1)
def test_a_big_object_is_read_in_ranges(shell: Shell, cloud: Cloud) -> None:
    rows = 2_000_000
    body = big(rows)
    assert len(body) > 2 * LEAST
    cloud.put("big/a.csv", body)
    done = shell.ok(
        "load", f"{cloud.at}/big", "--table", "t", "--threads", "2", "--format", "CSV",
        "--schema", "id UInt32, n UInt64", "--decoder", "always", env=cloud.env,
    )  # fmt: skip
    assert "the engine reads it instead" not in done.talk
    assert shell.row(COUNT) == [rows, rows * (rows + 1) // 2, rows]


@pytest.mark.sampled(1)
@ALL_CLOUDS
def test_nothing_shows_a_key(shell: Shell, cloud: Cloud) -> None:
    cloud.put("bad/a.csv", b"id,name\n1,x\nzwei,y\n")
    options = ("--schema", "id UInt32, name String", "--table", "t")
    for args in (
        ("plan", cloud.source, "--table", "t", "--decoder", "never"),
        ("load", f"{cloud.at}/bad/*.csv", *options),
        ("load", f"{cloud.at}/bad/*.csv", *options, "--decoder", "never"),
    ):
        done = shell.run(*args, env=cloud.env)
        assert done.code == (0 if args[0] == "plan" else 1)
        assert args[0] == "plan" or ("line 3" in done.talk and f"{cloud.at}/bad" in done.talk)
        assert not leaks(cloud, done.out + done.err)
    for path in shell.folder.rglob("*"):
        if path.is_file() and "ledger" in path.name:
            assert not any(secret.encode() in path.read_bytes() for secret in cloud.hidden)


@pytest.mark.sampled(1)
def test_no_error_shows_a_key(shell: Shell, cloud: Cloud) -> None:
    """What the engine says of one address out of many holds the address in its own form."""
    cloud.put("in/2.csv.gz", b"no gzip at all")
    options = ("--table", "t", "--schema", "id UInt32, name String", "--decoder", "never")
    done = shell.run("load", cloud.source, *options, env=cloud.env)
    assert done.code == 1, done.err
    assert f"{cloud.at}/in/2.csv.gz" in done.talk
    assert shell.row(COUNT) == EXACT
    assert not leaks(cloud, done.out + done.err)


def test_an_object_that_changes(shell: Shell, cloud: Cloud) -> None:
    shell.ok("load", cloud.source, "--table", "t", env=cloud.env)
    cloud.put("in/1 é.csv.gz", gzip.compress(b"id,name\n1,x\n"))
    report = shell.ok("load", cloud.source, "--table", "t", "--json", env=cloud.env).document
    assert report["rows"] == 1  # as S3: another version is another object


def test_mistakes(shell: Shell, cloud: Cloud) -> None:
    scheme = cloud.at.partition("://")[0]
    for source, said in (
        (f"{scheme}://not-there-0/a.csv", "no "),
        (f"{cloud.at}/none.csv", "no such object"),
        (f"{cloud.at}/none/*.csv", "no object matches"),
    ):
        done = shell.run("load", source, "--table", "t", env=cloud.env)
        assert (done.code, said in done.talk, "hint" in done.talk) == (4, True, True), done.talk
    assert shell.run("load", f"{scheme}://", "--table", "t", env=cloud.env).code == 2


@pytest.mark.sampled(1)
def test_into_a_server(lake: Lake, cloud: Cloud) -> None:
    plan = lake.ok("plan", cloud.source, "--table", "t", "--json", env=cloud.env).document
    assert plan["decoder"] == installed.PROGRAM
    report = lake.load(cloud.source, "--table", "t", "--verify", env=cloud.env)
    assert report["rows"] == 2 * ROWS
    assert lake.row(COUNT.replace("FROM t", "FROM {db}.t")) == EXACT
    lake.do("SYSTEM FLUSH LOGS")
    for secret in cloud.hidden:
        half = len(secret) // 2
        assert lake.row(
            f"SELECT countIf(position(query, '{secret[:half]}' || '{secret[half:]}') > 0 AND "
            "query NOT LIKE '%countIf%') FROM system.query_log"
        ) == [0]  # fmt: skip


def test_a_server_pulls_what_needs_no_signed_address(lake: Lake, cloud: Cloud) -> None:
    done = lake.shell.run(
        "load", cloud.source, "--table", "t", "--pull", "--to", lake.to, env=cloud.env
    )
    if cloud.at.startswith("az"):
        assert done.code == 5
        assert "holds a secret" in done.talk
    else:
        assert done.code == 0, done.err
        assert lake.row("SELECT count(), sum(id) FROM {db}.t") == EXACT[:2]


# --- cut for shards -------------------------------------------------------------------------------

# What signed addresses are needed for, no server pulls; text it reads whole without the decoder.
CUT = {"big.parquet": (parquet, LARGE), "big.csv": (lines, LINES)}


def large(cloud: Cloud, key: str) -> tuple[tuple[str, ...], int]:
    """Arguments that load one large object in ranges, and its rows."""
    make, rows = CUT[key]
    cloud.put(f"cut/{key}", make())
    way = "--pull" if key == "big.parquet" and not cloud.at.startswith("az") else "--push"
    return (f"{cloud.at}/cut/{key}", "--table", "t", "--attempt-bytes", "1MB", way), rows


@pytest.fixture
def fleet(shell: Shell, cluster21: Cluster) -> Iterator[Fleet]:
    fleet = Fleet(shell, cluster21)
    yield fleet
    fleet.drop()


@pytest.mark.long
@pytest.mark.parametrize(
    ("cloud", "key"),
    [
        ("gs", "big.csv"),
        *(
            pytest.param(cloud, key, marks=pytest.mark.long)
            for cloud, key in (("az", "big.parquet"), ("gs", "big.parquet"), ("az", "big.csv"))
        ),
    ],
    indirect=["cloud"],
)
def test_one_large_object_loads_on_all_shards(fleet: Fleet, cloud: Cloud, key: str) -> None:
    args, rows = large(cloud, key)
    planned = fleet.ok("plan", *args, "--json", env=cloud.env).document
    assert planned["listing"]["splits"] >= 3
    report = fleet.load(*args, "--verify", env=cloud.env)
    assert (report["rows"], sum(shares(report))) == (rows, rows)
    assert min(shares(report)) > rows * 0.2
    assert fleet.numbers("t") == [rows, rows]
    again = fleet.load(*args, env=cloud.env)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, planned["listing"]["splits"])
    assert not fleet.left()


@pytest.mark.parametrize("cloud", ["gs", pytest.param("az", marks=pytest.mark.long)], indirect=True)
# Ranges of text: test_cluster_ranges.py.
@pytest.mark.long
@pytest.mark.parametrize("key", ["big.parquet", pytest.param("big.csv", marks=pytest.mark.long)])
def test_a_killed_load_goes_on_with_the_ranges(fleet: Fleet, cloud: Cloud, key: str) -> None:
    args, rows = large(cloud, key)
    fleet.begin_and_kill(cloud.env, *args)
    fleet.load(*args, "--verify", env=cloud.env)
    assert fleet.numbers("t") == [rows, rows]
    assert fleet.load(*args, env=cloud.env)["splits_loaded"] == 0
    assert not fleet.left()


# --- who asks -------------------------------------------------------------------------------------


def test_azure_by_token_and_connection_string(shell: Shell, azure: Azure) -> None:
    name = f"cloud-{os.getpid()}-{next(_numbers)}"
    azure.create_bucket(name)
    azure.put(name, "a.csv", b"id,name\n1,x\n")
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={azure.account};AccountKey={azure.key};"
        f"BlobEndpoint={azure.endpoint};"
    )
    env = {"AZURE_STORAGE_CONNECTION_STRING": text}
    shell.ok("load", f"az://{name}/a.csv", "--table", "t", env=env)
    account = az.AzureAccount(azure.account, azure.endpoint, Secret(azure.key))
    token = az.shared_access(account, name)
    assert token is not None
    env = {"AZURE_STORAGE_SAS_TOKEN": token.reveal(), "AZURE_STORAGE_ENDPOINT": azure.endpoint,
           "AZURE_STORAGE_ACCOUNT_NAME": azure.account}  # fmt: skip
    shell.ok("load", f"az://{name}/a.csv", "--table", "u", env=env)
    assert shell.row("SELECT (SELECT sum(id) FROM t), (SELECT sum(id) FROM u)") == [1, 1]


def test_azure_says_who_may_not(shell: Shell, azure: Azure) -> None:
    name = f"cloud-{os.getpid()}-{next(_numbers)}"
    azure.create_bucket(name)
    azure.put(name, "a.csv", b"id,name\n1,x\n")
    wrong = base64.b64encode(b"another-key-0123456789").decode()
    done = shell.run(
        "load", f"az://{name}/a.csv", "--table", "t",
        env={**azure.env, "AZURE_STORAGE_ACCOUNT_KEY": wrong},
    )  # fmt: skip
    assert (done.code, wrong in done.err) == (4, False)
    assert "AZURE_STORAGE_ACCOUNT_KEY" in done.talk
    nobody = {k: v for k, v in azure.env.items() if k != "AZURE_STORAGE_ACCOUNT_KEY"}
    done = shell.run("load", f"az://{name}/*.csv", "--table", "t", env=nobody)
    assert (done.code, "is not public" in done.talk) == (4, True), done.talk
    done = shell.run("load", f"az://{name}/*.csv", "--table", "t")
    assert (done.code, "no Azure storage account is named" in done.talk) == (2, True)


def test_a_public_container(shell: Shell, azure: Azure) -> None:
    name = f"cloud-{os.getpid()}-{next(_numbers)}"
    azure.create_bucket(name, public=True)
    azure.put(name, "a.csv", b"id,name\n1,x\n")
    nobody = {k: v for k, v in azure.env.items() if k != "AZURE_STORAGE_ACCOUNT_KEY"}
    shell.ok("load", f"az://{name}/*.csv", "--table", "t", env=nobody)
    assert shell.row("SELECT sum(id) FROM t") == [1]


@pytest.fixture
def account(google: Google, tmp_path: Path) -> Path:
    """The key file of a service account."""
    key = tmp_path / "key.pem"
    openssl("genrsa", "-out", str(key), "2048")
    text = {
        "type": "service_account", "client_email": "lab@rowfall", "private_key": key.read_text(),
        "private_key_id": "1", "gcs_base_url": google.endpoint,
    }  # fmt: skip
    path = tmp_path / "account.json"
    path.write_text(json.dumps(text))
    return path


def openssl(*args: str) -> str:
    program = shutil.which("openssl")
    assert program
    done = subprocess.run([program, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_google_service_account(shell: Shell, google: Google, account: Path) -> None:
    name = f"cloud-{os.getpid()}-{next(_numbers)}"
    google.create_bucket(name)
    google.put(name, "in/a é.csv", b"id,name\n1,x\n")
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(account), "GOOGLE_BASE_URL": google.endpoint}
    for wish in ("always", "never"):
        done = shell.ok(
            "load", f"gs://{name}/in/*.csv", "--table", wish, "--decoder", wish, env=env
        )
        assert "the engine reads it instead" not in done.talk
        assert shell.row(f"SELECT sum(id) FROM {wish}") == [1]
    plan = shell.ok("plan", f"gs://{name}/in/*.csv", "--table", "x", "--decoder", "never", env=env)
    assert "X-Goog-Signature" not in plan.out + plan.err
    account.write_text('{"type": "authorized_user"}')
    done = shell.run("load", f"gs://{name}/in/*.csv", "--table", "t", env=env)
    assert (done.code, "authorized_user" in done.talk, "hint" in done.talk) == (2, True, True)


def test_the_signatures_of_a_service_account(
    google: Google, account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator takes any, so openssl says whether they are what Google wants."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    monkeypatch.setenv("GOOGLE_BASE_URL", google.endpoint)
    source = open_source(["gs://lake/*"], Options())
    assert isinstance(source, Addressed)
    public, text, signature = (str(tmp_path / name) for name in ("public", "text", "signature"))
    openssl("rsa", "-in", str(tmp_path / "key.pem"), "-pubout", "-out", public)
    keys = ("a.csv", "b +é%41{x}.csv", "c/d e,f.csv")
    splits = [Split("", f"gs://lake/{key}", "", 1) for key in keys]
    for key, address in zip(keys, source.addresses(splits), strict=True):
        url = urlsplit(address.url.reveal())
        assert unquote(url.path) == f"/lake/{key}"
        query, _, signed = url.query.partition("&X-Goog-Signature=")
        fields = dict(parse_qsl(query))
        scope = fields["X-Goog-Credential"].partition("/")[2]
        request = f"GET\n{url.path}\n{query}\nhost:{HOST}\n\nhost\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(request.encode()).hexdigest()
        lines = ("GOOG4-RSA-SHA256", fields["X-Goog-Date"], scope, digest)
        Path(text).write_text("\n".join(lines))
        Path(signature).write_bytes(bytes.fromhex(signed))
        said = openssl("dgst", "-sha256", "-verify", public, "-signature", signature, text)
        assert said == "Verified OK\n"
