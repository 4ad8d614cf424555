"""One node's statements sent through another node."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from contract.clusters import add_user, down, new_database
from contract.engines import new_id, new_table, run, running, slow, text
from lab.clickhouse import Account
from lab.cluster import Cluster as Lab
from lab.cluster import Node
from lab.process import free_ports, let_pass, wait_until
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.masked import Secret
from rowfall.systems.clickhouse import relay as relay
from rowfall.systems.clickhouse.http import Address
from rowfall.systems.clickhouse.server import Server

SESAME = "sesame-0123456789"
Reach = Callable[..., Server]


@pytest.fixture
def entry(cluster4: Lab) -> Node:
    return cluster4.nodes[2]


@pytest.fixture
def far(cluster4: Lab) -> Node:
    return cluster4.nodes[1]


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Log in at a node, by way of another one if told so."""
    servers: list[Server] = []

    def open_(
        node: Node, through: Node | None = None, account: Account | None = None, port: int = 0
    ) -> Server:
        who = account or Account(node.user, node.password)
        servers.append(
            Server(
                "127.0.0.1", port or node.http, user=who.user, password=Secret(who.password),
                through=open_(through, None, account) if through else None,
            )
        )  # fmt: skip
        return servers[-1]

    yield open_
    for server in servers:
        server.close()


def logged(node: Node, what: str) -> int:
    """Lines of the node's logs that hold a text, whatever the log."""
    node.query("SYSTEM FLUSH LOGS")
    count = "SELECT count() FROM system.query_log WHERE "
    # In two pieces, so that the question does not find itself.
    mark = f"concat('{what[:4]}', '{what[4:]}')"
    return int(
        node.query(
            f"{count} position(query, {mark}) > 0 OR position(exception, {mark}) > 0 "
            f"OR position(toString(Settings), {mark}) > 0"
        )
    )


def test_the_far_server_answers(reach: Reach, entry: Node, far: Node) -> None:
    direct, relayed = reach(far), reach(far, entry)
    assert relayed.facts.version == direct.facts.version
    assert relayed.facts.cores == direct.facts.cores
    assert relayed.facts.timezone == direct.facts.timezone
    assert relayed.facts.settings == direct.facts.settings - {"readonly"}
    assert relayed.readonly == 0
    assert text(relayed, "SELECT tcpPort()") == str(far.tcp)
    assert text(relayed, "SELECT 'a\\tb', '{1,2}|?#%*', ''") == "a\tb\t{1,2}|?#%*"
    assert text(relayed, "SELECT 1 WHERE 0") == ""
    assert text(relayed, "SELECT getSetting('max_threads')", settings={"max_threads": 3}) == "3"
    assert text(relayed, "SELECT sum(number) FROM numbers(1000)") == "499500"
    query_id = new_id()
    assert text(relayed, "SELECT 7", query_id=query_id) == "7"
    far.query("SYSTEM FLUSH LOGS")
    begun = f"FROM system.query_log WHERE query_id = '{query_id}' AND type = 'QueryStart'"
    assert far.query(f"SELECT count() {begun}") == "1\n"  # the entry looks no further than asked
    assert logged(entry, f"http://127.0.0.1:{far.http}/?") > 0


def test_rows_are_written_once_and_counted(reach: Reach, entry: Node, far: Node) -> None:
    direct, relayed = reach(far), reach(far, entry)
    table, query_id = new_table(relayed), new_id()
    done = run(
        relayed, f"INSERT INTO {table} SELECT number FROM numbers(123456)", query_id=query_id
    )
    assert (done.rows_read, done.rows_written) == (123456, 123456)
    assert done.seconds > 0
    assert text(direct, f"SELECT count(), sum(a) FROM {table}") == "123456\t7620630240"
    assert relayed.finished(query_id) is True
    assert relayed.status.logged([query_id])[query_id].outcome.events["InsertedRows"] == 123456
    assert relayed.finished(new_id()) is None


def test_a_result_may_go_to_a_descriptor(reach: Reach, entry: Node, far: Node) -> None:
    relayed = reach(far, entry)
    read, write = os.pipe()
    with open(read, "rb") as out, ThreadPoolExecutor(1) as pool:
        data = pool.submit(out.read)
        sql = "SELECT number FROM numbers(300000)"
        run(relayed, sql, format="TabSeparated", out_fd=write)
        os.close(write)
        assert data.result(20) == b"".join(b"%d\n" % n for n in range(300_000))


