"""Put off modules of the standard library that others import and a load does not use."""

from __future__ import annotations

import sys
from _thread import RLock
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# dataclasses looks at signatures of classes without a docstring, urllib.parse at addresses in
# brackets, subprocess at the locale where it decodes text.
UNUSED = ("inspect", "ipaddress", "locale")


class Late(ModuleType):
    """A module whose code is executed when something of it is used.

    That of importlib is executed by the next ``import`` of it.
    """

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__, self.__loader__, self.__file__ = spec, spec.loader, spec.origin
        self._guard: RLock | None = RLock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # who asks for these looks at modules, whatever they hold
        guard = self._guard
        assert guard is not None and self.__loader__ is not None  # noqa: S101, PT018 - as it is made
        with guard:  # other threads wait until all of it is there
            if type(self) is Late:
                if "_executing" in self.__dict__:
                    raise AttributeError(name)
                self._executing = True
                self.__loader__.exec_module(self)  # type: ignore[attr-defined]
                self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


def put_off() -> None:
    """Make each module of :data:`UNUSED` a late one: 9 CPU-ms."""
    for name in UNUSED:
        spec = None if name in sys.modules else PathFinder.find_spec(name)
        if spec is not None and spec.loader is not None:
            sys.modules[name] = Late(spec)
