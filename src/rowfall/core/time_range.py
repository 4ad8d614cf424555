"""Ranges of the days and points in time that an engine holds, by its version. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.dataclass import dataclass

_WIDE_RELEASE = (26, 7)
"""The first release whose Date32 and DateTime64 have four digits of a year. Older ones print, and
compute with, the nearest day that they have: 2299-12-31 for 2500-01-01."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The days that Date32 and DateTime64 hold, as ``YYYY-MM-DD``.

    Date (1970-01-01 to 2149-06-06) and DateTime (to 2106-02-07) are the same in all versions.
    """

    first: str
    last: str

    def holds(self, *texts: str) -> bool:
        """Tell whether dates, or the dates of points in time, are within."""
        return all(self.first <= text[:10] <= self.last for text in texts)


NARROW = TimeRange("1900-01-01", "2299-12-31")
WIDE = TimeRange("0001-01-01", "9999-12-31")


def time_range(release: Sequence[int]) -> TimeRange:
    """Return the range of times of an engine; see :attr:`rowfall.core.model.Facts.release`."""
    return WIDE if tuple(release[:2]) >= _WIDE_RELEASE else NARROW
