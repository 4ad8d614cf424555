"""What earlier runs have left: the load to go on with, and a table that is better made anew."""

from __future__ import annotations

import hashlib
import json
import os
import secrets as random
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rowfall.core.errors import UsageError
from rowfall.core.model import Statement
from rowfall.core.options import changed
from rowfall.engines.ask import table_uuid
from rowfall.engines.base import Engine
from rowfall.ledger import Ledger, LoadRow
from rowfall.plan.session import Session
from rowfall.run import empty_tables
from rowfall.targets import staging


def choose_load(session: Session, ledger: Ledger, active: Collection[str]) -> str:
    """The unfinished load of the same sources into the same table, or a new one.

    Args:
        active: loads that this process runs now: another thread's load is no unfinished one.

    Raises:
        UsageError: it has landed something and was run with options that read otherwise.
    """
    # By absolute paths: rowfall resume knows the load again from any folder.
    sources = [os.path.abspath(s) if "://" not in s and s != "-" else s for s in session.sources]
    # A forced load is another one: it loads what the others have landed.
    text = json.dumps([sorted(sources), session.target_key, session.options.force])
    request_print = hashlib.blake2b(
        text.encode("utf-8", "surrogateescape"), digest_size=16
    ).hexdigest()
    given = changed(session.options)
    old = ledger.unfinished(request_print) if session.source.replayable else None
    if old is not None and old.id in active:
        old = None
    if old is not None:
        _same_options(old, given, ledger)
    request = json.dumps({
        "sources": sources,
        "folder": os.getcwd(),
        "to": str(session.target.folder or session.target.text),
        "table": session.table_text or None,
        "options": {k: v for k, v in given.items() if k not in ("force", "verify")},
    })  # fmt: skip
    if old is not None and ledger.take_up(old, request):
        return old.id
    load_id = random.token_hex(5)
    ledger.begin(
        load_id,
        request_print,
        session.source.text,
        session.target.text,
        session.target_key,
        request,
    )
    return load_id


# What decides how bytes become rows, or where they gather: half a load in each way is no load.
_BINDING = ("format", "compression", "delimiter", "atomic", "replace")


def _same_options(old: LoadRow, given: Mapping[str, Any], ledger: Ledger) -> None:
    if not ledger.landed_by(old.id):
        return
    before = json.loads(old.request)["options"]
    differ = [
        _difference(f"--{name.replace('_', '-')}", before.get(name), given.get(name))
        for name in _BINDING
        if before.get(name) != given.get(name)
    ]
    if differ:
        raise UsageError(
            f"load {old.id} of these files is unfinished and was run with other options: "
            + "; ".join(differ),
            hint=f"Give the same options to go on, or begin anew after rowfall forget {old.id}.",
        )


def _difference(option: str, before: object, now: object) -> str:
    """An option that was given otherwise, in words; flags are True, None is "not given"."""
    if True in (before, now):
        return f"{option} was {'' if before else 'not '}given, now it is{'' if now else ' not'}"
    was = "not given" if before is None else before
    return f"{option} was {was}, now it is {'not given' if now is None else now}"


def drop_own_empty_table(session: Session, ledger: Ledger, load_id: str) -> Session:
    """Drop a table that a failed load made and left empty: its types may be wrong.

    Returns:
        The session, with the tables as they are afterwards.
    """
    database, table = session.first_target.database, session.first_target.table
    shards = session.shards
    places: dict[str, Engine] = {"": session.engine}
    if shards is not None:
        if len(shards.cluster.up) < len(shards.cluster.nodes):
            return session  # a node that is away would keep its own
        places = {node.address: shards.connect(node) for node in shards.cluster.nodes}
    shared = session.target.server is not None
    if not empty_tables.is_untouched(
        places, ledger, database, table, load_id=load_id, journal=shared
    ):
        return session
    uuid = table_uuid(session.engine, database, table)
    for place, *name in empty_tables.in_order(places, ledger, database, table, uuid):
        places[place].run(Statement(staging.drop(*name)))
    if shards is not None:
        return replace(session, shards=replace(shards, tables=shards.find_tables()))
    return session
