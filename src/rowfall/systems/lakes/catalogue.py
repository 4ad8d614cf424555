"""Says what helps where a catalogue of Iceberg tables cannot be used, to sources and targets."""

from __future__ import annotations


def opening_hint(catalogue: str, error: Exception) -> str:
    """Return what helps where pyiceberg could not open a catalogue of its configuration."""
    # Its kinds need libraries of their own, and their errors end in the command: Glue is boto3.
    _, _, command = str(error).partition("not installed: ")
    return command or (
        "Catalogues are configured in ~/.pyiceberg.yaml or by "
        f"PYICEBERG_CATALOG__{catalogue.upper()}__URI and its like."
    )


def creation_hint(catalogue: str, error: Exception) -> str | None:
    """Return what helps where a catalogue does not know where a new table is to lie; else None."""
    if "No default path" not in str(error):
        return None
    return (
        f"Set PYICEBERG_CATALOG__{catalogue.upper()}__WAREHOUSE (or warehouse in "
        "~/.pyiceberg.yaml) to the bucket or folder for new tables."
    )
