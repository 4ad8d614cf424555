"""Which processes have ended: of this boot, of an earlier one, and of other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core import disk
from rowfall.ledger import leases

BOOT, _, NUMBERS = leases.machine_id().partition("/")
EARLIER = f"{'0' * 8}{BOOT[8:]}/{NUMBERS} 1 2"
CONTAINER = f"{BOOT}/pid:[1] 1 2"
GONE = f"{leases.machine_id()} 999999999 1"


def test_a_process_of_an_earlier_boot_has_ended_where_nobody_else_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    assert leases.has_ended(EARLIER, file)
    assert not leases.has_ended(EARLIER)  # nothing is known of a journal that machines share
    assert not leases.has_ended(CONTAINER, file)  # it may run
    assert leases.has_ended(GONE)
    assert leases.has_ended(GONE, file)
    assert not leases.has_ended(leases.this_process(), file)
    assert not leases.has_ended("", file)
    monkeypatch.setattr(disk, "is_shared", lambda folder: True)
    assert not leases.has_ended(EARLIER, tmp_path / "b")


def test_pids_of_other_containers_and_boots_say_nothing_here(tmp_path: Path) -> None:
    file = tmp_path / "a"
    found = [leases.is_of_other_pid_namespace(one, file) for one in (EARLIER, CONTAINER, GONE, "")]
    assert found == [True, True, False, False]
