"""Find the name that somebody most likely meant, for the hints of errors. Pure."""

from __future__ import annotations

from collections.abc import Iterable

# Of difflib's ratio: "laod" is 0.75 of "load", "tabel" 0.8 of "table", "aa" 0.67 of "a"; lower,
# names that have little in common are near each other.
_NEAR = 0.65


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to ``name`` in any case; None if none is near."""
    from difflib import get_close_matches  # 3 ms that nobody waits for who types well

    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_lower, 1, _NEAR)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Return ``Did you mean NAME? ``, to put in front of a hint; "" if no name is near.

    Args:
        before: in front of the name, as in ``--to ``.
    """
    found = nearest(name, known)
    return f"Did you mean {before}{found}? " if found else ""
