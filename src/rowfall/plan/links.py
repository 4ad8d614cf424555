"""Decides whether rows are compressed on their way, by the network to a server. Pure."""

from __future__ import annotations

from rowfall.contracts.facts import LoadFacts, NetworkLink
from rowfall.core import units
from rowfall.core.model import (
    Choice,
)
from rowfall.core.options import Options

LZ4, ZLIB, NONE = "lz4", "zlib", "none"
"""Answers of ``--compress``."""
# Bytes of blocks that one core makes in a second: trips (3 columns) 119 MB, taxi (51) 111 MB, both
# out of csv.gz and sorted.
CORE_RATE = 115e6
# Bytes of packets that a core makes and packs with zlib in a second: 155 MB of taxi rows, to 0.29
# of their size, took the loader 4.4 CPU-seconds, and 2.6 unpacked.
ZLIB_RATE = 35e6


def measures_link(options: Options) -> bool:
    """Tell whether compression depends on what the network carries."""
    return options.compress == "auto"


def compress_by_link(facts: LoadFacts, options: Options, streams: int) -> Choice:
    """Decide whether blocks are compressed: LZ4 where the network is what a load waits for.

    Compressing costs rowfall-decode 1.1 CPU-seconds for each GB of taxi blocks, which become 0.47
    of their size, and nothing for trips, whose sorted blocks become 0.004; undoing it costs the
    server 0.15 a GB.
    """
    if options.compress != "auto":
        return Choice(options.compress, f"as asked for with --compress {options.compress}")
    far = [writer for writer in facts.writers if not writer.link.near]
    if not far:
        return Choice(NONE, "the server is on this machine")
    rates = [writer.link.rate for writer in far if writer.link.rate is not None]
    if len(rates) < len(far):
        return Choice(LZ4, "the server is on another machine")
    # Of several servers the slowest counts.
    rate, cores = min(rates), min(facts.cores_here, streams)
    made = CORE_RATE * cores
    makers = "1 core makes" if cores == 1 else f"{cores} cores make"
    takes = units.byte_rate(rate)
    why = f"the network takes {takes}, {makers} {units.byte_rate(made)} of blocks"
    return Choice(LZ4 if rate < made else NONE, why)


def pack_by_link(link: NetworkLink, options: Options, cores: int) -> Choice:
    """Decide whether the protocol of a database is compressed with zlib."""
    if options.compress != "auto":
        return Choice(options.compress, f"as asked for with --compress {options.compress}")
    if link.near:
        return Choice(NONE, "the server is on this machine")
    if link.rate is None:
        return Choice(NONE, "the network could not be measured")
    packs = ZLIB_RATE * cores
    makers = "1 core packs" if cores == 1 else f"{cores} cores pack"
    why = f"the network takes {units.byte_rate(link.rate)}, {makers} {units.byte_rate(packs)}"
    return Choice(ZLIB if link.rate < packs else NONE, why)
