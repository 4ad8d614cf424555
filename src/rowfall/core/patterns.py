"""Regular expressions of modules: each is compiled when it is first used.

A load imports modules with 180 of them and uses a third; to compile all took 37 of its CPU-ms.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    regex = re.compile
else:

    class regex:  # noqa: N801 - to type checkers it is re.compile
        """A compiled pattern, as :func:`re.compile` returns it, from the first use of it on."""

        __slots__ = (
            "_given", "findall", "finditer", "flags", "fullmatch", "groupindex", "groups", "match",
            "pattern", "search", "split", "sub", "subn",
        )  # fmt: skip

        def __init__(self, text, flags=0):  # noqa: ANN001, ANN204
            self._given = text, flags

        def __getattr__(self, name):  # noqa: ANN001, ANN204
            """Compile it, and put what it can do into the slots, which are empty until then."""
            compiled = re.compile(*self._given)
            for each in self.__slots__[1:]:
                setattr(self, each, getattr(compiled, each))
            return getattr(compiled, name)

        def __repr__(self):  # noqa: ANN204
            return f"regex({self._given[0]!r})"
