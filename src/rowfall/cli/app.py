"""Run one command line: it maps errors to exit codes."""

from __future__ import annotations

import os
import signal

from rowfall.cli import plain
from rowfall.cli.output import Output
from rowfall.core.errors import Exit, Interrupted, RowfallError


def run(arguments: list[str], began: float = 0.0) -> int:
    """Run one command line and return its exit code.

    Args:
        began: when the process did, as of ``time.monotonic``; 0 for now.
    """
    if "_ROWFALL_COMPLETE" in os.environ:
        # Shell completion is the only thing that click's own entry point is needed for.
        from rowfall.cli.commands import cli

        cli.main(arguments, prog_name="rowfall")
    output = Output(began)
    try:
        load = plain.read(arguments)
        if load is not None:
            code = load.run(output)
        else:
            from rowfall.cli.commands import invoke

            code = invoke(arguments, output)
        output.flush()
    except BrokenPipeError:
        # `rowfall plan ... | head`: whoever read our output has seen enough.
        output.abandon()
        return Exit.DONE
    except Exception as error:
        # One that was raised while the command line was read may have come before --json.
        output.json = output.json or "--json" in arguments
        return _failed(error, output)
    except KeyboardInterrupt:
        # Nothing is left to stop: a second one must not change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        output.error("interrupted", None, label="", code=Exit.INTERRUPTED)
        return Exit.INTERRUPTED
    finally:
        if output.log_file is not None:
            output.log_file.close()
    return code


def _failed(error: Exception, output: Output) -> int:
    """Say what went wrong and return the exit code for it."""
    if output.debug:
        import traceback

        output.help("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, RowfallError):
        label = "" if isinstance(error, Interrupted) else "error: "
        output.error(error.message, error.hint, label=label, code=error.exit)
        return error.exit
    output.error(
        f"this is a bug in rowfall: {type(error).__name__}: {error}",
        "Run it again with --debug and report what it prints.",
    )
    return Exit.BUG
