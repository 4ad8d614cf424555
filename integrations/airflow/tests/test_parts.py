"""Connections as addresses, the process of a load, and its trigger; without a DAG."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from rowfall_airflow import RowfallOperator, RowfallTrigger
from rowfall_airflow.connections import source_of, target_of
from rowfall_airflow.lineage import input_name, output_name
from rowfall_airflow.operators import _check_secret, _flags, _shown
from rowfall_airflow.process import LoadProcess, LoadResult


def connection(kind: str, **values: Any) -> Connection:
    extra = json.dumps(values.pop("extra", {}))
    return Connection(conn_id="c", conn_type=kind, extra=extra, **values)


_SECRET = "p@ss/word?&"


@pytest.mark.parametrize(
    ("made", "url", "environment"),
    [
        (
            connection("clickhouse", host="ch", login="me", password=_SECRET, schema="lake"),
            "clickhouse://me@ch/lake",
            {"ROWFALL_PASSWORD": _SECRET},
        ),
        (
            connection(
                "clickhouse", host="ch", port=8443,
                extra={"secure": True, "session_settings": '{"workload": "etl"}', "cluster": "c1"},
            ),
            "clickhouses://default@ch:8443/default?cluster=c1&workload=etl",
            {},
        ),
        (
            connection(
                "postgres", host="::1", port=5433, login="a b", password=_SECRET, schema="shop",
                extra={"sslmode": "verify-full", "keepalives": 1},
            ),
            "postgresql://a%20b@[::1]:5433/shop?sslmode=verify-full",
            {"ROWFALL_PASSWORD": _SECRET},
        ),
        (
            connection(
                "mysql", host="my", login="me", password=_SECRET, schema="shop",
                extra={"ssl": {"ca": "/ca.pem"}},
            ),
            "mysql://me@my/shop?ssl_ca=%2Fca.pem",
            {"ROWFALL_PASSWORD": _SECRET},
        ),
    ],
)  # fmt: skip
def test_connections_are_targets(made: Any, url: str, environment: dict[str, str]) -> None:
    found = target_of(made)
    assert (found.url, found.environment) == (url, environment)


def test_connections_are_sources_with_variables_of_their_own() -> None:
    shop = connection("postgres", host="h", login="me", password=_SECRET, schema="shop")
    found = source_of(shop, "sales.orders?key=created_at")
    assert found.url == "postgresql://me@h/shop/sales.orders?key=created_at"
    assert found.environment == {"PGPASSWORD": _SECRET}
    # The target's password has another variable, so both may be PostgreSQL.
    assert not set(found.environment) & set(target_of(shop).environment)
    assert source_of(shop, "").url == "postgresql://me@h/shop"
    topic = connection("kafka", extra={
        "bootstrap.servers": "b1:9092,b2:9092", "group.id": "airflow", "sasl.username": "me",
        "security.protocol": "SASL_SSL", "sasl.password": _SECRET,
    })  # fmt: skip
    found = source_of(topic, "orders")
    assert found.url == (
        "kafka://b1:9092,b2:9092/orders?sasl.username=me&security.protocol=SASL_SSL"
    )
    assert found.environment == {"KAFKA_SASL_PASSWORD": _SECRET}
    bucket = connection("aws", login="key", password=_SECRET, extra={"region_name": "eu-1"})
    assert source_of(bucket, "s3://b/*.csv").url == "s3://b/*.csv"
    assert source_of(bucket, "s3://b/*.csv").environment == {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": "eu-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (connection("sftp", host="h"), "has the type 'sftp'"),
        (connection("postgres", host="h"), "names no database"),
        (connection("clickhouse", host="h", extra={"verify": False}), "checks certificates"),
        (connection("aws", extra={"role_arn": "arn:..."}), "assumes a role"),
        (
            connection("kafka", extra={"bootstrap.servers": "b", "ssl.key.pem": _SECRET}),
            "ssl.key.pem",
        ),
    ],
)
def test_what_a_connection_cannot_say_is_refused_without_its_secret(made: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        source_of(made, "x") if made.conn_type == "kafka" else target_of(made)
    assert _SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("clickhouse://me:s3cret@ch/lake", "a password"),
        # As typed, with letters that end what is taken for the host.
        ("postgresql://me:s3cret/x@h:5432/shop", "a password"),
        ("postgresql://me:x?s3cret@h/shop", "a password"),
        ("mysql://me:x#s3cret@h/shop", "a password"),
        ("mysql://me:x@s3cret@h/shop", "a password"),
        ("clickhouse://me:12/s3cret@ch/lake", "a password"),
        ("https://me:s3cret/x@h/a.csv", "a password"),
        ("s3://me:s3cret/x@h/a.csv", "a password"),
        ("kafka://b1:9092,b2:9092/orders?sasl.username=me&sasl.password=s3cret", "sasl.password"),
        ("postgresql://h/shop/orders?password=s3cret", "password"),
    ],
)
def test_an_address_with_a_secret_is_refused_without_it(address: str, what: str) -> None:
    with pytest.raises(ValueError, match=f"holds {what};") as error:
        _check_secret(address)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    "address", [
        "https://h:8080/@scope/a@b.csv", "hdfs://nn:8020/u@x/f", "kafka://h1:1,h2:2/t",
        "postgresql://me@[::1]:5432/db", "clickhouse://h:8123/db?user.name=a@b", "s3://b/a:b@c",
    ],
)  # fmt: skip
def test_an_address_without_a_secret_is_taken(address: str) -> None:
    _check_secret(address)


def test_the_log_has_no_signature_of_an_address() -> None:
    signed = "https://b.s3.amazonaws.com/a.csv?X-Amz-Signature=s3cret"
    _check_secret(signed)
    assert _shown(signed) == "https://b.s3.amazonaws.com/a.csv?***"
    plain = "postgresql://me@h/shop/orders?key=id"
    _check_secret(plain)
    assert _shown(plain) == plain


def test_options_are_those_of_the_command_line() -> None:
    assert _flags("order_by", "id, -x") == ["--order-by=id, -x"]
    assert _flags("replace", True) == ["--replace"]
    assert _flags("replace", False) == _flags("where", None) == []
    assert _flags("header", False) == ["--header=no"]
    assert _flags("type", {"id": "UInt64"}) == ["--type=id UInt64"]
    assert _flags("set", {"a": 1, "b": "c"}) == ["--set=a=1", "--set=b=c"]
    assert _flags("exclude", ["a", "b"]) == ["--exclude=a", "--exclude=b"]


@pytest.mark.parametrize(
    ("code", "document", "error"),
    [
        (1, {"failures": [{"error": "x", "lasting": False}]}, AirflowException),
        (1, {"failures": [{"error": "x", "lasting": True}] * 2}, AirflowFailException),
        (2, {"error": "no such option", "hint": "h"}, AirflowFailException),
        (3, {"error": "x"}, AirflowFailException),
        (4, {"error": "x"}, AirflowFailException),
        (5, {"error": "x"}, AirflowFailException),
        (6, {"error": "x"}, AirflowException),
        (70, {}, AirflowFailException),
        (130, {}, AirflowException),
        (-9, {}, AirflowException),
        (None, {}, AirflowException),
    ],
)
def test_exit_codes_decide_about_retries(
    code: int | None, document: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    operator = RowfallOperator(task_id="t", source="a.csv")
    with pytest.raises(AirflowException) as raised:
        operator._ended(LoadProcess(tmp_path), LoadResult(code, document))
    assert type(raised.value) is error
    assert str(code) in str(raised.value) or code in (None, -9)
    patient = RowfallOperator(task_id="t", source="a.csv", retry_codes=(1, 5))
    if code == 5:
        with pytest.raises(AirflowException) as raised:
            patient._ended(LoadProcess(tmp_path), LoadResult(code, document))
        assert type(raised.value) is AirflowException


# --- the process ----------------------------------------------------------------------------------

_WAITS = "import signal, sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(600)"
_STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + _WAITS


def begun(load: LoadProcess, code: str) -> LoadProcess:
    assert load.start([sys.executable, "-c", code], {"SECRET": _SECRET})
    assert next(load.said()) == "begun"
    return load


def test_a_load_is_started_once_and_interrupted(tmp_path: Path) -> None:
    load = begun(LoadProcess(tmp_path / "a"), _WAITS)
    assert load.running()
    assert not LoadProcess(tmp_path / "a").start(["true"], {})  # it is found, not started again
    pid = json.loads((load.folder / "pid").read_text())["pid"]
    assert os.getsid(pid) == pid
    assert load.end()
    assert not load.running()
    assert load.result().code == -2  # SIGINT has reached the command, and was written down
    assert (load.folder / "exit").exists()
    # The same command may go on now; one that has ended well is not run again before it is removed.
    assert load.start(["true"], {})
    assert [*load.said()] == []
    assert load.result().code == 0
    assert not load.start(["true"], {})
    for file in load.folder.iterdir():
        assert _SECRET not in file.read_text()


def test_a_load_that_hears_nothing_is_killed_and_then_lost(tmp_path: Path) -> None:
    load = begun(LoadProcess(tmp_path / "a"), _STUBBORN)
    assert load.end(seconds=0.3)
    deadline = time.monotonic() + 10
    while load.running():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert load.result() == LoadResult(None, {})


def test_the_lock_is_held_while_the_command_runs_without_its_runner(tmp_path: Path) -> None:
    load = begun(LoadProcess(tmp_path / "a"), _WAITS)
    os.kill(json.loads((load.folder / "pid").read_text())["pid"], 9)
    assert load.running()
    assert not load.start(["true"], {})
    assert load.end(seconds=5)
    assert not load.running()


def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    load = LoadProcess(tmp_path / "a")
    assert load.start(["/no/such/rowfall"], {})
    assert [*load.said()] == ["cannot run /no/such/rowfall: No such file or directory"]
    assert load.result().code == 127


def test_variables_of_airflow_itself_are_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "postgres://a:b@c/d")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "k")
    monkeypatch.setenv("AWS_PROFILE", "p")
    load = LoadProcess(tmp_path / "a")
    code = "import os, json, sys; json.dump(dict(os.environ), sys.stdout)"
    assert load.start([sys.executable, "-c", code], {"ROWFALL_PASSWORD": _SECRET})
    assert [*load.said()] == []
    seen = load.result().document
    assert not [name for name in seen if name.startswith("AIRFLOW_")]
    assert (seen["AWS_PROFILE"], seen["ROWFALL_PASSWORD"]) == ("p", _SECRET)


# --- the trigger ----------------------------------------------------------------------------------


async def _first(events: AsyncIterator[Any]) -> Any:
    async for event in events:
        return event.payload
    return None


def again(trigger: RowfallTrigger) -> RowfallTrigger:
    """Return the trigger as another triggerer makes it."""
    path, values = trigger.serialize()
    assert path == "rowfall_airflow.triggers.RowfallTrigger"
    return RowfallTrigger(**json.loads(json.dumps(values)))


def test_the_trigger_waits_and_says_when_it_is_late_or_sees_nothing(tmp_path: Path) -> None:
    async def events() -> None:
        load = begun(LoadProcess(tmp_path / "a"), _WAITS)
        late = again(RowfallTrigger(str(load.folder), 0.01, time.time() - 1))
        assert await _first(late.run()) == {"state": "late"}
        waiting = asyncio.create_task(_first(again(RowfallTrigger(str(load.folder), 0.01)).run()))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await asyncio.to_thread(load.interrupt)
        assert await asyncio.wait_for(waiting, 20) == {"state": "ended"}
        unseen = RowfallTrigger(str(tmp_path / "elsewhere"), 0.01)
        assert await _first(unseen.run()) == {"state": "unseen"}

    asyncio.run(events())


def test_the_trigger_ends_the_load_of_a_task_that_is_cleared(tmp_path: Path) -> None:
    load = begun(LoadProcess(tmp_path / "a"), _WAITS)
    asyncio.run(again(RowfallTrigger(str(load.folder))).on_kill())
    assert not load.running()
    assert not load.folder.exists()


# --- lineage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/data/a.csv", ("file", "/data/a.csv")),
        ("/data/in/*.csv", ("file", "/data/in")),
        ("s3://lake/2026/*/x.parquet", ("s3://lake", "2026")),
        ("postgresql://me@h/shop/orders", ("postgres://h:5432", "shop.public.orders")),
        ("postgresql://me@h:1/shop/s.orders?key=a", ("postgres://h:1", "shop.s.orders")),
        ("kafka://b1:9092,b2:9092/orders", ("kafka://b1:9092", "orders")),
        ("generate://trips?rows=5", None),
    ],
)
def test_names_of_what_is_read(source: str, name: tuple[str, str] | None) -> None:
    assert input_name(source) == name


@pytest.mark.parametrize(
    ("target", "table", "name"),
    [
        ("/data/lake", "default.t", ("file", "/data/lake/default.t")),
        ("clickhouse://me@h/lake?a=1", "lake.t", ("clickhouse://h:8123", "lake.t")),
        ("postgresql://me@h/shop", "public.t", ("postgres://h:5432", "shop.public.t")),
        ("duckdb:///x/a.duckdb", "main.t", ("file", "/x/a.duckdb/main.t")),
        ("null:", "", None),
    ],
)
def test_names_of_what_is_written(target: str, table: str, name: tuple[str, str] | None) -> None:
    assert output_name(target, table) == name
