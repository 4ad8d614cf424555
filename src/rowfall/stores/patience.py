"""How long a service that is busy or away is asked again: ``--patience``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rowfall.core.errors import CutOffError, NotReachedError, ObjectChangedError, SourceError
from rowfall.core.options import Options
from rowfall.core.retry import pause
from rowfall.core.units import parse_duration

_Found = TypeVar("_Found")
# A service that gives less than it promises three times in a row is not away.
_MOST_CUT = 3


class Patience:
    """Asks one service; safe for several threads.

    Who never reaches it has most often a wrong address, and hears so at once. When it has answered
    before, or answers that it is busy, it is there and asked again.

    Args:
        seconds: for each question, without an answer.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._answered = False

    @staticmethod
    def of(options: Options) -> Patience:
        """Return the patience of as many seconds as ``--patience`` gives."""
        return Patience(parse_duration(options.patience))

    def ask(self, question: Callable[[], _Found]) -> _Found:
        """Return the answer to a question, which is asked again while that may help.

        Raises:
            SourceError: it stays unanswered, or the answer is one that lasts.
        """
        waiting = self.begin()
        while True:
            try:
                found = question()
            except SourceError as error:
                waiting.after(error)
            else:
                self.heard()
                return found

    def begin(self) -> QuestionRetries:
        """Return the count of one question."""
        return QuestionRetries(self, self._seconds)

    def heard(self) -> None:
        """Remember that the service is there."""
        self._answered = True

    def lasts(self, error: SourceError) -> bool:
        """Tell whether asking again would not help."""
        unreached = isinstance(error, NotReachedError)
        self._answered = self._answered or not unreached
        changed = isinstance(error, ObjectChangedError)
        return changed or not error.transient or (unreached and not self._answered)


class QuestionRetries:
    """Counts the tries of one question."""

    def __init__(self, patience: Patience, seconds: float) -> None:
        self._patience, self._seconds = patience, seconds
        self._tries, self._since = 0, time.monotonic()

    def progress(self) -> None:
        """Begin anew: some of the answer has come."""
        self._tries, self._since = 0, time.monotonic()
        self._patience.heard()

    def after(self, error: SourceError) -> None:
        """Wait before the next try.

        Raises:
            SourceError: ``error``, where no other try is due.
        """
        self._tries += 1
        wait = max(pause(self._tries), error.ask_after or 0.0)
        left = self._since + self._seconds - time.monotonic()
        # A try that failed by a timeout may have taken more than all of it: one more is due.
        if isinstance(error, CutOffError) and self._tries >= _MOST_CUT:
            raise error
        if self._patience.lasts(error) or (left < wait and (self._tries > 1 or not self._seconds)):
            raise error
        time.sleep(wait)
