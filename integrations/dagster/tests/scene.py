"""What the tests load: a folder with a project file."""

from __future__ import annotations

from pathlib import Path

PASSWORD = "WAREHOUSE_PASSWORD"


class ProjectFolder:
    """A folder with a ``rowfall.toml``.

    Attributes:
        path: the file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "rowfall.toml"

    def toml(self, text: str) -> None:
        self.path.write_text(text)

    def csv(self, name: str, *rows: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("id,total\n" + "".join(f"{row}\n" for row in rows))
