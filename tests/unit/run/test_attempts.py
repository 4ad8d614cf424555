"""What attempts count, added up over attempts and writers."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rowfall.contracts.load import Amounts, Counts, Tries
from rowfall.core.results import Failure
from rowfall.publish.tables import TableReceiver
from rowfall.run.attempts import AttemptRunner, shown
from rowfall.run.work_queue import WorkQueue

CHECKSUMS = st.none() | st.tuples(st.integers(0, 1 << 40), st.integers(0, (1 << 64) - 1))


def counts(rows: int, checksum: tuple[int, int] | None) -> Counts:
    return Counts(
        amounts=Amounts(rows=rows),
        tries=Tries(attempts=1, query_ids=(f"a_{rows}",)),
        checksum=checksum,
    )


@given(st.lists(st.tuples(st.integers(0, 1000), CHECKSUMS), max_size=6))
def test_sums_do_not_depend_on_how_they_are_grouped(
    found: list[tuple[int, tuple[int, int] | None]],
) -> None:
    every = [counts(*one) for one in found]
    middle = len(every) // 2
    total = sum(every, Counts())
    assert sum(every[:middle], Counts()) + sum(every[middle:], Counts()) == total
    assert total.amounts.rows == sum(rows for rows, _ in found)
    assert len(total.tries.query_ids) == total.tries.attempts == len(found)


def test_a_checksum_wraps_and_is_kept_where_only_some_have_one() -> None:
    top = (1 << 64) - 1
    total = counts(1, (1, top)) + counts(2, None) + counts(3, (2, 2))
    assert total.checksum == (3, 1)
    assert (counts(1, None) + counts(2, None)).checksum is None
    assert (counts(1, (0, 0)) + counts(2, None)).checksum == (0, 0)


def test_failures_stay_in_their_order() -> None:
    first, second = (Counts(failures=(Failure(name, "why"),)) for name in "ab")
    assert [failure.split for failure in (first + second).failures] == ["a", "b"]


def test_a_recorded_error_is_text_of_bounded_length() -> None:
    assert shown("x" * 5000) == "x" * 2000
    assert shown("a\udcffb") == "a\\xffb"


def test_who_waits_meets_no_publisher_that_has_not_begun() -> None:
    """Ctrl-C or an error waits for the workers at any moment, so here at each line of publish()."""
    runner = object.__new__(AttemptRunner)
    runner._workers, runner._publishing = [], None
    runner._publish_turn, runner.queue = threading.Lock(), WorkQueue()
    runner._receiver = object.__new__(TableReceiver)
    assert runner._receiver.in_background
    lines = set()

    def at_each_line(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not AttemptRunner.publish.__code__:
            return None
        if event == "line":
            lines.add(frame.f_lineno)
            runner.wait(0)  # what the main thread does just now
        return at_each_line

    before = sys.gettrace()
    sys.settrace(at_each_line)
    try:
        for _ in range(2):  # the second one finds the first
            runner.publish(iter((True,)))
    finally:
        sys.settrace(before)
    runner.wait(5)
    assert len(lines) > 5
    assert not runner.works
