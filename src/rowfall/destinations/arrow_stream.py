"""A stream of Arrow in this process: nothing is kept, and each row is given once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import Delivery
from rowfall.contracts.destination import LoadRun, Opened, OpenRequest, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, Finished, Settled
from rowfall.core.errors import UsageError
from rowfall.core.machine import free_memory, usable_cores
from rowfall.core.model import SEND, Choice, Facts, Group, Plan, Transport
from rowfall.core.options import Options
from rowfall.core.units import parse_size
from rowfall.decoder import installed
from rowfall.decoder.abilities import flat_types, knows_flat
from rowfall.decoder.installed import PROGRAM
from rowfall.deliver.route import give_no_rows, open_streaming
from rowfall.destinations.nothing import Nothing, PreparedNothing
from rowfall.targets.arrow_stream import ArrowStream

# That of the engine which rowfall brings, before it has Nullable(Tuple): a struct of NULLs is what
# rowfall-decode writes.
_VERSION = "26.8"
# Files of one process of rowfall-decode, which takes 5 ms to start.
_MOST_FILES = 500


class PreparedStream(PreparedNothing):
    """A load whose rows go into a channel."""

    def delivery(self, session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        target = writer.target
        assert isinstance(target, ArrowStream)  # noqa: S101 - by its kind
        return open_streaming(session, facts, plan, writer, target.channel)

    def finish(self, plan: Plan, done: Done) -> Finished:
        """End the rows; an empty table has nothing to read, and its columns are told here."""
        target = self._load.session.target
        assert isinstance(target, ArrowStream)  # noqa: S101 - by its kind
        if not target.channel.offered and not target.channel.failed:
            give_no_rows(target.channel, plan.schema)
        self._load.session.reader.rest()
        return super().finish(plan, done)


class StreamedRows(Nothing):
    """Rows for a program of this process."""

    visible_when = "each batch of rows as soon as it is read"

    def open(self, request: OpenRequest) -> Opened:
        """Open an engine that starts only where something needs it, which text and JSON do not.

        Raises:
            UsageError: rowfall-decode is not installed, which alone writes Arrow.
        """
        if installed.program() is None:
            raise UsageError(
                f"rowfall.read needs {PROGRAM}, which is not installed",
                hint="Install it: pip install rowfall-decode (Linux).",
            )
        if request.reader is None:
            return Opened()
        options = request.options
        memory = parse_size(options.memory) if options.memory else free_memory() // 2
        # A DateTime without a zone is what a clock shows: in no zone, and never another time.
        facts = Facts(_VERSION, options.threads or usable_cores(), memory, timezone="UTC")
        reader = request.reader(late=True)
        reader.assume(facts)
        return Opened(reader=reader)

    def prepare(
        self, load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan
    ) -> PreparedStream:
        """Check that Arrow has all types.

        Raises:
            UsageError: it has not, and the column has to be made text.
        """
        for column in plan.schema.columns:
            for type_ in flat_types(column.type):
                if not knows_flat(type_):
                    raise UsageError(
                        f"the column {column.name} has the type {column.type}, which has no like "
                        "in Arrow",
                        hint=f"Read it as text: type={{'{column.name}': 'String'}}, or leave it "
                        f"out: skip='{column.name}'.",
                    )
        super().prepare(load, settled, facts, plan)
        return PreparedStream(load)

    def cut(
        self, facts: LoadFacts, options: Options, cores: int, todo: Sequence[int]
    ) -> tuple[Group, ...]:
        """Put neighbours together, in the order of the source."""
        groups = []
        # Which rows are left out, and which ranges were read, is known of one alone.
        alone = options.max_errors or options.max_error_ratio or facts.listing.parts
        most = 1 if alone else _MOST_FILES
        for at in range(0, len(todo), most):
            some = tuple(todo[at : at + most])
            sizes = [facts.listing.size(i) for i in some]
            groups.append(Group(some, None if None in sizes else sum(size or 0 for size in sizes)))
        return tuple(groups)

    def adapt_transport(
        self, facts: LoadFacts, options: Options, transport: Transport
    ) -> Transport:
        delivery = Choice(SEND, f"{PROGRAM} writes Arrow")
        return replace(transport, delivery=delivery)
