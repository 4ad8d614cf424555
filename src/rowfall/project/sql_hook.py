"""The process that runs the SQL of a hook: a request on stdin, what went wrong on stdout.

It is a process of its own because a statement cannot be ended from outside in every client, and its
password comes through a pipe, which nobody else reads.
"""

from __future__ import annotations

import json
import os
import sys

from rowfall.core.errors import RowfallError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.signals import terminable
from rowfall.destinations.query import NO_ROWS, run_query
from rowfall.targets import open_target


def main() -> int:
    """Run the statements one after the other; return the exit code of the first that fails."""
    asked = json.loads(sys.stdin.read())
    password = None if asked["password"] is None else Secret(asked["password"])
    out = os.open(os.devnull, os.O_WRONLY)
    for number, text in enumerate(asked["sql"], 1):
        try:
            target = open_target(asked["to"], "any", Options(), password)
            with terminable():  # a statement that is given up is ended in its server
                run_query(target, text, NO_ROWS, write=True, out_fd=out)
        except RowfallError as error:
            which = f"statement {number} of {len(asked['sql'])}: " if len(asked["sql"]) > 1 else ""
            sys.stdout.write(f"{which}{error.message}\n")
            return int(error.exit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
