"""Whether a server reads a source itself: asked of a real one, and what it writes into its logs."""

from __future__ import annotations

import gc
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from contract.engines import connect, text
from contract.stores import Store, files_store, http_store, s3_store
from lab.clickhouse import Account, ClickHouse
from lab.http import Web
from lab.process import wait_until
from lab.seaweed import Seaweed
from rowfall.contracts.facts import Reach
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.listing import Listing
from rowfall.core.masked import Secret
from rowfall.core.model import PULL, Encoding, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.plan.reach import BUDGET_SECONDS, reach
from rowfall.plan.transport import choose_delivery
from rowfall.sources import open_source
from rowfall.sources.base import Probe, Source
from rowfall.stores.files import LocalFiles
from rowfall.stores.s3 import S3
from rowfall.systems.clickhouse.server import Server

TOKEN = "a-session-token-0123456789"
PASSWORD = "a-password-of-the-web-9876"
_numbers = itertools.count()


class Loud(ClickHouse):
    """Writes all it can into its log file and system.text_log; system tables need a grant."""

    name = "clickhouse-loud"

    def __init__(self) -> None:
        super().__init__()
        more = (
            "<text_log><database>system</database><table>text_log</table><level>trace</level>"
            "<flush_interval_milliseconds>500</flush_interval_milliseconds></text_log>"
            "<access_control_improvements><select_from_system_db_requires_grant>true"
            "</select_from_system_db_requires_grant></access_control_improvements></clickhouse>"
        )
        written = self._config.read_text().replace("<level>information<", "<level>trace<")
        self._config.write_text(written.replace("</clickhouse>", more))


@pytest.fixture(scope="module")
def loud() -> Iterator[Loud]:
    with Loud() as service:
        yield service


@pytest.fixture
def asked(loud: Loud) -> Iterator[Server]:
    server = connect(loud)
    yield server
    server.close()


@pytest.fixture(params=["files", "s3", "http"])
def store(request: pytest.FixtureRequest, loud: Loud, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "files":
        return files_store(user_files(loud))
    if request.param == "s3":
        return s3_store(request.getfixturevalue("s3"), monkeypatch)
    return http_store(request.getfixturevalue("web"))


def user_files(service: ClickHouse) -> Path:
    folder = service.folder / "user_files" / f"reach-{next(_numbers)}"
    folder.mkdir()
    return folder


def decide(
    server: Server, opened: tuple[Source, Listing, Encoding | None], **options: Any
) -> Reach:
    source, listing, encoding = opened
    found = reach(server, source, listing, encoding)
    delivery = choose_delivery(found, Options(**options))
    return replace(found, pull=delivery.value == PULL, reason=delivery.reason)


def refused(server: Server, opened: tuple[Source, Listing, Encoding | None]) -> str:
    """The reason to push, which --pull gets as its error."""
    how = decide(server, opened)
    assert not how.pull
    with pytest.raises(TargetError) as caught:
        decide(server, opened, pull=True)
    assert caught.value.message == f"the server cannot pull: {how.reason}"
    assert caught.value.hint
    return how.reason


@pytest.fixture
def buckets(s3: Seaweed, monkeypatch: pytest.MonkeyPatch) -> tuple[S3, Listing, Encoding | None]:
    store = s3_store(s3, monkeypatch)
    store.put("a.csv", b"1,x\n")
    source, listing, encoding = store.open("a.csv")
    assert isinstance(source, S3)
    return source, listing, encoding


# --- where the source is ------------------------------------------------------------------------


def test_the_server_reads_it(store: Store, asked: Server) -> None:
    for name in ("a.csv", "sub/b.csv", "sub/c.csv"):
        store.put(name, bytes(range(256)) * 40)
    store.options = Options(encoding="binary")  # without it bytes that are not text are refused
    how = decide(asked, store.open("a.csv"))
    assert how.pull
    assert how.reason.startswith("the server can read ")
    assert "a.csv itself (its only object seen in " in how.reason
    how = decide(asked, store.open("a.csv", "sub/b.csv", "sub/c.csv"))
    assert how.pull
    assert "first and last object seen in" in how.reason
    assert how.seconds < BUDGET_SECONDS
    how = decide(asked, store.open("a.csv"), push=True)
    assert (how.pull, how.reason) == (False, "as asked for with --push")


def test_short_objects(store: Store, asked: Server) -> None:
    store.put("a.csv", b"1")
    assert decide(asked, store.open("a.csv"), pull=True).pull


def test_the_embedded_engine_keeps_its_own_source(store: Store, asked: Server) -> None:
    store.put("a.csv.bz2", b"BZh")
    source, listing, encoding = store.open("a.csv.bz2")
    how = reach(asked, source, listing, encoding)
    splits = list(listing.splits("t"))
    assert "rowfall-pipes-" not in str(how.source.relation(splits, encoding, "`a` String"))
    assert "rowfall-pipes-" in str(source.relation(splits, encoding, "`a` String"))
    assert source.changed(splits) == []


def test_another_object_of_that_name(
    asked: Server, s3: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = s3_store(s3, monkeypatch)
    store.put("a.csv", b"1,x\n")
    opened = store.open("a.csv")
    store.put("a.csv", b"2,x\n")
    assert "is another object (its ETag is" in refused(asked, opened)
    store.put("a.csv", b"12,x\n")
    assert "is another object (its size is 5, not 4)" in refused(asked, opened)
    store.remove("a.csv")
    assert "404" in refused(asked, opened)


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"2,x\n", "is another object (its beginning is"), (b"12,x\n", "its size is 4, not 5")],
)
def test_a_file_of_that_name_on_another_machine(
    loud: Loud, asked: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes,
    said: str,
) -> None:  # fmt: skip
    theirs = user_files(loud) / "a.csv"
    theirs.write_bytes(b"1,x\n")
    ours = tmp_path / "a.csv"
    ours.write_bytes(body)
    seconds = int(time.time()) - 5
    for path in (theirs, ours):
        os.utime(path, (seconds, seconds))
    opened = open_source([str(theirs)], Options())
    listing = opened.listing()
    real = LocalFiles.probe
    other = open_source([str(ours)], Options()).listing().split(0, "")

    def probe(self: LocalFiles, split: Any) -> Probe:
        return Probe(real(self, split).query, real(self, other).wanted)

    monkeypatch.setattr(LocalFiles, "probe", probe)
    assert said in refused(asked, (opened, listing, opened.encoding(listing)))