def test_a_long_statement(reach: Reach, entry: Node, far: Node) -> None:
    relayed = reach(far, entry)
    table = new_table(relayed, "a String")
    long = "x" * 3_000_000
    done = run(relayed, f"INSERT INTO {table} SELECT '{long}\\n\\t'")
    assert done.rows_written == 1
    assert text(relayed, f"SELECT length(a) FROM {table}") == "3000002"
    with pytest.raises(TargetError, match="too long"):
        text(relayed, f"SELECT length('{long}')")


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("SELECT * FROM contract.nowhere", 60, "contract.nowhere"),
        ("DROP TABLE contract.nowhere", 60, "contract.nowhere"),
        ("SELEC 1", 62, "Syntax error"),
        ("SELECT throwIf(number = 50, 'stop here') FROM numbers(100)", 395, "stop here"),
        ("INSERT INTO contract.nowhere SELECT 1", 60, "contract.nowhere"),
    ],
)
def test_errors_are_those_of_the_far_server(
    reach: Reach, entry: Node, far: Node, sql: str, code: int, message: str
) -> None:
    relayed = reach(far, entry)
    run(relayed, "CREATE DATABASE IF NOT EXISTS contract")
    with pytest.raises(Exception, match=message) as caught:
        run(relayed, sql, format="TabSeparated" if sql.startswith("SELECT") else None)
    assert isinstance(caught.value, EngineError | TargetError)
    assert caught.value.code == code


def test_a_missing_right_is_named(reach: Reach, entry: Node, far: Node) -> None:
    rights = "SELECT ON system.*", "URL ON *.*", "CREATE TEMPORARY TABLE ON *.*"
    account = add_user((entry, far), "relayed", *rights)
    relayed = reach(far, entry, account)
    # As on a server that is new: its log is made with the first entry, seconds later.
    far.query("DROP TABLE IF EXISTS system.query_log SYNC")
    with pytest.raises(TargetError, match=r"lacks the grant CREATE TABLE ON here\.denied"):
        run(relayed, "CREATE TABLE here.denied (a Int8) ENGINE = Memory")
    with pytest.raises(TargetError, match="lacks the grant"):
        relayed.check_rights([("here", "denied")])


def test_an_entry_that_may_not_send_statements(reach: Reach, entry: Node, far: Node) -> None:
    account = add_user((entry, far), "no_url", "SELECT ON system.*")
    with pytest.raises(TargetError, match=r"(URL|CREATE TEMPORARY TABLE).* ON \*\.\*") as caught:
        reach(far, entry, account)
    assert caught.value.code == 497


def test_a_port_that_is_closed_between_the_nodes(reach: Reach, entry: Node) -> None:
    port = free_ports(1)[0]
    with pytest.raises(TargetError, match=f"{port} through .*: connection refused") as caught:
        reach(entry, entry, port=port)
    assert caught.value.transient
    assert "HTTP port" in (caught.value.hint or "")


def test_a_wrong_password(reach: Reach, entry: Node, far: Node) -> None:
    account = add_user(entry, "split", "URL, CREATE TEMPORARY TABLE ON *.*", "SELECT ON system.*")
    add_user(far, "split")
    far.query("ALTER USER split IDENTIFIED BY 'another'")
    with pytest.raises(TargetError, match="refuses the user 'split'"):
        reach(far, entry, account)


def test_rows_are_not_streamed(reach: Reach, entry: Node, far: Node) -> None:
    relayed = reach(far, entry)
    table = new_table(relayed)
    with pytest.raises(TargetError, match=r"rows cannot be sent to .* through") as caught:
        run(relayed, f"INSERT INTO {table} FORMAT TabSeparated", body=[b"1\n"])
    assert "--pull" in (caught.value.hint or "")
    assert text(relayed, f"SELECT count() FROM {table}") == "0"


