"""--prefill: no connection sends before all of them have what they send first."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from rowfall.deliver import rows
from rowfall.deliver.rows import Prefill


def test_all_connections_are_filled_before_the_first_byte() -> None:
    prefill, filled = Prefill(3), []
    sent: list[int] = []

    def pieces(number: int) -> Iterator[bytes]:
        for _ in range(3):
            yield b"x" * rows._FILL
        filled.append(number)

    def send(number: int) -> None:
        sent.extend(len(began) for _ in prefill.over(made(number)))

    began: list[int] = []

    def made(number: int) -> Iterator[bytes]:
        began.append(number)
        yield from pieces(number)

    rows_before, rows._FILL = rows._FILL, 1 << 10
    try:
        threads = [threading.Thread(target=send, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    finally:
        rows._FILL = rows_before
    assert sent == [3] * 9
    assert sorted(filled) == [0, 1, 2]
    assert prefill.started is not None


def test_who_fails_keeps_nobody_waiting() -> None:
    prefill = Prefill(2)
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.extend(prefill.over(iter([b"a", b"b"]))))
    thread.start()
    prefill.end()
    thread.join(10)
    assert got == [b"a", b"b"]
    assert list(prefill.over(iter([b"c"]))) == [b"c"]  # the next attempt
