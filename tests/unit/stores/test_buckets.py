"""Why a bucket cannot be listed, in the words of each store: answers of a service, and none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.sources import open_source

# URI, where the address comes from, what the hint names, and who asks.
STORES = {
    "s3": ("s3", "AWS_ENDPOINT_URL", "--s3-endpoint",
           {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden-0123"}),
    "gs-hmac": ("gs", "GOOGLE_BASE_URL", "GOOGLE_BASE_URL",
                {"GS_ACCESS_KEY_ID": "key", "GS_SECRET_ACCESS_KEY": "hidden-0123"}),
    "gs": ("gs", "GOOGLE_BASE_URL", "GOOGLE_BASE_URL", {}),
    "az": ("az", "AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ENDPOINT",
           {"AZURE_STORAGE_ACCOUNT_NAME": "lab", "AZURE_STORAGE_ACCOUNT_KEY": "aGlkZGVuLTAxMjM="}),
}  # fmt: skip


class Service:
    """Says the same to every request."""

    def __init__(self) -> None:
        self.status, self.code = 200, ""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f"<Error><Code>{service.code}</Code></Error>".encode()
                self.send_response(service.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.server.shutdown()
    service.server.server_close()


def failure(store: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> SourceError:
    scheme, variable, _, keys = STORES[store]
    for key, value in {**keys, variable: endpoint}.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(SourceError) as caught:
        open_source([f"{scheme}://bucket/*.csv"], Options(patience="1s")).listing()
    return caught.value


@pytest.mark.parametrize("store", STORES)
def test_an_answer_that_no_store_gives(
    store: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, _, named, _ = STORES[store]
    service.status, service.code = 418, "Teapot"
    error = failure(store, service.endpoint, monkeypatch)
    said = f"cannot list {scheme}://bucket: {service.endpoint} answered 418 Teapot"
    assert (error.message, error.transient) == (said, False)
    assert named in (error.hint or "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_is_busy(
    store: str, status: int, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.status, service.code = status, "SlowDown"
    error = failure(store, service.endpoint, monkeypatch)
    assert f"answered {status} SlowDown" in error.message
    assert (error.transient, error.hint) == (True, "Try again later.")


@pytest.mark.parametrize("store", STORES)
def test_nobody_answers(store: str, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.server.server_close()
    error = failure(store, service.endpoint, monkeypatch)
    assert f"no connection to {service.endpoint} (connection refused)" in error.message
    assert error.transient
    assert STORES[store][2] in (error.hint or "")


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (400, "ExpiredToken", "expired"),
        (403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
        (403, "AccessDenied", "s3:ListBucket"),
    ],
)
def test_s3_denies(
    status: int, code: str, hint: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.status, service.code = status, code
    error = failure("s3", service.endpoint, monkeypatch)
    assert f"access denied by {service.endpoint} ({code})" in error.message
    assert (hint in (error.hint or ""), error.transient) == (True, False)
