"""The journal on a real server: its order decides who loads what, whoever asks when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from contract.engines import connect
from lab.clickhouse import ClickHouse
from lab.process import let_pass, wait_until
from lab.proxy import Proxy
from rowfall.core.errors import EngineError, LedgerError
from rowfall.core.listing import Listing, Part, Split
from rowfall.core.model import Statement
from rowfall.ledger import journal as journals
from rowfall.ledger import leases
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import AddedRows, Ownership, StagedPartition
from rowfall.systems.clickhouse.server import Server

INTO = "11111111-2222-3333-4444-555555555555"
MOVE = StagedPartition("default", "t", "_rowfall_a_1", "all", 10, 0, -1)


def split(number: int) -> Split:
    return Split(f"{number:032x}", f"/data/{number}.csv", "1-1", 10)


@pytest.fixture
def server(clickhouse: ClickHouse) -> Iterator[Server]:
    engine = connect(clickhouse, database="default")
    yield engine
    engine.close()


@pytest.fixture
def journal(clickhouse: ClickHouse, server: Server) -> Journal:
    clickhouse.query(f"DROP TABLE IF EXISTS default.{journals.TABLE} SYNC")
    made = Journal(server, "default", INTO, "a")
    made.create()
    made.create()
    return made


def another(server: Server, load_id: str = "b", into: str = INTO) -> Journal:
    return Journal(server, "default", into, load_id)


def died(journal: Journal) -> None:
    """From now on the journal writes as a process of this machine that has ended."""
    journal._owner = f"{leases.machine_id()} 4194303 1 gone"


def test_the_earliest_claim_holds(server: Server, journal: Journal) -> None:
    other = another(server)
    assert journal.lease("a_1", [split(1), split(2)]).whole
    claim = other.lease("b_1", [split(2), split(3)])
    assert claim.busy == {split(2).id}
    assert not claim.loaded
    other.release("b_1")
    assert other.lease("b_2", [split(3)]).whole


def test_a_released_claim_gives_its_splits_to_the_next_in_line(
    server: Server, journal: Journal
) -> None:
    other = another(server)
    assert journal.lease("a_1", [split(1)]).whole
    assert not other.lease("b_1", [split(1)]).whole
    journal.release("a_1")
    # b_1 has waited in line and holds the split now: nobody after it does.
    assert another(server, "c").lease("c_1", [split(1)]).busy == {split(1).id}
    assert other.commit("b_1", 1, [])


def test_loaded_splits_are_known_to_everybody(server: Server, journal: Journal) -> None:
    journal.lease("a_1", [split(1), split(2)])
    assert journal.commit("a_1", 10, [MOVE])
    journal.loaded("a_1")
    other = another(server)
    assert other.loaded_ids() == {split(1).id, split(2).id}
    claim = other.lease("b_1", [split(2), split(3)])
    assert claim.loaded == {split(2).id}
    assert not claim.busy
    assert another(server, into=INTO.replace("1", "9")).loaded_ids() == set()


def test_an_expired_attempt_may_not_publish(server: Server, journal: Journal) -> None:
    journal.lease("a_1", [split(1)])
    entry = another(server).expire("a_1")
    assert not entry.binding
    assert not journal.commit("a_1", 10, [MOVE])
    assert another(server).lease("b_1", [split(1)]).whole


def test_a_committed_attempt_can_only_be_published(server: Server, journal: Journal) -> None:
    journal.lease("a_1", [split(1)])
    assert journal.commit("a_1", 10, [MOVE])
    entry = another(server).expire("a_1")
    assert entry.binding
    assert entry.moves == (MOVE,)
    assert entry.rows == 10
    claim = another(server).lease("b_1", [split(1)])
    assert claim.busy == {split(1).id}


def test_signs_of_life_of_others_are_none_of_ours(
    server: Server, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that says that a load lives is lost; that another one lives says nothing."""
    journal.announce()
    run, requests = server.run, []

    def loses_one(statement: Statement, **options: Any) -> Any:
        requests.append(statement)
        if len(requests) == 1:
            raise EngineError("the connection was lost", transient=True)
        return run(statement, **options)

    monkeypatch.setattr(server, "run", loses_one)
    another(server).announce()
    assert set(another(server, "c").loads()) == {"a", "b"}


