"""The sentence on what limited a load fits what was done, whatever source and target are."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from rowfall.run.limits import SHORT_SECONDS, Effort, EngineEffort, SourceTraits, limited_by

READING = {"read": 15.0, "convert": 1.0, "insert": 3.0, "publish": 0.5}
WRITING = {"read": 2.0, "convert": 1.0, "insert": 15.0, "publish": 0.5}


def changed(effort: Effort, **facts: Any) -> Effort:
    """Return an effort with other facts, in whichever part of it they are."""
    for name, part in (("engine", effort.engine), ("source", effort.source)):
        own = {fact: facts.pop(fact) for fact in [*facts] if hasattr(part, fact)}
        facts[name] = replace(part, **own)
    return replace(effort, **facts)


BUSY = Effort(10.0, EngineEffort(19.0, 2), SourceTraits(objects=2), phases=READING)
IDLE = changed(BUSY, cpu=3.0)
SERVER = changed(BUSY, server=True, cores=16, cores_here=2)


@pytest.mark.parametrize(
    ("effort", "sentence"),
    [
        (BUSY, "The CPU: 1.9 of 2 cores busy, mostly parsing and converting (82 %)."),
        (changed(BUSY, packed=True),
         "The CPU: 1.9 of 2 cores busy, mostly unpacking, parsing and converting (82 %)."),
        (changed(BUSY, text=False),
         "The CPU: 1.9 of 2 cores busy, mostly decoding and converting (82 %)."),
        (changed(BUSY, phases=WRITING),
         "The CPU: 1.9 of 2 cores busy, mostly sorting, compressing and writing (81 %)."),
        (changed(BUSY, cores=1, cpu=9.9),
         "The CPU: 1.0 of 1 core busy, mostly parsing and converting (82 %)."),
        (changed(BUSY, generated=True, phases=WRITING, target="files"),
         "The CPU: 1.9 of 2 cores busy, mostly formatting and writing (81 %)."),
        (changed(BUSY, generated=True, target="nothing"),
         "The CPU: 1.9 of 2 cores busy, mostly making the rows (82 %)."),
        (changed(BUSY, phases={}), "The CPU: 1.9 of 2 cores busy."),
        (changed(IDLE, waited=16.0), "Other processes: the load got only 0.3 of 2 cores."),
        (IDLE, "Waiting for the source disk: 0.3 of 2 cores busy while it was read."),
        (changed(IDLE, remote=True),
         "Waiting for the network or the object store: 0.3 of 2 cores busy while it was read."),
        (changed(IDLE, remote=True, streamed=True, blocks=False),
         "Not the CPU: 0.3 of 2 cores busy; the network or the source held it up."),
        (changed(IDLE, phases=WRITING),
         "The target disk: 0.3 of 2 cores busy while it was written."),
        (changed(IDLE, generated=True),
         "The target disk: 0.3 of 2 cores busy while it was written."),
        # What rowfall-decode counts are CPU seconds: they do not say where it waited.
        (changed(IDLE, blocks=False),
         "Not the CPU: 0.3 of 2 cores busy; a disk or other processes held it up."),
        (changed(BUSY, cpu=9.0, objects=1),
         "Too few files: 1 file keeps 1 of 2 cores busy; more and smaller files load faster."),
        (changed(SERVER, cpu=150.0),
         "The server's CPU: 15.0 of 16 cores busy, mostly parsing and converting (82 %)."),
        (changed(SERVER, cpu=0.0), "Not known: this user may not read the server's query_log."),
        (changed(SERVER, cpu=5.0, phases={}, remote=True),
         "Not the server's CPU: 0.5 of 16 cores busy; the network or the object store held it up."),
        (changed(SERVER, cpu=5.0, phases={}, here=18.0),
         "The CPU of this machine: 1.8 of 2 cores busy here, reading and sending; "
         "0.5 of 16 cores busy on the server."),
        (changed(SERVER, cpu=0.0, phases={}, here=5.0),
         "Not the CPU of this machine: 0.5 of 2 cores busy here, reading and sending; the server's "
         "share is not known, as this user may not read its query_log."),
        (changed(BUSY, phases={"publish": 9.0, "insert": 11.0}),
         "Publishing: attaching the parts took 45 % of the working time."),
        (changed(BUSY, phases={"publish": 9.0, "insert": 11.0}, partitioned=True),
         "Publishing: many parts had to be attached; a coarser partition key makes fewer."),
        (changed(BUSY, seconds=0.08), "Start-up and bookkeeping: the rows themselves took 0.08 s."),
        (changed(IDLE, few=True), "Start-up and bookkeeping: the rows themselves took 10.0 s."),
        (changed(BUSY, seconds=0.0), ""),
    ],
)  # fmt: skip
def test_sentence(effort: Effort, sentence: str) -> None:
    assert limited_by(effort) == sentence


def test_no_sentence_speaks_of_what_was_not_done() -> None:
    choices = itertools.product(
        (0.2, 10.0), (0.0, 4.0, 19.0), (1, 2, 16), (False, True), (None, 0.0, 19.0),
        ({}, READING, WRITING), (False, True), ("table", "files", "nothing"), (False, True), (1, 2),
        (False, True),
    )  # fmt: skip
    for (
        seconds, cpu, cores, server, here, phases, generated, target, remote, objects, blocks
    ) in choices:  # fmt: skip
        effort = Effort(
            seconds, EngineEffort(cpu, cores, server, blocks=blocks),
            SourceTraits(generated, remote=remote, objects=objects), here if server else None, 2,
            phases, target,
        )  # fmt: skip
        text = limited_by(effort)
        assert text.endswith("."), effort
        assert "1 cores" not in text
        assert "  " not in text
        if generated:
            assert not any(word in text for word in ("parsing", "source disk", "files")), text
        if target != "table":
            assert "sorting" not in text
            assert "partition" not in text
        if not server:
            assert "server" not in text
        if generated and target == "nothing" and not server:
            assert "disk" not in text, effort
        if seconds < SHORT_SECONDS:
            assert text.startswith("Start-up")
