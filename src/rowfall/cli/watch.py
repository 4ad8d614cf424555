"""``rowfall watch``: follow a pipeline of the project file in the foreground."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from rowfall.cli.app import command, complete, option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit
from rowfall.core.signals import ending

if TYPE_CHECKING:
    from rowfall.service.pipeline import Pipeline
    from rowfall.service.watcher import Watcher

# A batch of seconds may end; a longer one is taken back, which takes two more, and connections and
# engines are closed: ten seconds in all.
GRACE_SECONDS = 5.0


@command
@click.argument("name", metavar="NAME", shell_complete=complete("named_pipelines"))
@option(
    "--stop-on-error", is_flag=True, group="Pipeline",
    help="End at the first file that cannot be loaded. Default: it is left out and told of, and "
    "the others go on.",
)  # fmt: skip
@option(
    "--background", is_flag=True, hidden=True, group="Pipeline",
    help="Be the one that 'rowfall pipeline start' has started.",
)  # fmt: skip
@click.pass_obj
def watch(output: CommandOutput, /, name: str, stop_on_error: bool, background: bool) -> int:
    """Follow a pipeline of rowfall.toml.

    \b
      rowfall watch orders

    It goes on until Ctrl-C or SIGTERM. Of several watchers of one pipeline, on one machine or on
    many, one follows; the others stand by and take over within ten seconds when it dies. 'rowfall
    pipeline start' runs it in the background.
    """
    with ExitStack() as stack:
        pipeline = stack.enter_context(opened(output, name))
        from rowfall.service.background import as_background, turn_log
        from rowfall.service.watcher import Watcher, now
        from rowfall.telemetry.open import Watching, watched

        if background:
            stack.enter_context(as_background(pipeline, now()))
        options = pipeline.named.options
        told = stack.enter_context(output.listener(busy=""))  # its notes tell
        watching = Watching(
            options.metrics_port, options.metrics_host, pipeline=name, streaming=True
        )
        emit = stack.enter_context(watched(told, watching))
        watcher = Watcher(pipeline, emit, stop_on_error=stop_on_error or options.stop_on_error)
        if background:
            stack.enter_context(_each_minute(lambda: turn_log(pipeline)))
        with _ended_by_signals(watcher):
            watcher.run()
    output.talk(f"pipeline {name}: stopped")
    return Exit.DONE


@contextmanager
def opened(output: CommandOutput, name: str) -> Iterator[Pipeline]:
    """Find a pipeline of the project file, and run in the folder of that.

    Raises:
        UsageError: there is none of that name, or it says something that makes no sense.
    """
    from rowfall.project import find_project

    named = find_project(output.config).pipeline(name)
    from rowfall.service.pipeline import in_folder, open_pipeline

    with in_folder(named.folder):
        yield open_pipeline(named)


@contextmanager
def _ended_by_signals(watcher: Watcher) -> Iterator[None]:
    """Let what ends a load end a watcher: after its batch, or with it after some seconds."""
    # To the main thread itself: a signal of another thread wakes no call that it waits in, such as
    # for the end of a hook.
    main = threading.get_ident()  # only the main thread may set handlers
    timer = threading.Timer(GRACE_SECONDS, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.daemon = True
    came = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came += 1
        watcher.stop()
        if came == 1:
            timer.start()
        elif came == 2:
            raise KeyboardInterrupt

    before = {each: signal.signal(each, stop) for each in ending()}
    try:
        yield
    finally:
        came = 2  # what comes now changes nothing
        timer.cancel()
        for each, handler in before.items():
            signal.signal(each, signal.SIG_IGN if watcher.stopping else handler)


@contextmanager
def _each_minute(do: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(60):
            do()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
