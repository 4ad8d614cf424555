"""A real Prometheus with its promtool: Debian's package, unpacked into a folder of its own."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import debian
from lab.process import Service, free_ports, reachable

_CONFIG = """global: {{scrape_interval: {every}, evaluation_interval: {every}}}
rule_files: [{rules}]
scrape_configs:
  - job_name: rowfall
    static_configs: [{{targets: [{targets}]}}]
"""


class Prometheus(Service):
    """One private server that scrapes given targets.

    Args:
        targets: ``host:port`` of each.
        rules: files of alert rules that it evaluates.
        every: between two scrapes, and two evaluations.
    """

    name = "prometheus"

    def __init__(
        self, targets: Sequence[str], rules: Sequence[Path] = (), every: str = "1s"
    ) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        copies = [self.folder / path.name for path in rules]
        for copy, path in zip(copies, rules, strict=True):
            copy.write_text(path.read_text())  # a checkout may be closed to its user
            self._own(copy)
        self._config = self.folder / "prometheus.yml"
        self._config.write_text(_CONFIG.format(
            every=every, rules=", ".join(map(str, copies)),
            targets=", ".join(f"'{target}'" for target in targets),
        ))  # fmt: skip
        self._own(self._config)

    def command(self) -> Sequence[str | Path]:
        return [
            programs() / "prometheus", f"--config.file={self._config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
        ]  # fmt: skip

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:  # 503 while it starts
            error.close()
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an expression gives now, each with ``metric`` and ``value``."""
        found: list[dict[str, Any]] = self._api("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        """The one number that an expression gives; None for none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def alerts(self) -> dict[str, str]:
        """Names of the alerts that are not quiet, with ``pending`` or ``firing``."""
        return {a["labels"]["alertname"]: a["state"] for a in self._api("alerts")["alerts"]}

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their ``health``."""
        return [rule for group in self._api("rules")["groups"] for rule in group["rules"]]

    def _api(self, path: str, **parameters: str) -> dict[str, Any]:
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(asked, timeout=30) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        return data


def programs() -> Path:
    """Return the folder of ``prometheus`` and ``promtool``."""
    return reachable(debian.unpacked("prometheus", "prometheus")) / "usr/bin"


def promtool(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool to its end; the code is the test's to judge."""
    return subprocess.run(
        [programs() / "promtool", *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