def test_files_of_this_machine_only(asked: Server, loud: Loud, tmp_path: Path) -> None:
    inside = loud.folder / "user_files"
    with TemporaryDirectory(prefix="rowfall-reach-") as folder:
        Path(folder).chmod(0o755)  # the server may look, but does not want to
        for name, why in (
            (folder, f"the server reads files of {inside}"),
            # The lab's server is another user where the tests run as root.
            (str(tmp_path), "the server may not read that folder")
            if os.geteuid() == 0
            else (str(tmp_path), f"the server reads files of {inside}"),
        ):
            store = files_store(Path(name))
            store.put("a.csv", b"1,x\n")
            reason = refused(asked, store.open("a.csv"))
            assert reason == f"only this machine can read {name}/a.csv: {why}"


def test_a_file_that_only_this_machine_has(asked: Server, loud: Loud) -> None:
    path = user_files(loud) / "a.csv"
    path.write_bytes(b"1,x\n")
    source = open_source([str(path)], Options())
    listing = source.listing()
    opened = (source, listing, source.encoding(listing))
    probe = source.probe(listing.split(0, ""))  # type: ignore[attr-defined]
    path.unlink()
    source.probe = lambda split: probe  # type: ignore[attr-defined]
    assert refused(asked, opened).endswith("a.csv: the server finds no such file")


def test_files_of_two_places(asked: Server, loud: Loud, tmp_path: Path) -> None:
    here, there = tmp_path / "a.csv", user_files(loud) / "b.csv"
    for path in (here, there):
        path.write_bytes(b"1,x\n")
    source = open_source([str(there), str(here)], Options())
    listing = source.listing()
    assert "only this machine" in refused(asked, (source, listing, source.encoding(listing)))


