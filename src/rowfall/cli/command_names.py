"""The names of all commands, in the order in which they are listed."""

from __future__ import annotations

COMMANDS = (
    "load", "export", "worker", "run", "watch", "pipeline", "plan", "query", "status", "tables",
    "report", "explain", "verify", "resume", "adopt", "forget", "undo", "clean", "init", "config",
    "doctor", "tune", "scale", "bench", "mcp", "install-decoder", "lab", "completion", "help",
)  # fmt: skip
