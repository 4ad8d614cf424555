"""Whether blocks are compressed on their way to a server: pure.

Compressing (LZ4) costs rowfall-decode 1.1 CPU-seconds for each GB of taxi blocks, which become 0.47
of their size, and nothing for trips, whose sorted blocks become 0.004; undoing it costs the server
0.15 a GB. So it is worth it as soon as the network is what a load would wait for.
"""

from __future__ import annotations

from rowfall.core import units
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.plan.inputs import Inputs, Link

LZ4, NONE = "lz4", "none"
WISHES = ("auto", LZ4, NONE)
# Bytes of blocks that one core makes in a second: trips (3 columns) 119 MB, taxi (51) 111 MB, both
# out of csv.gz and sorted.
CORE_RATE = 115e6


def choose(inputs: Inputs, obstacle: str, streams: int) -> tuple[str, str]:
    """``lz4`` or ``none``, and why; "" and "" where no blocks are sent.

    Args:
        obstacle: why there are no blocks, "" where there are some.

    Raises:
        UsageError: ``--compress lz4``, and there are none.
    """
    wish = inputs.options.compress
    if obstacle:
        if wish == LZ4:
            raise UsageError(
                f"there are no blocks to compress: {obstacle}", hint="Leave out --compress lz4."
            )
        return "", ""
    if wish != "auto":
        return wish, f"as asked for with --compress {wish}"
    return _by_link(inputs.link or Link(), min(inputs.cores_here, streams))


def _by_link(link: Link, cores: int) -> tuple[str, str]:
    if link.near:
        return NONE, "the server is on this machine"
    if link.rate is None:
        return LZ4, "the server is on another machine"
    made = CORE_RATE * cores
    makers = "1 core makes" if cores == 1 else f"{cores} cores make"
    takes = units.byte_rate(link.rate)
    why = f"the network takes {takes}, {makers} {units.byte_rate(made)} of blocks"
    return LZ4 if link.rate < made else NONE, why


def measures(options: Options) -> bool:
    """Whether the choice depends on what the network carries."""
    return options.compress == "auto"