def test_unreachable(asked: Server, buckets: tuple[S3, Listing, Encoding | None]) -> None:
    source = buckets[0]
    assert source._opened is not None
    for endpoint, said in (
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://no-such-host.invalid", "Not found address of host: no-such-host.invalid"),
    ):
        source._opened = replace(source._opened, endpoint=endpoint)
        reason = refused(asked, buckets)
        assert reason.startswith(f"the server cannot reach {buckets[1].uri(0)}: "), reason
        assert said in reason


def test_a_service_that_never_answers(
    asked: Server, buckets: tuple[S3, Listing, Encoding | None]
) -> None:
    source = buckets[0]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert source._opened is not None
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        source._opened = replace(source._opened, endpoint=endpoint)
        started = time.monotonic()
        how = decide(asked, buckets)
        assert time.monotonic() - started < 10
        assert not how.pull
        assert "no answer" in how.reason
    wait_until(
        lambda: text(asked, "SELECT count() FROM system.processes WHERE query_id LIKE "
                     "'rowfall-probe-%'") == "0", 20, "the question to end",
    )  # fmt: skip


def test_stdin_is_read_here(asked: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"1,x\n")
    with (tmp_path / "in").open("rb") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        source = open_source(["-"], Options(format="CSV"))
        listing = source.listing()
        opened = (source, listing, source.encoding(listing))
        assert refused(asked, opened) == "only this process can read its stdin"
        del source, opened
        gc.collect()


# --- rights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "right"), [("s3", "S3"), ("http", "URL"), ("files", "FILE")])
def test_rights(
    request: pytest.FixtureRequest, loud: Loud, monkeypatch: pytest.MonkeyPatch, kind: str,
    right: str,
) -> None:  # fmt: skip
    store = {
        "s3": lambda: s3_store(request.getfixturevalue("s3"), monkeypatch),
        "http": lambda: http_store(request.getfixturevalue("web")),
        "files": lambda: files_store(user_files(loud)),
    }[kind]()
    store.put("a.csv", b"1,x\n")
    user = f"reach_{kind}"
    for grants in ((), ("CREATE TEMPORARY TABLE ON *.*",)):
        server = _as(loud, loud.add_user(user, *grants))
        reason = refused(server, store.open("a.csv"))
        server.close()
        assert reason.startswith("its user may not read the source: GRANT "), reason
        assert right in reason
        assert reason.endswith(f" ON *.* TO {user}")
    # What the message says is what it takes.
    loud.query(reason.partition(": ")[2])
    server = _as(loud, Account(user, f"{user}-password-0123456789"))
    assert decide(server, store.open("a.csv"), pull=True).pull
    server.close()


def _as(service: ClickHouse, account: Account) -> Server:
    return connect(service, user=account.user, password=Secret(account.password))


# --- secrets ------------------------------------------------------------------------------------


@pytest.fixture(params=["looks", "may not look"])
def either(request: pytest.FixtureRequest, loud: Loud) -> Iterator[Server]:
    """A user who may see system.processes, and one who may not."""
    if request.param == "looks":
        server = connect(loud)
    else:
        server = _as(loud, loud.add_user("blind", "CREATE TEMPORARY TABLE, S3, URL ON *.*"))
    yield server
    server.close()


def test_a_session_token_would_be_logged(
    either: Server, buckets: tuple[S3, Listing, Encoding | None]
) -> None:
    source = buckets[0]
    assert decide(either, buckets).pull
    access = source._opened
    assert access is not None
    assert access.fixed is not None
    source._opened = replace(access, fixed=replace(access.fixed, token=Secret(TOKEN)))
    reason = refused(either, buckets)
    assert "session token" in reason
    assert TOKEN not in reason


def test_a_secret_in_an_address_would_be_logged(either: Server, web: Web) -> None:
    store = http_store(web)
    store.put("a.csv", b"1,x\n")
    assert decide(either, store.open("a.csv")).pull
    reason = refused(either, store.open("a.csv?token=abcdefgh"))
    assert "a.csv?token=[HIDDEN]#" in reason
    assert "holds a secret" in reason


def test_a_password_is_a_header_and_hidden(either: Server, web: Web) -> None:
    store = http_store(web)
    store.put("a.csv", b"1,x\n")
    address = store.at("a.csv").replace("://", f"://bob:{PASSWORD}@")
    source = open_source([address], Options())
    listing = source.listing()
    assert decide(either, (source, listing, source.encoding(listing))).pull


