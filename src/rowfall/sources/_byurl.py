"""Objects that the engine reads like files on a web server, from addresses that need no keys."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.listing import Split
from rowfall.model import Encoding
from rowfall.sources import _feed, _relation, _web
from rowfall.sources._objects import Objects
from rowfall.sources.base import EMBEDDED, Address, Probe
from rowfall.sqltext import SqlText


class ByUrl(Objects):
    """A store whose objects have addresses; signed ones hold a secret.

    Servers write addresses into their logs, so they only read what needs no signature.
    """

    reader = EMBEDDED

    def addresses(self, splits: Sequence[Split]) -> list[Address]:
        """See :class:`rowfall.sources.base.Addressed`."""
        raise NotImplementedError

    @property
    def _signs(self) -> bool:
        """Whether addresses hold a secret."""
        raise NotImplementedError

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """``url(...)`` of exactly these objects; a missing one makes the engine raise."""
        fed, rest = _feed.choose(splits, encoding, self.reader)
        calls = self._calls(rest, encoding, structure) if rest else []
        settings = _web.settings({split.uri: "" for split in rest})
        if fed:
            objects = [(split.uri, self._opener(split)) for split in fed]
            calls.append(_relation.Call(self._feeder.call(objects, encoding, structure)))
        return _relation.joined(calls, structure, settings=settings)

    def _calls(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[_relation.Call]:
        addresses = self.addresses(splits)
        whole = {s.uri: a.url.reveal() for s, a in zip(splits, addresses, strict=True)}
        hidden = set(whole) if self._signs else set()
        return _web.calls(whole, hidden, encoding, structure)

    def probe(self, split: Split) -> Probe:
        """Size and first bytes: behind another network the same address may be another store."""
        length = min(_relation.HEAD, split.size or 1)
        (call,) = self._calls([split], *_relation.head(length))
        return _web.probe(call, split.size, self.part(split, 0, length))
