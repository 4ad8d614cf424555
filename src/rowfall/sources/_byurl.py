"""Objects that the engine reads like files on a web server, from addresses that need no keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.sources import _relation, _web
from rowfall.sources._objects import Objects
from rowfall.sources.base import Address, Probe


class ByUrl(Objects):
    """A store whose objects have addresses; signed ones hold a secret.

    Servers write addresses into their logs, so they only read what needs no signature.
    """

    @abstractmethod
    def addresses(self, splits: Sequence[Split]) -> list[Address]:
        """See :class:`rowfall.sources.base.Addressed`."""

    @property
    @abstractmethod
    def _signs(self) -> bool:
        """Whether addresses hold a secret."""

    def _calls(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[_relation.Call]:
        addresses = self.addresses(splits)
        urls = {s.uri: a.url.reveal() for s, a in zip(splits, addresses, strict=True)}
        hidden = set(urls) if self._signs else set()
        return _web.calls(urls, hidden, encoding, structure)

    def probe(self, split: Split) -> Probe:
        """Size and first bytes: behind another network the same address may be another store."""
        length = min(_relation.HEAD, split.size or 1)
        (call,) = self._calls([split], *_relation.head(length))
        return _web.probe(call, split.size, self.part(split, 0, length))
