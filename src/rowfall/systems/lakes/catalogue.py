"""Catalogues of Iceberg's tables, as pyiceberg's configuration names them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from rowfall.core import uri
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.options import Options
from rowfall.systems.lakes.files import CatalogueFiles, TableFiles

if TYPE_CHECKING:
    from pyiceberg.table import Table

HOW_TO_NAME = (
    "Write iceberg+s3://bucket/path/table, iceberg+/path/table, or "
    "iceberg://CATALOG/namespace.table"
)
FUNCTIONS = ("icebergLocal", "icebergS3")
"""The engine's readers of Iceberg's tables, in local folders and in S3."""


def catalogue_and_name(text: str) -> tuple[str, str]:
    """Return catalogue and table name of ``iceberg://CATALOG/namespace.table``.

    Raises:
        UsageError: it names no table.
    """
    catalogue, _, name = text.partition("://")[2].partition("/")
    if not catalogue or "." not in name:
        raise UsageError(f"{uri.mask(text)!r} names no table", hint=f"{HOW_TO_NAME}.")
    return catalogue, name


class TableCatalogue(Protocol):
    """Catalogue that knows the newest state of one table, and lets one commit win."""

    def table(self) -> Table | None:
        """Return the table as it is now; None where there is none."""

    def files(self, table: Table) -> TableFiles:
        """Return the object that reads and writes files of the table."""

    def make(self, schema: Any, spec: Any, order: Any) -> None:
        """Make the table; another one may make it at the same time, then that one is it."""

    def name_newest(self) -> None:
        """Finish what a commit that was killed has left."""

    def erase(self) -> None:
        """Remove a scratch table with all its files, if it exists."""


class NamedTable:
    """One table of a catalogue of pyiceberg's configuration.

    Args:
        refused: class of the error about a catalogue that cannot be opened.

    Raises:
        UsageError, SourceError: no such catalogue is configured; of the class ``refused``.
    """

    def __init__(
        self, catalogue: str, name: str, options: Options, refused: type[RowfallError]
    ) -> None:
        self._catalogue, self._name = catalogue, name
        self._opened = open_catalogue(catalogue, options, refused)

    def table(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            found: Table = self._opened.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        return found

    def files(self, table: Table) -> TableFiles:
        return CatalogueFiles(table.io)

    def make(self, schema: Any, spec: Any, order: Any) -> None:
        """See :class:`TableCatalogue`.

        Raises:
            TargetError: there is no such namespace.
        """
        from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

        with suppress(TableAlreadyExistsError):
            try:
                self._opened.create_table(self._name, schema, partition_spec=spec, sort_order=order)
            except NoSuchNamespaceError:
                raise TargetError(
                    f"the catalogue {self._catalogue} has no namespace "
                    f"{self._name.rpartition('.')[0]}",
                    hint="Make it first.",
                ) from None

    def name_newest(self) -> None:
        """Do nothing: the catalogue knows it."""

    def erase(self) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        with suppress(NoSuchTableError, NoSuchNamespaceError):
            self._opened.purge_table(self._name)


def open_catalogue(catalogue: str, options: Options, refused: type[RowfallError]) -> Any:
    """Return a catalogue of pyiceberg's configuration.

    Args:
        refused: class of the error.

    Raises:
        RowfallError: no such catalogue is configured, or it cannot be opened; of the class
            ``refused``.
    """
    from pyiceberg.catalog import load_catalog

    given = {"s3.endpoint": options.s3_endpoint, "s3.region": options.s3_region}
    try:
        return load_catalog(catalogue, **{k: v for k, v in given.items() if v})
    except Exception as error:  # whatever its kind raises
        raise refused(
            f"cannot open the catalogue {catalogue}: {first_line(error)}",
            hint=_opening_hint(catalogue, error),
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error, 300 characters at most; its class if empty."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _opening_hint(catalogue: str, error: Exception) -> str:
    """Return the hint for a configured catalogue that pyiceberg could not open."""
    # Its kinds need libraries of their own, and their errors end in the command: Glue is boto3.
    _, _, command = str(error).partition("not installed: ")
    return command or (
        "Catalogues are configured in ~/.pyiceberg.yaml or by "
        f"PYICEBERG_CATALOG__{catalogue.upper()}__URI and its like."
    )


def creation_hint(catalogue: str, error: Exception) -> str | None:
    """Return the hint for a catalogue without a default place for new tables; else None."""
    if "No default path" not in str(error):
        return None
    return (
        f"Set PYICEBERG_CATALOG__{catalogue.upper()}__WAREHOUSE (or warehouse in "
        "~/.pyiceberg.yaml) to the bucket or folder for new tables."
    )
