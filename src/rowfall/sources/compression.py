"""The compression of one object: the one rule of all who read it. Pure."""

from __future__ import annotations

from rowfall.core import formats
from rowfall.core.model import Encoding
from rowfall.core.patterns import regex

_PATH_PARAMETERS = regex(r"(?:;[^/;=]+=[^/;]*)+\Z")  # a.csv;jsessionid=1
_HTTP_PORT = regex(r"\?http=\d+\Z")


def compression_of(uri: str, declared: Encoding | str) -> str:
    """Return the compression of one object, as ``gzip``; ``none`` for none.

    What is declared for all objects holds: ``--compression``, the extension that all of them have,
    or what their first bytes have said instead (``stores/first_bytes.py`` puts that into the
    encoding before anything is read). Only where objects differ (``auto``) the extension of each
    one says it, as the engine goes by extensions, too. What a web server calls Content-Encoding
    does not count: it is asked for the stored bytes (``Accept-Encoding: identity``).

    Args:
        declared: an encoding, or its compression.
    """
    packed = declared if isinstance(declared, str) else declared.compression
    return formats.by_name(path_of(uri))[1] if packed == formats.AUTO else packed


def path_of(uri: str) -> str:
    """Return the part of a URI that ends with the extension: without its query."""
    if uri.startswith("hdfs://"):  # any other "?" is a wildcard
        return _HTTP_PORT.sub("", uri)
    if not uri.startswith(("http://", "https://")):
        return uri
    return _PATH_PARAMETERS.sub("", uri.partition("?")[0])