def test_no_secret_reaches_the_logs(
    loud: Loud, asked: Server, s3: Seaweed, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets, pages = s3_store(s3, monkeypatch), http_store(web)
    for store in (buckets, pages):
        store.put("a.csv", b"1,x\n2,y\n")
        store.put("b.csv", b"3,z\n")
    address = pages.at("{a,b}.csv").replace("://", f"://bob:{PASSWORD}@")
    loud.query("CREATE TABLE IF NOT EXISTS pulled (a Int64, b String) ORDER BY a")
    hidden = [s3.secret_key]
    for source in (
        open_source([buckets.at("*.csv")], Options()),
        open_source([address], Options()),
    ):
        listing = source.listing()
        encoding = source.encoding(listing)
        how = decide(asked, (source, listing, encoding))
        assert how.pull
        splits = list(listing.splits("t"))
        relation = how.source.relation(splits, encoding, "a Int64, b String")
        hidden += [secret.reveal() for secret in source.secrets]
        asked.run(Statement(SqlText.of("INSERT INTO pulled SELECT a, b FROM ", relation)))
        _fail(asked, lambda relation=relation: SqlText.of(  # type: ignore[misc]
            "INSERT INTO pulled SELECT toUInt8(b), b FROM ", relation))  # fmt: skip
        _watch(asked, relation, hidden)
    assert loud.query("SELECT count() FROM pulled") == "6\n"
    _wrong_key(asked, buckets, hidden)
    loud.query("SYSTEM FLUSH LOGS")
    _nowhere(loud, hidden)


def _fail(server: Server, statement: Callable[[], SqlText]) -> None:
    with pytest.raises(RowfallError):
        server.run(Statement(statement()))


def _watch(server: Server, relation: SqlText, hidden: list[str]) -> None:
    """Look at the statement while it runs."""
    slow = SqlText.of("SELECT sum(sleepEachRow(0.5)) FROM ", relation)
    thread = threading.Thread(
        target=lambda: server.run(Statement(slow, query_id="slow", format="TSV"))
    )
    thread.start()
    seen: list[str] = []

    def look() -> bool:
        seen.append(text(server, "SELECT * FROM system.processes WHERE query_id = 'slow'", lane=7))
        return bool(seen[-1])

    wait_until(look, 10, "the statement to run")
    thread.join()
    assert "[HIDDEN]" in seen[-1]
    assert not [secret for secret in hidden if secret in seen[-1]]


def _wrong_key(server: Server, store: Store, hidden: list[str]) -> None:
    source, listing, encoding = store.open("a.csv")
    assert isinstance(source, S3)
    assert source._opened is not None
    assert source._opened.fixed is not None
    wrong = "a-wrong-secret-key-0123456789"
    hidden.append(wrong)
    keys = replace(source._opened.fixed, secret=Secret(wrong))
    source._opened = replace(source._opened, fixed=keys)
    reason = refused(server, (source, listing, encoding))
    assert "it answers 403, access denied" in reason
    relation = source.relation(list(listing.splits("t")), encoding, "a Int64, b String")
    with pytest.raises(RowfallError) as caught:
        server.run(Statement(SqlText.of("SELECT * FROM ", relation), format="TSV"))
    assert wrong not in f"{caught.value} {caught.value.hint}"


def _nowhere(service: Loud, hidden: list[str]) -> None:
    """No secret in any file that the server has written: logs, system tables' parts, metadata."""
    log = (service.folder / "service.log").read_text(errors="replace")
    tables = service.query(
        "SELECT name FROM system.tables WHERE database = 'system' AND name LIKE '%\\_log'"
    ).split()
    assert {"query_log", "part_log", "text_log"} <= set(tables)
    for secret in hidden:
        assert secret not in log, secret
        for table in tables:
            # In two halves, or the question itself would be found.
            half = len(secret) // 2
            found = service.query(
                f"SELECT count() FROM system.{table} WHERE position(toString(tuple(*)), "
                f"concat('{secret[:half]}', '{secret[half:]}')) > 0"
            )
            assert found == "0\n", f"{secret} in {table}"
