"""The lines of a load's writers: everything is taken once, and nobody waits while there is work."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.process import let_pass
from rowfall.core.listing import Split
from rowfall.run import work_queue
from rowfall.run.work_queue import SHARED_BYTES, Work, WorkQueue


def work(number: int, *sizes: int) -> Work:
    return Work(number, [Split(f"{number}.{n}", "", "", size) for n, size in enumerate(sizes)])


def ids(taken: Work | None) -> list[str]:
    return [] if taken is None else [split.id for split in taken.splits]


LINES = st.lists(
    st.lists(st.lists(st.integers(1, SHARED_BYTES), min_size=1, max_size=4), max_size=5),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(deadline=None)
@given(LINES, st.integers(0, 3))
def test_every_split_is_taken_once_by_whoever_works(
    lines: list[list[list[int]]], late: int
) -> None:
    queue = WorkQueue(len(lines))
    numbers = iter(range(1_000))
    for writer, line in enumerate(lines):
        for sizes in line:
            queue.put(writer, work(next(numbers), *sizes))
    wanted = Counter(i for line in queue._lines for w in line for i in ids(w))
    taken: Counter[str] = Counter()
    guard = threading.Lock()

    def run(writer: int) -> None:
        while (found := queue.take(writer)) is not None:
            with guard:
                taken.update(ids(found))
            queue.release()

    # Any writer may be too slow to get anything: the others take it all.
    threads = [threading.Thread(target=run, args=(writer,)) for writer in range(len(lines))]
    for thread in threads[min(late, len(threads) - 1) :]:
        thread.start()
    for thread in threads[min(late, len(threads) - 1) :]:
        thread.join(20)
    assert taken == wanted


def test_a_writer_without_work_takes_from_the_longest_line() -> None:
    queue = WorkQueue(3)
    queue.put(0, work(0, 10))
    queue.put(1, work(1, 10))
    queue.put(1, work(2, 10))
    assert ids(queue.take(2)) == ["2.0"]  # the end of the line: its own writer goes on at the front
    assert ids(queue.take(1)) == ["1.0"]


def test_the_last_of_a_line_is_shared_when_it_is_worth_it() -> None:
    queue = WorkQueue(2)
    queue.put(0, work(0, *[SHARED_BYTES] * 5))
    assert ids(queue.take(1)) == ["0.1", "0.3"]
    assert ids(queue.take(0)) == ["0.0", "0.2", "0.4"]
    small = WorkQueue(2)
    small.put(0, work(0, 1, 1))
    assert ids(small.take(1)) == ["0.0", "0.1"]


def test_a_failed_attempt_comes_back_to_those_who_wait() -> None:
    queue = WorkQueue(2)
    queue.put(0, work(0, 1))
    first = queue.take(0)
    assert first is not None
    got: list[list[str]] = []
    waiting = threading.Thread(target=lambda: got.append(ids(queue.take(1))))
    waiting.start()
    let_pass(0.05, "a thread that did not wait would have ended")
    assert waiting.is_alive()
    queue.again(0, first)
    queue.release()
    waiting.join(10)
    assert got == [["0.0"]]


def test_what_others_hold_is_looked_at_again_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WAIT_SECONDS", 0.0)
    queue = WorkQueue(2)
    queue.hold(1, work(7, 1))
    assert ids(queue.take(1)) == ["7.0"]
    queue.release()
    assert queue.take(0) is None


def test_after_a_stop_or_a_fatal_error_nobody_gets_anything() -> None:
    for end in (WorkQueue.stop, lambda q: q.fail(ValueError())):
        queue = WorkQueue(1)
        queue.put(0, work(0, 1))
        end(queue)
        assert queue.take(0) is None


def test_the_first_fatal_error_counts() -> None:
    queue = WorkQueue()
    first = ValueError("first")
    queue.fail(first)
    queue.fail(ValueError("second"))
    assert queue.fatal is first


def test_hope_is_given_up_only_before_anything_has_loaded() -> None:
    queue = WorkQueue(2)
    queue.put(1, work(0, 1))
    queue.loaded()
    assert not queue.give_up()
    assert ids(queue.take(0)) == ["0.0"]
    hopeless = WorkQueue(2)
    hopeless.put(1, work(0, 1))
    hopeless.hold(0, work(1, 1))
    assert hopeless.give_up()
    assert hopeless.take(0) is None


def test_attempts_have_numbers_of_their_own() -> None:
    queue = WorkQueue(2, serial=4)
    assert [queue.serial() for _ in range(3)] == [5, 6, 7]
