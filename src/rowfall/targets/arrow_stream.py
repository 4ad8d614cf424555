"""``arrow:``: rows for a program of this process, as a stream of Arrow; see ``rowfall.read``."""

from __future__ import annotations

from pathlib import Path

from rowfall.core.arrow_channel import ArrowChannel
from rowfall.targets.base import Caps, Publish
from rowfall.targets.null import Null

PROMISE = "each row once and in the order of the source, or an error in its place"
TEXT = "arrow:"


class ArrowStream(Null):
    """Target that a channel of this process stands for.

    Args:
        ledger_path: of the load, which is forgotten with it.
    """

    def __init__(self, ledger_path: Path, channel: ArrowChannel) -> None:
        super().__init__(ledger_path)
        self.text, self.channel = TEXT, channel
        self.caps = Caps(Publish.STREAM, PROMISE, "a stream of Arrow", takes_table_name=False)
