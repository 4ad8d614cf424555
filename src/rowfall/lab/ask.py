"""Statements for a server of the lab, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode

from rowfall.lab.process import LabError


def ask(
    port: int,
    user: str,
    password: str,
    sql: str,
    *,
    body: bytes | None = None,
    settings: Mapping[str, str | int] | None = None,
    timeout: float = 60,
) -> str:
    """Run one statement on 127.0.0.1; ``body`` holds the rows of an INSERT.

    Raises:
        LabError: the server said no; the message is the server's.
        OSError: it cannot be reached.
    """
    parameters = {"wait_end_of_query": 1, **(settings or {})}
    if body is not None:
        parameters["query"] = sql
    # Not urllib, which would ask the proxy of the environment.
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(
            "POST",
            f"/?{urlencode(parameters)}",
            body=sql.encode() if body is None else body,
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
        )
        with connection.getresponse() as answer:
            text = answer.read().decode(errors="replace")
    except HTTPException as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise LabError(text.strip())
    return text
