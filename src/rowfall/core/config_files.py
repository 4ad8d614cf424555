"""Where ``rowfall.toml`` is looked for. Few imports: every command looks, and most find none."""

from __future__ import annotations

import os

from rowfall.core.errors import UsageError

NAME = "rowfall.toml"
VARIABLE = "ROWFALL_CONFIG"


def find_files(config: str | None = None) -> list[str]:
    """Return the paths of the files that are there, those that win first.

    That of ``config`` or ROWFALL_CONFIG, else ``rowfall.toml`` of the current folder or of the
    nearest folder above that has one; then that of the user.

    Raises:
        UsageError: the file that was named is not there.
    """
    named = config or os.environ.get(VARIABLE)
    here = os.getcwd()
    own: str | None = None
    if named:
        own = os.path.join(here, os.path.expanduser(named))
        if not os.path.isfile(own):
            said = "is a folder" if os.path.isdir(own) else "is not there"
            raise UsageError(
                f"{'--config' if config else VARIABLE} {named}: the file {said}",
                hint=f"Without it, {NAME} is looked for here and in the folders above.",
            )
    else:
        folder = here
        while own is None:
            if os.path.isfile(found := os.path.join(folder, NAME)):
                own = found
            above = os.path.dirname(folder)
            if above == folder:
                break
            folder = above
    found_files = [path for path in (own, user_file()) if path is not None and os.path.isfile(path)]
    return list(dict.fromkeys(map(os.path.normpath, found_files)))


def user_file() -> str:
    """Return the path of the user's own file, which need not be there."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "rowfall", NAME)