def test_dead_owners_are_told_at_once_on_the_same_machine(server: Server, journal: Journal) -> None:
    died(journal)
    journal.lease("a_1", [split(1)])
    assert another(server).lease("b_1", [split(1)]).lost == ("a_1",)


def test_silent_owners_elsewhere_lose_their_lease(
    server: Server, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal._owner = "elsewhere 1 1 a"
    journal.lease("a_1", [split(1)])
    other = another(server)
    assert other.lease("b_1", [split(1)]).busy
    other.release("b_1")
    monkeypatch.setattr(journals, "LEASE_SECONDS", -1)
    assert another(server).lease("b_2", [split(1)]).lost == ("a_1",)


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_jumps_costs_an_owner_elsewhere_one_attempt(
    clickhouse: ClickHouse, server: Server, journal: Journal, hours: int
) -> None:
    """As if the server's clock had jumped by so many hours after the claim."""
    journal._owner = "elsewhere 1 1 a"
    journal.lease("a_1", [split(1)])
    clickhouse.query(
        f"ALTER TABLE default.{journals.TABLE} UPDATE at = at - INTERVAL {hours} HOUR WHERE 1",
        settings={"mutations_sync": 1},
    )
    other = another(server)
    assert other.lease("b_1", [split(1)]).lost == ("a_1",)
    assert not other.expire("a_1").binding
    assert not journal.commit("a_1", 1, [])  # told, before anything is published
    # Its lines of before the jump are no longer its last ones.
    other.release("b_1")
    assert journal.lease("a_2", [split(1)]).whole
    assert another(server).lease("b_2", [split(1)]).busy == {split(1).id}
    assert journal.commit("a_2", 1, [])


def test_a_lease_is_renewed_after_the_server_was_away(
    clickhouse: ClickHouse, server: Server, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "RENEW_SECONDS", 0.05)
    with Proxy(clickhouse.http_port) as proxy:
        engine = connect(clickhouse, database="default", port=proxy.port)
        mine = Journal(engine, "default", INTO, "c")
        mine.lease("c_1", [split(1)])
        with mine:
            wait_until(lambda: signs(server) > 0, 10, "a sign of life")
            proxy.refuse()
            proxy.cut()
            let_pass(1, "a second without a server")
            before = signs(server)
            proxy.accept()
            wait_until(lambda: signs(server) > before, 10, "a sign of life after the restart")
            assert another(server).lease("b_1", [split(1)]).busy == {split(1).id}
        engine.close()


def signs(server: Server) -> int:
    """Lines that say no more than that their writer lives."""
    return len(
        another(server)._ask(f"SELECT 1 FROM default.{journals.TABLE} WHERE event = 'alive'")
    )


def test_a_lease_is_renewed(
    server: Server, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "RENEW_SECONDS", 0.05)
    journal.lease("a_1", [split(1)])
    with journal:
        deadline = threading.Event()
        for _ in range(100):
            deadline.wait(0.1)
            if signs(server):
                break
        else:
            pytest.fail("no sign of life")


def test_forgotten_splits_may_be_loaded_again(server: Server, journal: Journal) -> None:
    journal.lease("a_1", [split(1)])
    journal.commit("a_1", 10, [])
    journal.loaded("a_1")
    assert another(server).forget("a") == 1
    assert another(server).loaded_ids() == set()
    assert another(server).forgotten_ids() == {split(1).id}
    other = another(server)
    assert other.lease("b_1", [split(1)]).whole
    other.commit("b_1", 1, [])
    other.loaded("b_1")
    assert other.forgotten_ids() == set()


def test_order_survives_merges(clickhouse: ClickHouse, server: Server, journal: Journal) -> None:
    journal.lease("a_1", [split(1)])
    another(server).expire("a_1")
    clickhouse.query(f"OPTIMIZE TABLE default.{journals.TABLE} FINAL")
    assert not journal.commit("a_1", 1, [])
    clickhouse.query(f"OPTIMIZE TABLE default.{journals.TABLE} FINAL")
    (entry,) = journal.entries()
    assert 0 < entry.blocks.claimed < entry.blocks.expired < entry.blocks.committed


def test_of_many_that_claim_at_once_one_gets_each_split(server: Server, journal: Journal) -> None:
    won: dict[int, list[str]] = {n: [] for n in range(20)}

    def run(name: str) -> None:
        mine = another(server, name)
        for n in range(20):
            if mine.lease(f"{name}_{n}", [split(n)]).whole and mine.commit(f"{name}_{n}", 1, []):
                won[n].append(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: len(names) for n, names in won.items()} == dict.fromkeys(range(20), 1)


def test_forced_loads_have_names_of_their_own(server: Server, journal: Journal) -> None:
    journal.lease("a_1", [split(1)])
    journal.commit("a_1", 1, [])
    journal.loaded("a_1")
    forced = Journal(server, "default", INTO, "b", salt="b")
    assert forced.lease("b_1", [split(1)]).whole
    assert forced.commit("b_1", 1, [])


def test_of_two_long_claims_that_alternate_each_split_has_one_holder(
    server: Server, journal: Journal
) -> None:
    """A claim of many splits is written in several lines, and others write between them."""
    other = another(server)
    one, two = split(1), split(2)
    journal._held.add("a_1")
    journals.RUNNING.update({journal._owner, other._owner})
    for who, attempt, each in (
        (journal, "a_1", one), (other, "b_1", two), (journal, "a_1", two), (other, "b_1", one),
    ):  # fmt: skip
        who._append("claim", attempt, splits=[each.id])
    assert journal._judge("a_1", [one, two]).busy == {two.id}
    assert other._judge("b_1", [one, two]).busy == {one.id}


def test_what_a_load_still_holds_at_its_end_is_free_for_others(
    server: Server, journal: Journal
) -> None:
    """Its process may live on, as that of a program that uses the library."""
    with journal:
        assert journal.lease("a_1", [split(1)]).whole
        assert another(server).lease("b_1", [split(1)]).busy
    (entry,) = [e for e in journal.entries() if e.attempt == "a_1"]
    assert entry.quit
    assert another(server, "c").lease("c_1", [split(1)]).lost == ("a_1",)


def test_an_attempt_that_is_taken_over_hears_of_it(server: Server, journal: Journal) -> None:
    assert journal.lease("a_1", [split(1)]).whole
    assert journal.ownership("a_1") is Ownership.OWN
    another(server).expire("a_1")
    assert journal.ownership("a_1") is Ownership.TAKEN
    journal.loaded("a_1")
    assert journal.ownership("a_1") is Ownership.LOADED


def test_what_other_loads_publish_meanwhile_is_known(server: Server, journal: Journal) -> None:
    other = another(server)
    early, late = replace(MOVE, rows=7), replace(MOVE, rows=30, highest_block=5)
    journal.lease("a_1", [split(1)])
    other.lease("b_1", [split(2)])
    assert other.commit("b_1", 7, [early])
    other.loaded("b_1")
    # As if counted at once: nothing says otherwise.
    assert journal.added("a_1", MOVE) == AddedRows(7)
    journal.counting("a_1")
    assert journal.added("a_1", MOVE) == AddedRows()  # there when it was counted
    assert journal.commit("a_1", 10, [MOVE])
    other.lease("b_2", [split(3)])
    other.counting("b_2")
    assert other.commit("b_2", 30, [late])
    assert journal.added("a_1", MOVE) == AddedRows(part=30)  # it may be visible, or a part of it
    other.loaded("b_2")
    assert journal.added("a_1", MOVE) == AddedRows(30)
    # Before or after b_2 was counted.
    assert other.added("b_2", late) == AddedRows(part=10)


def ranges(*numbers: int) -> list[Split]:
    """Ranges of one file of 20 MB, and their file."""
    listing = Listing()
    listing.add("/data/big.csv", "1-1", 20 << 20)
    for n in numbers:
        start, stop = n << 22, (n + 1) << 22
        listing.add("/data/big.csv", "1-1", stop - start, start, stop, Part(20 << 20))
    return list(listing.splits("default.t"))


def test_a_file_and_its_ranges_are_never_held_together(server: Server, journal: Journal) -> None:
    whole, first, second = ranges(0, 1)
    other = another(server)
    assert journal.lease("a_1", [first]).whole
    assert other.lease("b_1", [second]).whole
    assert other.lease("b_2", [whole]).busy == {whole.id}
    other.release("b_1")
    other.release("b_2")
    journal.release("a_1")
    assert other.lease("b_3", [whole]).whole
    assert journal.lease("a_2", [first, second]).busy == {first.id, second.id}
    assert other.commit("b_3", 1, [])
    other.loaded("b_3")
    assert journal.lease("a_3", [first]).loaded == {first.id}


def test_what_is_loaded_in_ranges_is_no_whole_file(server: Server, journal: Journal) -> None:
    whole, first, second = ranges(0, 1)
    assert journal.lease("a_1", [first]).whole
    assert journal.commit("a_1", 1, [])
    journal.loaded("a_1")
    assert journal.loaded_ids() == {first.id, first.mark}
    assert another(server).lease("b_1", [second]).whole
    with pytest.raises(LedgerError, match="cut a file into ranges"):
        another(server, "c").lease("c_1", [whole])
    journal.forget("a")
    assert another(server, "c").lease("c_2", [whole]).busy == {whole.id}  # by b_1


def stretch(*some: tuple[int, int], uri: str = "kafka://c/t/0") -> list[Split]:
    listing = Listing(continued=True)
    for start, stop in some:
        listing.add(uri, "1", None, start, stop)
    return list(listing.splits("t"))


def test_ranges_of_a_stream_are_held_whatever_their_bounds(
    server: Server, journal: Journal
) -> None:
    assert journal.lease("a_1", stretch((0, 100), (100, 200))).whole
    other = another(server)
    theirs = stretch((150, 300), (300, 400))
    claim = other.lease("b_1", theirs)
    assert claim.busy == {theirs[0].id}
    other.release("b_1")
    assert other.lease("b_2", stretch((200, 400))).whole
    assert other.lease("b_3", stretch((0, 200), uri="kafka://c/t/1")).whole
    journal.commit("a_1", 1, [MOVE])
    journal.loaded("a_1")
    same = stretch((100, 200))
    assert other.lease("b_4", same).loaded == {same[0].id}
    with pytest.raises(LedgerError, match="some of the numbers that this one was going to load"):
        other.lease("b_5", stretch((199, 200)))
    assert other.loaded_ids() == {s.id for s in stretch((0, 100), (100, 200))}


def test_a_forced_load_of_a_stream_holds_ranges_of_its_own(
    server: Server, journal: Journal
) -> None:
    assert journal.lease("a_1", stretch((0, 100))).whole
    forced = Journal(server, "default", INTO, "b", salt="0123456789")
    assert forced.lease("b_1", stretch((50, 150))).whole
    again = Journal(server, "default", INTO, "b", salt="0123456789")
    assert again.lease("b_2", stretch((0, 60))).busy == {stretch((0, 60))[0].id}


def test_ranges_of_a_dead_process_are_named(server: Server, journal: Journal) -> None:
    died(journal)
    assert journal.lease("a_1", stretch((0, 100))).whole
    mine = stretch((90, 190))
    claim = another(server).lease("b_1", mine)
    assert claim.lost == ("a_1",)
    assert claim.of_lost == {"a_1": {mine[0].id}}


def loads(journal: Journal, load_id: str, numbers: range, files: int) -> None:
    """Load so many attempts of so many files each."""
    for number in numbers:
        attempt = f"{load_id}_{number}"
        splits = [split(number * 1000 + file) for file in range(files)]
        assert journal.lease(attempt, splits).whole
        assert journal.commit(attempt, 10, [MOVE])
        journal.loaded(attempt)


@pytest.fixture
def joins_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "LEAST_JOINED", 3)
    monkeypatch.setattr(journals, "JOIN_AGE_SECONDS", -1)


