"""Schemas of messages from a registry that speaks Confluent's protocol, asked once for each."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.masked import Secret
from rowfall.systems.kafka.messages import BrokenMessageError

# Magic byte and id, in front of the values of a message.
PREFIX = 5
# A registry answers within milliseconds.
_TIMEOUT = 15


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One schema.

    Attributes:
        text: of it. ``references``: what it imports, by the name that it uses.
    """

    text: str
    references: Mapping[str, str]


class SchemaRegistry:
    """The registry of one topic.

    Args:
        given: ``url``, and ``user`` and ``password`` where it wants them.
        kind: of schemas: AVRO or PROTOBUF.
    """

    def __init__(self, given: Mapping[str, str], kind: str) -> None:
        if "url" not in given:
            raise UsageError(
                f"messages of {kind.title()} need the schema registry",
                hint="Name it: kafka://host:9092/topic?schema.registry.url=http://host:8081",
            )
        self.url = given["url"].rstrip("/")
        self._user = given.get("user", "")
        self._password = Secret(given.get("password", ""))
        self._kind = kind
        self._known: dict[int, RegisteredSchema] = {}

    def schema(self, id_: int) -> RegisteredSchema:
        """Return the schema with an id.

        Raises:
            SourceError: there is none of this kind, or the registry does not answer.
        """
        if id_ not in self._known:
            what = f"the schema {id_}"
            document = self._ask(f"/schemas/ids/{id_}", what)
            kind = document.get("schemaType", "AVRO")
            if kind != self._kind:
                raise SourceError(f"{what} of {self.url} is {kind}")
            found: dict[str, str] = {}
            self._follow(document, found)
            self._known[id_] = RegisteredSchema(str(document["schema"]), found)
        return self._known[id_]

    def _follow(self, document: Mapping[str, Any], found: dict[str, str]) -> None:
        """Add what a schema imports, and what that imports."""
        for one in document.get("references") or ():
            if one["name"] not in found:
                path = f"/subjects/{quote(one['subject'], safe='')}/versions/{one['version']}"
                answer = self._ask(path, f"the schema {one['subject']}")
                found[one["name"]] = str(answer["schema"])
                self._follow(answer, found)

    def _ask(self, path: str, what: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path)  # noqa: S310 - the user's own address
        if self._user:
            login = base64.b64encode(f"{self._user}:{self._password.reveal()}".encode()).decode()
            # It stays behind where the registry redirects to another address.
            request.add_unredirected_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                document: dict[str, Any] = json.load(answer)
                return document
        except (OSError, ValueError) as error:
            known = False
            if isinstance(error, HTTPError):
                error.close()
                known = error.code < 500
            raise SourceError(
                f"cannot read {what} of {self.url}: {error}",
                hint="Check schema.registry.url, schema.registry.user and .password.",
                transient=not known,
            ) from None


def id_of(message: Any) -> int:
    """Return the id of the schema that a message was written with.

    Raises:
        BrokenMessageError: it has none.
    """
    value = message.value()
    if value[0] or len(value) < PREFIX:
        raise BrokenMessageError(
            message.offset(), "it does not begin with the id of a schema", value
        )
    return int.from_bytes(value[1:PREFIX], "big")


def newest_id(messages: list[Any]) -> int:
    """Return the highest id of messages; 0 of none. What is broken fails with its range.

    Raises:
        BrokenMessageError: no message has an id.
    """
    newest, broken = 0, None
    for message in messages:
        if message.value():
            try:
                newest = max(newest, id_of(message))
            except BrokenMessageError as error:
                broken = error
    if broken is not None and not newest:
        raise broken
    return newest
