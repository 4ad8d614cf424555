"""Addresses of topics: ``kafka://host:port[,host:port]/topic?property=value``."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import parse_qsl, unquote

from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret, is_shown
from rowfall.core.patterns import regex

_URI = regex(r"kafka://(?:(?P<user>[^/?#]*)@)?(?P<hosts>[^/?#@]+)/(?P<topic>[^/?#]+)"
                  r"(?:\?(?P<query>.*))?", re.I)  # fmt: skip
_HINT = "Write kafka://host:9092/topic, or kafka://a:9092,b:9092/topic."
_PASSWORD = "KAFKA_SASL_PASSWORD"  # noqa: S105 - the name of a variable
_REGISTRY = "schema.registry."


def is_secret(name: str, value: str) -> bool:
    """Tell whether a property of librdkafka may hold a secret (``ssl.key.pem``, ...)."""
    return name != "sasl.username" and not is_shown(name, value, web=False)


def parse(text: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return the topic, the properties of librdkafka, and those of the schema registry.

    Raises:
        UsageError: no topic, or no host.
    """
    found = _URI.fullmatch(text)
    if found is None:
        raise UsageError(f"{uri.mask(text)!r} names no brokers and topic", hint=_HINT)
    topic = unquote(found["topic"])
    given = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    registry = {k.removeprefix(_REGISTRY): v for k, v in given.items() if k.startswith(_REGISTRY)}
    config: dict[str, Any] = {k: v for k, v in given.items() if not k.startswith(_REGISTRY)}
    config["bootstrap.servers"] = found["hosts"]
    user, colon, password = (found["user"] or "").partition(":")
    if user:
        config.setdefault("sasl.username", unquote(user))
        config.setdefault("security.protocol", "SASL_SSL")
        config.setdefault("sasl.mechanism", "PLAIN")
    secret = unquote(password) if colon else os.environ.get(_PASSWORD)
    if secret and "sasl.username" in config:
        config.setdefault("sasl.password", Secret(secret))
    for name in config:
        if isinstance(config[name], str) and is_secret(name, config[name]):
            config[name] = Secret(config[name])
    return topic, config, registry