def test_joined_attempts_are_known_to_everybody(
    clickhouse: ClickHouse, server: Server, journal: Journal, joins_soon: None
) -> None:
    loads(journal, "a", range(1, 6), 4)
    assert journal.join()
    lines = "SELECT countIf(event = 'claim'), sum(length(splits)) FROM default._rowfall_journal"
    assert clickhouse.query(lines) == "1\t1\n"
    other = another(server)
    known = {split(number * 1000 + file).id for number in range(1, 6) for file in range(4)}
    asked = [*known, split(77).id]
    assert other.loaded_among(asked) == known
    lease = other.lease("b_1", [split(1001), split(77)])
    assert lease.loaded == {split(1001).id}
    other.release("b_1")
    # It counts as before: what is remembered of the table, its rows, and once more.
    assert [one.rows for one in other.table_loads()] == [50]
    assert other.tells()
    loads(journal, "a", range(10, 14), 2)
    assert journal.join()
    assert [one.rows for one in other.table_loads()] == [90]
    assert other.loaded_among(asked) == known
    assert not journal.join()  # the one line that is left stands for all
    assert other.forget("a")
    assert other.loaded_among(asked) == set()


def test_what_was_joined_is_forgotten_with_its_load(
    server: Server, journal: Journal, joins_soon: None
) -> None:
    """Batches of a source that is followed with the one that stands for them, others apart."""
    for number, load in enumerate("abcz"):
        loads(journal, load, range(number, number + 1), 2)
    assert journal.join()
    loads(journal, "b", range(5, 6), 1)
    files = {
        load: {split(number * 1000 + file).id for file in range(2)}
        for number, load in enumerate("abcz")
    }
    files["b"].add(split(5000).id)
    everything = set[str]().union(*files.values())
    other = another(server)
    assert other.forget("z") == 2
    assert other.loaded_among([*everything]) == everything - files["z"]
    assert other.forget("a", {"b"}) == 5
    assert other.loaded_among([*everything]) == files["c"]
    lease = other.lease("n_1", [split(0), split(2000)])
    assert lease.loaded == {split(2000).id}
    other.release("n_1")


