"""``--method``: the ways that rows get to the shards of a cluster."""

from __future__ import annotations

FILTER, DISTRIBUTED = "filter", "distributed"
"""How rows get to the shard that a sharding key says, see :class:`rowfall.model.Plan`."""

BY_HAND = ("s3cluster", "s3cluster-parallel", "views")
"""What to compare with, see :mod:`rowfall.methods`."""

METHODS = ("local", FILTER, DISTRIBUTED, *BY_HAND)
"""All that may be asked for."""
