"""What a server adds to the engine contract: data sent along, lost connections, rights."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from contract.engines import Guarded, Wire, connect, new_id, new_table, run, running, slow, text
from lab.http import Web
from lab.process import free_ports, let_pass, wait_until
from lab.proxy import Proxy
from rowfall.core.errors import EngineError, RowfallError, TargetError, UsageError
from rowfall.core.masked import Secret
from rowfall.systems.clickhouse.http import HttpAnswer
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.status import UnknownOutcome

# One worker of a parallel run starts the server.
pytestmark = pytest.mark.xdist_group("engine")

PASSWORD = "pass-word of'a user \N{SNOWMAN}"


# --- data sent along ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "pack"), [("", bytes), ("gzip", gzip.compress), ("bz2", bz2.compress)]
)
def test_streamed_body(server: Server, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    table = new_table(server, "a UInt64, b String")
    packed = pack(b"".join(b"%d,row\n" % number for number in range(200_000)))
    pieces = (packed[at : at + 50_000] for at in range(0, len(packed), 50_000))
    sql = f"INSERT INTO {table} FORMAT CSV"
    out = run(server, sql, body=pieces, encoding=encoding)
    assert (out.rows_read, out.rows_written) == (200_000, 200_000)
    assert text(server, f"SELECT count(), sum(a) FROM {table}") == "200000\t19999900000"


def test_a_file_as_body(server: Server, tmp_path: Path) -> None:
    table = new_table(server)
    path = tmp_path / "rows.tsv.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % number for number in range(300_000))))
    with path.open("rb") as file:
        out = run(server, f"INSERT INTO {table} FORMAT TSV", body=file, encoding="gzip")
    assert out.rows_written == 300_000


@pytest.mark.parametrize("letters", [150_000, 600_000])
def test_statements_longer_than_a_field_of_http(server: Server, letters: int) -> None:
    """Servers refuse a parameter of 128 KiB, and by default a statement of 256 KiB."""
    table, long = new_table(server), "/*" + "\N{SNOWMAN}" * (letters // 3) + "*/"
    rows = (b"%d\n" % n for n in range(1000))
    out = run(server, f"INSERT INTO {table} SELECT a {long} FROM input('a UInt64') FORMAT TSV",
              body=rows)  # fmt: skip
    assert out.rows_written == 1000
    assert text(server, f"SELECT sum(a) FROM {table}") == "499500"
    asked = {"one": Secret("a\nb"), "two": Secret("c")}
    sql = f"SELECT a.text, b.text {long} FROM one AS a, two AS b"
    assert text(server, sql, texts=asked) == "a\nb\tc"


def test_a_bad_row_ends_the_sending_early(server: Server) -> None:
    table, sent = new_table(server), 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 1_000_000
            yield b"abc\n" * 250_000

    with pytest.raises(RowfallError) as caught:
        run(server, f"INSERT INTO {table} FORMAT TSV", body=endless())
    assert caught.value.code == 27
    assert sent < 500_000_000


def test_what_the_body_raises_comes_back_and_the_statement_ends(server: Server) -> None:
    table, query_id = new_table(server), new_id()

    def broken() -> Iterator[bytes]:
        yield b"1\n" * 500_000
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        run(server, f"INSERT INTO {table} FORMAT TSV", body=broken(), query_id=query_id)
    # The server may only begin with what had come before the connection was closed.
    wait_until(lambda: not running(server, query_id), 10, "the statement does not end")
    assert text(server, "SELECT 1") == "1"


def test_a_body_of_the_wrong_encoding(server: Server) -> None:
    table = new_table(server)
    with pytest.raises(RowfallError) as caught:
        run(server, f"INSERT INTO {table} FORMAT TSV", body=[b"1\n"], encoding="gzip")
    assert caught.value.code == 354


@pytest.mark.parametrize(
    ("status", "headers", "data", "failure"),
    [
        (200, {}, b"1\n", None),
        (200, {"tag": "abcd"}, b"__exception__\r\nother\r\n", None),
        (
            500,
            {"code": "60"},
            b"Code: 60. DB::Exception: no table",
            "Code: 60. DB::Exception: no table",
        ),
        # Seen where reading the body timed out: success, no text, only this header.
        (200, {"code": "209"}, b"", "Code: 209. DB::Exception: "),
        (
            200,
            {"tag": "abcd"},
            b"1\n\r\n__exception__\r\nabcd\r\nCode: 395. DB::Exception: oh\n"
            b"31 abcd\r\n__exception__\r\n",
            "Code: 395. DB::Exception: oh",
        ),
    ],
    ids=["rows", "data", "status", "header", "behind rows"],
)
def test_where_an_answer_hides_its_error(
    status: int, headers: dict[str, str], data: bytes, failure: str | None
) -> None:
    names = {f"x-clickhouse-exception-{key}": value for key, value in headers.items()}
    assert HttpAnswer(status, names, data).failure() == failure


# --- connections that break --------------------------------------------------------------------


@pytest.fixture
def wire(service: Guarded, server: Server) -> Iterator[Wire]:
    with Proxy(service.http_port) as proxy:
        through = connect(service, port=proxy.port)
        yield Wire(proxy, through, server)
        through.close()


def test_a_lost_connection_is_settled_by_evidence(wire: Wire) -> None:
    table, query_id = new_table(wire.direct), new_id()
    sql, settings = slow(table, 3)
    thread = wire.while_running(query_id, wire.proxy.cut)
    out = run(wire.server, sql, settings=settings, query_id=query_id)
    thread.join()
    assert (out.rows_read, out.rows_written) == (30, 30)
    assert out.events
    assert text(wire.direct, f"SELECT count() FROM {table}") == "30"


def test_a_lost_connection_with_the_server_away_for_a_moment(wire: Wire) -> None:
    table, query_id = new_table(wire.direct), new_id()
    sql, settings = slow(table, 3)

    def away() -> None:
        wire.proxy.refuse()
        wire.proxy.cut()
        let_pass(1.5, "a moment without the server")
        wire.proxy.accept()

    thread = wire.while_running(query_id, away)
    assert run(wire.server, sql, settings=settings, query_id=query_id).rows_written == 30
    thread.join()


def test_a_failure_behind_a_lost_connection_is_found(wire: Wire) -> None:
    table, query_id = new_table(wire.direct), new_id()
    sql, settings = slow(table, 2)
    thread = wire.while_running(query_id, wire.proxy.cut)
    with pytest.raises(RowfallError) as caught:
        run(
            wire.server,
            f"{sql} WHERE NOT throwIf(number = 15)",
            settings=settings,
            query_id=query_id,
        )
    thread.join()
    assert caught.value.code == 395


def test_an_answer_that_got_stuck_is_settled(wire: Wire) -> None:
    table, query_id = new_table(wire.direct), new_id()
    sql, settings = slow(table, 1.5)
    # Ticks take other connections, which this loses too: only the answer may get stuck.
    wire.server.status = wire.direct.status
    wire.server.silence = 0.5
    thread = wire.while_running(query_id, wire.proxy.stall)
    assert run(wire.server, sql, settings=settings, query_id=query_id).rows_written == 15
    thread.join()


def test_unknown_outcome_where_nobody_knows(wire: Wire) -> None:
    table, query_id = new_table(wire.direct), new_id()
    sql, settings = slow(table, 1.5)
    wire.server.status.log_wait = 1.5
    thread = wire.while_running(query_id, wire.proxy.cut)
    with pytest.raises(UnknownOutcome) as caught:
        run(wire.server, sql, settings=settings | {"log_queries": 0}, query_id=query_id)
    thread.join()
    assert caught.value.transient
    assert caught.value.code == 0
    assert not running(wire.direct, query_id)


def test_unknown_outcome_where_the_server_stays_away(wire: Wire) -> None:
    table, query_id = new_table(wire.direct), new_id()
    sql, settings = slow(table, 2)
    wire.server.status.away = 1

    def away() -> None:
        wire.proxy.refuse()
        wire.proxy.cut()

    thread = wire.while_running(query_id, away)
    with pytest.raises(UnknownOutcome, match="connection refused"):
        run(wire.server, sql, settings=settings, query_id=query_id)
    thread.join()
    wire.direct.kill(query_id)


# The short body is all in the buffers of this side when the connection breaks, the long one not.
@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [4_000_000, 24_000_000], ids=["short", "long"])
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_body_cut_in_the_middle_has_failed(wire: Wire, encoding: str, size: int) -> None:
    table, query_id = new_table(wire.direct), new_id()
    rows = os.urandom(size).hex().encode()
    data = b"\n".join(rows[at : at + 40] for at in range(0, len(rows), 40))
    packed = gzip.compress(data, 1) if encoding else data
    run(wire.direct, f"ALTER TABLE {table} MODIFY COLUMN a String")
    wire.proxy.drop_after(up=2_500_000)
    # Whether the server has begun a statement whose body was all sent only its log can tell, and a
    # busy one may not have written that line: then nothing is claimed.
    said = "lost while data was sent" + "|outcome of the statement is unknown" * (size < 5_000_000)
    with pytest.raises(EngineError, match=said) as caught:
        run(
            wire.server,
            f"INSERT INTO {table} FORMAT TSV",
            body=(packed[at : at + 100_000] for at in range(0, len(packed), 100_000)),
            encoding=encoding,
            query_id=query_id,
        )
    assert wire.proxy.dropped.is_set()
    assert caught.value.transient
    assert size < 5_000_000 or not isinstance(caught.value, UnknownOutcome)
    assert not running(wire.direct, query_id)


def test_a_result_cut_in_the_middle_is_asked_for_again(wire: Wire, tmp_path: Path) -> None:
    """Once it has gone out to a file, the rows that are there cannot be taken back."""
    sql = "SELECT number, repeat('x', 100) FROM numbers(100000)"
    wire.proxy.drop_after(down=1_000_000)
    assert run(wire.server, sql, format="TSV").data.count(b"\n") == 100_000
    assert wire.proxy.dropped.is_set()
    with (tmp_path / "out").open("wb") as file:
        wire.proxy.drop_after(down=1_000_000)
        with pytest.raises(EngineError, match="result") as caught:
            run(wire.server, sql, format="TSV", out_fd=file.fileno())
    assert not caught.value.transient


def test_a_lost_question_is_ended_and_asked_again_at_once(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire.server.status, "settle", Mock(side_effect=AssertionError("settled")))
    query_id = new_id()
    thread = wire.while_running(query_id, wire.proxy.cut)
    sql = "SELECT count() FROM numbers(10) WHERE sleepEachRow(0.1) = 0"
    found = run(wire.server, sql, settings={"max_block_size": 1}, query_id=query_id, format="TSV")
    thread.join()
    assert found.data == b"10\n"


def test_idle_connections_that_were_cut_do_not_matter(wire: Wire) -> None:
    for _ in range(3):
        assert text(wire.server, "SELECT 1") == "1"
        wire.proxy.cut()


def test_a_refused_connection_is_transient(wire: Wire) -> None:
    wire.proxy.refuse()
    wire.proxy.cut()
    with pytest.raises(TargetError, match="connection refused") as caught:
        text(wire.server, "SELECT 1")
    assert caught.value.transient


# --- who may, and where ------------------------------------------------------------------------


@pytest.fixture
def user(service: Guarded, server: Server) -> Iterator[Callable[..., Server]]:
    """``user(*grants, settings="")``: a Server engine of a new user with these rights only."""
    engines: list[Server] = []

    def make(*grants: str, settings: str = "") -> Server:
        name = f"user_{new_id().replace('-', '_')}"
        run(server, "CREATE DATABASE IF NOT EXISTS contract")
        run(server, f"CREATE USER {name} IDENTIFIED BY ", Secret(PASSWORD), f" {settings}")
        for grant in grants:
            run(server, f"GRANT {grant} TO {name}")
        engines.append(connect(service, user=name, password=Secret(PASSWORD)))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def test_a_missing_right_is_named(user: Callable[..., Server]) -> None:
    engine = user("SELECT ON contract.*")
    with pytest.raises(TargetError, match=r"CREATE TABLE ON contract\.denied") as caught:
        run(engine, "CREATE TABLE contract.denied (a Int8) ENGINE = Memory")
    assert caught.value.code == 497
    assert caught.value.hint is not None
    assert "GRANT CREATE TABLE ON contract.denied TO user" in caught.value.hint


@pytest.mark.parametrize("level", [1, 2])
def test_a_read_only_user(user: Callable[..., Server], level: int) -> None:
    engine = user("ALL ON contract.*", settings=f"SETTINGS readonly = {level}")
    assert engine.readonly == level
    assert ("max_threads" in engine.facts.settings) == (level == 2)
    assert text(engine, "SELECT 1") == "1"
    with pytest.raises(TargetError, match="may only read") as caught:
        run(engine, "CREATE TABLE contract.denied (a Int8) ENGINE = Memory")
    assert caught.value.code == 164


def test_a_user_who_may_read_no_system_table(
    user: Callable[..., Server], server: Server, service: Guarded
) -> None:
    engine, table, query_id = user("INSERT, SELECT ON contract.*"), new_table(server), new_id()
    assert engine.facts.memory > 100 << 20
    sql, settings = slow(table, 1)
    assert run(engine, sql, settings=settings).rows_written == 10
    sql, settings = slow(table, 30)
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(run, engine, sql, settings=settings, query_id=query_id)
        wait_until(lambda: running(server, query_id), 5, "the statement to run")
        engine.kill(query_id)
        with pytest.raises(EngineError) as caught:
            session.result(5)
    assert caught.value.code == 394


@pytest.mark.long
def test_a_lost_connection_without_rights_is_waited_for(
    user: Callable[..., Server], server: Server, service: Guarded
) -> None:
    direct, table, query_id = user("INSERT, SELECT ON contract.*"), new_table(server), new_id()
    sql, settings = slow(table, 3)
    with Proxy(service.http_port) as proxy:
        engine = connect(
            service, port=proxy.port, user=direct._address.user, password=Secret(PASSWORD)
        )
        wire = Wire(proxy, engine, server)
        thread = wire.while_running(query_id, proxy.cut)
        with pytest.raises(UnknownOutcome, match="query_log"):
            run(engine, sql, settings=settings, query_id=query_id)
        thread.join()
        engine.close()
    assert not running(server, query_id)
    assert text(server, f"SELECT count() FROM {table}") == "30"


def test_wrong_password(service: Guarded) -> None:
    with pytest.raises(TargetError, match="refuses the user 'lab'") as caught:
        connect(service, password=Secret("wrong-password"))
    assert "wrong-password" not in f"{caught.value} {caught.value.hint}"
    assert not caught.value.transient


def test_no_such_database(service: Guarded) -> None:
    with pytest.raises(TargetError, match="nowhere") as caught:
        connect(service, database="nowhere")
    assert caught.value.code == 81


def test_unknown_host() -> None:
    with pytest.raises(TargetError, match="host name") as caught:
        Server("no-such-host.invalid", 8123)
    assert not caught.value.transient


def test_nothing_listens() -> None:
    with pytest.raises(TargetError, match="connection refused") as caught:
        Server("127.0.0.1", free_ports(1)[0])
    assert caught.value.transient


def test_tls_on_a_plain_port(service: Guarded) -> None:
    with pytest.raises(TargetError, match="TLS"):
        connect(service, tls=True)


def test_the_native_port(service: Guarded) -> None:
    with pytest.raises(TargetError, match="HTTP port") as caught:
        connect(service, port=service.tcp_port)
    assert "8123" in (caught.value.hint or "")


def test_a_web_server_is_no_clickhouse(web: Web) -> None:
    with pytest.raises(TargetError, match="does not answer like"):
        Server("127.0.0.1", int(web.endpoint.rsplit(":", 1)[1]))


def test_options_are_settings(service: Guarded) -> None:
    engine = connect(service, options={"max_block_size": "4321"})
    assert text(engine, "SELECT getSetting('max_block_size')") == "4321"
    engine.close()
    with pytest.raises(UsageError, match="no_such_setting"):
        connect(service, options={"no_such_setting": "1"})


def test_the_log_has_exact_figures(server: Server) -> None:
    table, query_id = new_table(server), new_id()
    run(server, f"INSERT INTO {table} SELECT number FROM numbers(2000000)", query_id=query_id)
    wait_until(lambda: query_id in server.status.logged([query_id]), 10, "the log")
    entry = server.status.logged([query_id])[query_id]
    assert entry.code == 0
    assert entry.outcome.rows_written == 2_000_000
    assert entry.outcome.peak_memory > 1_000_000
    assert entry.outcome.cpu_seconds > 0
    assert entry.outcome.events["InsertedRows"] == 2_000_000