def test_what_an_open_attempt_reckons_with_is_not_joined(
    server: Server, journal: Journal, joins_soon: None
) -> None:
    loads(journal, "a", range(1, 4), 2)
    other = another(server)
    assert other.lease("b_1", [split(5)]).whole
    loads(journal, "a", range(4, 9), 2)
    assert journal.join()
    left = {entry.attempt for entry in journal.entries() if entry.blocks.loaded}
    assert {f"a_{number}" for number in range(4, 9)} <= left
    assert not {f"a_{number}" for number in range(1, 4)} & left
    other.release("b_1")


def test_a_crash_between_the_copy_and_the_deletion_changes_nothing(
    server: Server, journal: Journal, joins_soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads(journal, "a", range(1, 6), 2)
    run, left = Journal._run, [0]

    def dies(self: Journal, text: str, lane: int = journals.JOURNAL_LANE) -> None:
        left[0] -= 1
        if not left[0]:
            raise EngineError("killed")
        run(self, text, lane)

    monkeypatch.setattr(Journal, "_run", dies)
    asked = [split(number * 1000 + file).id for number in range(1, 6) for file in range(2)]
    for statement in range(1, 5):  # the table, the ids, the line that stands for all, the deletion
        left[0] = statement
        with pytest.raises(EngineError):
            journal.join()
        assert another(server).loaded_among([*asked, split(77).id]) == set(asked)
    assert journal.join()
    assert another(server).loaded_among(asked) == set(asked)


@pytest.mark.long
def test_a_million_joined_ids_cost_less_than_30_bytes_each_and_few_are_read(
    clickhouse: ClickHouse, server: Server, journal: Journal, joins_soon: None
) -> None:
    clickhouse.query("DROP TABLE IF EXISTS default._rowfall_joined SYNC")
    loads(journal, "a", range(1, 4), 1)
    assert journal.join()
    clickhouse.query(
        "INSERT INTO default._rowfall_joined (into, id, load) SELECT "
        f"toUUID('{INTO}'), reinterpretAsFixedString(sipHash128(number)), 'a' FROM numbers(5000000)"
    )
    clickhouse.query("OPTIMIZE TABLE default._rowfall_joined FINAL")
    ((size, rows),) = server.ask(
        "SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND "
        "table = '_rowfall_joined'"
    )
    assert int(size) / int(rows) < 30
    ids = [split(number).id for number in range(1000)]
    before = int(clickhouse.query(
        "SELECT value FROM system.events WHERE event = 'SelectedRows'"
    ) or 0)  # fmt: skip
    assert journal.loaded_among(ids) == set()
    after = int(clickhouse.query("SELECT value FROM system.events WHERE event = 'SelectedRows'"))
    assert after - before < 2_000_000  # 1,000 times a mark of 512 rows, and the journal