def test_no_log_has_a_secret(reach: Reach, entry: Node, far: Node) -> None:
    """Neither the password, nor what a statement hides, nor the tables that come with it."""
    rights = "SELECT, INSERT, CREATE, CREATE TEMPORARY TABLE, URL, S3, SYSTEM FLUSH LOGS ON *.*"
    account = add_user((entry, far), f"keen_{os.getpid()}", rights)
    relayed = reach(far, entry, account)
    table = new_table(relayed, "a String")
    texts = {"rowfall_0": Secret(f"{SESAME}-0\n{{}}"), "rowfall_1": Secret(f"{SESAME}-1")}
    sql = f"INSERT INTO {table} SELECT concat(a.text, b.text) FROM rowfall_0 AS a, rowfall_1 AS b"
    done = run(relayed, sql, texts=texts)
    assert done.rows_written == 1
    assert text(relayed, f"SELECT length(a) FROM {table}") == str(2 * len(SESAME) + 7)
    # A statement that fails is logged with its text, too.
    bucket = f"s3('http://127.0.0.1:{free_ports(1)[0]}/bucket/a.csv', 'key', "
    settings = {"s3_retry_attempts": 0, "s3_max_single_read_retries": 1}
    with pytest.raises(RowfallError):
        run(relayed, f"INSERT INTO {table} SELECT * FROM {bucket}", Secret(SESAME),
            ", 'CSV', 'a String')", settings=settings)  # fmt: skip
    with pytest.raises(TargetError, match="question with secrets"):
        run(relayed, f"SELECT * FROM {bucket}", Secret(SESAME), ")", format="Null")
    for node in (entry, far):
        assert logged(node, table) > 0
        assert logged(node, SESAME) == 0
        assert logged(node, account.password) == 0
        assert logged(node, _basic(account)) == 0
    assert logged(entry, "[HIDDEN]") > 0


def _basic(account: Account) -> str:
    address = Address("h", 1, user=account.user, password=Secret(account.password))
    return address.headers()["Authorization"].removeprefix("Basic ")


def test_a_statement_can_be_ended(reach: Reach, entry: Node, far: Node) -> None:
    direct, relayed = reach(far), reach(far, entry)
    table, query_id = new_table(direct), new_id()
    sql, settings = slow(table, 60)
    ticks: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(
            run, relayed, sql, settings=settings, query_id=query_id,
            on_tick=lambda seen: ticks.append(seen.get("read_rows", 0)),
        )  # fmt: skip
        wait_until(lambda: max(ticks, default=0) > 5, 15, "progress")
        relayed.kill(query_id)
        with pytest.raises(EngineError) as caught:
            session.result(20)
    assert caught.value.code == 394
    assert not running(direct, query_id)


def test_a_relay_that_dies_loses_nothing(reach: Reach, entry: Node, far: Node) -> None:
    """The statement goes on; when the entry is back, the far server tells how it ended."""
    direct, relayed = reach(far), reach(far, entry)
    table, query_id = new_table(direct), new_id()
    sql, settings = slow(table, 4)
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(run, relayed, sql, settings=settings, query_id=query_id)
        wait_until(lambda: running(direct, query_id), 10, "the statement to run")
        with down(entry):
            let_pass(1, "a second without the node")
        done = session.result(60)
    assert (done.rows_read, done.rows_written) == (40, 40)
    assert text(direct, f"SELECT count() FROM {table}") == "40"


@pytest.mark.long
def test_a_relay_that_gives_up_is_no_failure(
    reach: Reach, entry: Node, far: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "SILENCE_SECONDS", 1)
    relayed = reach(far, entry)
    table = new_table(relayed)
    sql, settings = slow(table, 4)
    started = time.monotonic()
    assert run(relayed, sql, settings=settings).rows_written == 40
    assert 4 <= time.monotonic() - started < 15
    assert text(relayed, f"SELECT count() FROM {table}") == "40"


@pytest.mark.long
def test_a_far_server_that_dies(reach: Reach, entry: Node, far: Node) -> None:
    relayed = reach(far, entry)
    relayed.status.away = 3.0
    table, query_id = new_table(relayed), new_id()
    sql, settings = slow(table, 30)
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(run, relayed, sql, settings=settings, query_id=query_id)
        wait_until(lambda: relayed.status.runs(query_id), 10, "the statement to run")
        with down(far):
            with pytest.raises(EngineError, match="outcome of the statement is unknown") as caught:
                session.result(60)
            assert caught.value.transient
            back = threading.Timer(1, far.start)
            back.start()
            relayed.revive()
            back.join()
            far.kill9()
    assert text(relayed, "SELECT 1") == "1"


def test_a_user_who_may_not_read_the_far_log(reach: Reach, entry: Node, far: Node) -> None:
    database = new_database()
    rights = "URL, CREATE TEMPORARY TABLE ON *.*", f"ALL ON {database}.*"
    account = add_user((entry, far), "blind", *rights)
    relayed = reach(far, entry, account)
    run(relayed, f"CREATE DATABASE {database}")
    run(relayed, f"CREATE TABLE {database}.t (a UInt8) ENGINE = MergeTree ORDER BY a")
    with pytest.raises(EngineError, match=r"answers 404 .*query_log"):
        run(relayed, f"DROP TABLE {database}.nowhere")
    with pytest.raises(EngineError, match="number of rows") as caught:
        run(relayed, f"INSERT INTO {database}.t SELECT 1")
    assert "system.query_log" in (caught.value.hint or "")
