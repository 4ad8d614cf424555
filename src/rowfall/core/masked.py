"""Secrets that mask themselves: they never enter a log, the ledger, a report or printed SQL."""

from __future__ import annotations

import re
from typing import final

from rowfall.core.patterns import regex

MASK = "[HIDDEN]"


@final
class Secret:
    """A string that shows as ``[HIDDEN]`` everywhere except through :meth:`reveal`.

    Not a ``str`` subclass on purpose: f-strings, ``json`` and ``logging`` must never see the value.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the real value; only engines and object-store clients may call this."""
        return self._value

    def __repr__(self) -> str:
        return "Secret([HIDDEN])"

    def __str__(self) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret cannot be pickled")


# Engines repeat addresses in a form of their own: one of several in braces, encoded another way.
_PARAMETER = regex(
    r"([?&][\w.-]*(?:password|passwd|secret|token|signature|credential|sig)=)[^&\s'\")]+", re.I
)


def redact(text: str, *secrets: Secret | None) -> str:
    """Return ``text`` with every given secret masked: for foreign text (engine errors).

    Parameters of addresses whose name says secret are masked whatever is given.
    """
    text = _PARAMETER.sub(rf"\1{MASK}", text)
    for secret in secrets:
        # Shorter values would punch holes into ordinary words and give away nothing anyway.
        if secret is not None and len(secret.reveal()) >= 4:
            text = text.replace(secret.reveal(), MASK)
    return text
