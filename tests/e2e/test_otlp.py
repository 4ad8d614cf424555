"""Real loads, exported to a real OpenTelemetry collector."""

from __future__ import annotations

import pytest

from e2e.tools import Shell
from lab.otelcol import Collector, Receiver
from lab.process import free_ports


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first run on a machine builds it: three minutes of two cores
def test_a_load_reaches_a_real_collector(shell: Shell) -> None:
    shell.ok("load", "generate://taxi?rows=200_000", "--to", "in/{n}.csv.gz")
    with Receiver() as receiver, Collector(receiver.url) as collector:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "loads",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        }  # fmt: skip
        done = shell.cli("load", "in/*.csv.gz", "--table", "t", "--verify", env=env)
        assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
        spans, metrics = receiver.spans(), receiver.metrics()
    names = [span["name"] for span in spans]
    assert names.count("load") == 1
    assert {"plan", "prepare", "attempts", "attempt", "publish", "finish", "verify"} <= {*names}
    (load,) = (span for span in spans if span["name"] == "load")
    assert load["attributes"]["rowfall.rows"] == 200_000
    assert load["attributes"]["rowfall.outcome"] == "done"
    whole = [int(load[f"{end}TimeUnixNano"]) for end in ("start", "end")]
    for span in spans:
        assert whole[0] <= int(span["startTimeUnixNano"]) + 2_000_000
        assert int(span["endTimeUnixNano"]) <= whole[1]
    assert [value for _, value in metrics["rowfall.rows"]] == [200_000]
    assert {each["service.name"] for each in receiver.resources()} == {"loads"}


def test_a_collector_that_is_away_does_not_fail_a_load(shell: Shell) -> None:
    (port,) = free_ports(1)
    shell.write("t.csv", "a\n1\n")
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    done = shell.cli("load", "t.csv", env=env)
    assert done.returncode == 0
    assert done.stderr.count("warning: ") == 1
    assert f"warning: traces or metrics do not reach 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
