"""What is done about attempts that have failed, by their errors; nothing is inserted here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowfall.core.errors import (
    DataError,
    LockLostError,
    ObjectChangedError,
    RowfallError,
    SourceError,
    TargetError,
)
from rowfall.core.listing import Listing
from rowfall.decoder.process import DecoderFailure
from rowfall.deliver.decode import DeclinedError
from rowfall.publish.files import FileReceiver
from rowfall.run.remedies import ChangedError, NullListsError, Remedies
from rowfall.run.work_queue import Work
from rowfall.schema.bad_rows.rejects import BadRows
from rowfall.systems.clickhouse.codes import MEMORY_LIMIT
from unit.small_load import small_load


@pytest.fixture(scope="module")
def remedies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remedies]:
    with small_load(tmp_path_factory.mktemp("load"), "part_{n}.csv") as given:
        session = given.load.session
        source = session.source
        bad_rows = BadRows(source, given.plan, session.reader, session.options, source)
        yield Remedies(given, FileReceiver(given, None), bad_rows)


def work(count: int = 2) -> Work:
    listing = Listing()
    for number in range(count):
        listing.add(f"/data/{number}.csv", "1-1", 1)
    return Work(0, list(listing.splits("key")))


def test_want_of_memory_is_met_by_smaller_blocks_once(remedies: Remedies) -> None:
    error = TargetError("memory", code=MEMORY_LIMIT)
    (again,) = remedies.of(work(), error).again
    assert again.failed.lowered == 1
    assert again.failed.settings != remedies._given.settings
    with pytest.raises(TargetError):
        remedies.of(again, error)


def test_an_object_that_no_error_names_is_looked_for_by_halves(remedies: Remedies) -> None:
    error = SourceError("one of them is bad")
    found = remedies.of(work(5), error)
    assert [len(one.splits) for one in found.again] == [2, 3]
    assert not found.failed
    alone = remedies.of(work(1), error)
    assert not alone.again
    assert [split.name for split, _ in alone.failed] == ["/data/0.csv"]


def test_what_has_changed_is_given_up_and_the_rest_is_loaded(remedies: Remedies) -> None:
    whole = work(3)
    found = remedies.of(whole, ChangedError([(whole.splits[1], "changed from 1-1 to 1-2 (size)")]))
    ((split, why),) = found.failed
    assert split is whole.splits[1]
    assert isinstance(why, ObjectChangedError)
    assert [list(one.splits) for one in found.again] == [[whole.splits[0], whole.splits[2]]]


def test_lists_that_are_null_name_their_columns(remedies: Remedies) -> None:
    whole = work(1)
    ((_, why),) = remedies.of(whole, NullListsError([(whole.splits[0], "tags")])).failed
    assert isinstance(why, DataError)
    assert "a list or a map in tags is NULL" in why.message


def test_what_passes_is_tried_a_few_times(
    remedies: Remedies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowfall.run.remedies.time.sleep", lambda _: None)
    tried, error = work(1), TargetError("the connection broke", transient=True)
    for number in range(1, 4):
        (tried,) = remedies.of(tried, error).again
        assert tried.failed.tries == number
    with pytest.raises(TargetError):
        remedies.of(tried, error)


@pytest.mark.parametrize("error", [LockLostError("lost"), TargetError("no such table")])
def test_some_errors_stop_the_load(remedies: Remedies, error: RowfallError) -> None:
    with pytest.raises(type(error)):
        remedies.of(work(), error)


def test_the_engine_reads_what_was_declined(remedies: Remedies) -> None:
    whole = work()
    declined = DeclinedError("odd", split=whole.splits[0])
    rest, own = remedies.of(whole, declined).again
    assert (own.engine_reads, rest.engine_reads) == (True, False)
    assert own.splits == [whole.splits[0]]
    for _ in range(20):
        remedies.of(whole, declined)
    assert not remedies.decodes


def test_the_decoder_reads_with_one_thread_where_several_take_too_much(remedies: Remedies) -> None:
    """The engine read such a file instead, which held as many dictionaries, and gave up, too."""
    said = DecoderFailure("memory allocation of 1 bytes failed", no_memory=True)
    error = DeclinedError(said.message, None, said)
    (again,) = remedies.of(work(), error).again
    assert remedies.alone
    assert not again.engine_reads
    (last,) = remedies.of(again, error).again
    assert last.engine_reads
