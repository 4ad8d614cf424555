"""Writes src/rowfall/decoder/abilities_table.py: what rowfall-decode says that it can do.

Run it with a rowfall-decode of this tree installed. tests/contract/test_abilities.py fails where
the file is not what it would write.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from rowfall.decoder import installed

FILE = Path(__file__).parents[1] / "src/rowfall/decoder/abilities_table.py"
HEAD = '''"""Abilities of rowfall-decode, as ``rowfall-decode --abilities`` says it.

Made by ``python docs/make_abilities.py``, so that plans start no process; not edited by hand.
"""

from __future__ import annotations

from typing import Any

ABILITIES: dict[str, Any] = '''


def told() -> dict[str, Any]:
    """What the program says."""
    command = [str(installed.program()), "--abilities"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def text(abilities: dict[str, Any]) -> str:
    """The file."""
    lines = ["{"]
    for name, value in sorted(abilities.items()):
        if isinstance(value, dict):
            lines.append(f'    "{name}": {{')
            lines += [f'        "{key}": {_list(of, 8)},' for key, of in value.items()]
            lines.append("    },")
        else:
            lines.append(f'    "{name}": {_list(value, 4)},')
    return HEAD + "\n".join([*lines, "}"]) + "  # fmt: skip\n"


def _list(value: Any, indent: int) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    lines, line = [], ""
    for item in value:
        word = json.dumps(item) + ","
        if indent + 4 + len(line) + 1 + len(word) > 100:
            lines.append(line)
            line = ""
        line += f" {word}" if line else word
    lines.append(line)
    before = " " * (indent + 4)
    return "(\n" + "".join(f"{before}{one}\n" for one in lines if one) + " " * indent + ")"


if __name__ == "__main__":
    FILE.write_text(text(told()), encoding="utf-8")
