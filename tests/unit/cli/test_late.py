"""Modules that are executed when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rowfall

CODE = """
import sys, threading
from rowfall.cli.late import UNUSED, put_off
for name in UNUSED:
    sys.modules.pop(name, None)
put_off()
import dataclasses, inspect, ipaddress, locale, urllib.parse
assert "ast" not in sys.modules and "signature" not in vars(inspect)
found = []
threads = [threading.Thread(target=lambda: found.append(inspect.signature)) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
assert found == [inspect.signature] * 8 and sys.modules["inspect"] is inspect
assert type(inspect) is type(sys) and inspect.getsource(put_off).startswith("def put_off")
from ipaddress import ip_address
assert str(ip_address("::1")) == "::1" and locale.getpreferredencoding(False)
try:
    locale.nothing
except AttributeError:
    print("good")
"""


def test_a_late_module_is_the_module_once_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", CODE], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(rowfall.__file__).parents[1])}, timeout=60,
    )  # fmt: skip
    assert done.stdout == "good\n", done.stderr
