"""The file of a ledger: what breaks off its statements."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import pytest

from rowfall.ledger.store import LedgerStore

# A second of SQLite's time; the signal comes after a twentieth of it.
_COUNT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000000) "
    "SELECT ended(max(i)) FROM n"
)


@pytest.mark.parametrize("changes", [False, True])
def test_a_signal_breaks_off_a_long_statement(tmp_path: Path, *, changes: bool) -> None:
    """SIGTERM was heard when a question was answered: after minutes, once."""
    store = LedgerStore(tmp_path / "rowfall.ledger")
    ended: list[int] = []
    store._db.create_function("ended", 1, ended.append)  # not of Python: it hears no signal

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def ask() -> None:
        if not changes:
            store.rows(_COUNT)
            return
        with store.change() as db:
            db.execute("INSERT INTO target_table VALUES ('a', 'b')")
            db.execute(_COUNT).fetchall()

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.05)  # of this process's own time
    try:
        with pytest.raises(KeyboardInterrupt):
            ask()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert ended == []
    # What was changed is undone, and the ledger goes on.
    assert store.rows("SELECT * FROM target_table") == []
    with store.change() as db:
        db.execute("INSERT INTO target_table VALUES ('a', 'b')")
    assert store.rows("SELECT * FROM target_table") == [("a", "b")]
    store.close()
