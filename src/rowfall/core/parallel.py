"""Runs one function on several engines at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def on_all(do: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """Return what ``do`` returns for each item, in their order, when all have ended.

    One thread an item, as each waits for another server; a single one needs none. They are daemons,
    as a pool's are not: a statement that hangs does not keep the process from ending.

    Raises:
        BaseException: the first that ``do`` raised.
    """
    if len(items) == 1:
        return [do(items[0])]
    found: dict[int, _Found] = {}
    failed: list[BaseException] = []

    def one(at: int, item: _Item) -> None:
        try:
            found[at] = do(item)
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=one, args=(at, item), daemon=True) for at, item in enumerate(items)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [found[at] for at in range(len(items))]
