"""Two column types that mean the same on every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.expressions import Combinable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Microseconds since the epoch, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(count: int) -> datetime:
    """The UTC time so many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=count)


class MomentField(models.Field):  # type: ignore[type-arg]  # generic for the checker only
    """A point in time: an aware UTC `datetime` in Python, integer microseconds in the database.

    Unlike `DateTimeField` it means the same whatever USE_TZ, TIME_ZONE and the session's
    time zone are, and one arithmetic serves all databases.
    """

    description = "Point in time"

    # What the checker's Django plugin reads instead of type arguments.
    _pyi_private_set_type: datetime | Combinable
    _pyi_private_get_type: datetime
    _pyi_lookup_exact_type: datetime

    def get_internal_type(self) -> str:
        """A plain 64-bit integer column."""
        return "BigIntegerField"

    def from_db_value(self, value: int | None, *_: Any) -> datetime | None:
        """Read a column."""
        return None if value is None else moment(value)

    def to_python(self, value: Any) -> datetime | None:
        """Accept what fixtures and forms hold."""
        if value is None or isinstance(value, datetime):
            return value
        return moment(int(value))

    def get_prep_value(self, value: Any) -> Any:
        """Write a column or compare with it."""
        value = super().get_prep_value(value)
        return microseconds(value) if isinstance(value, datetime) else value

    def value_to_string(self, obj: models.Model) -> str:
        """Serialise for a fixture."""
        value = self.value_from_object(obj)
        return "" if value is None else str(microseconds(value))


class ExactCharField(models.CharField):  # type: ignore[type-arg]  # likewise
    """Text compared byte by byte, as ids and keys are: no case folding, no language's order."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        """The column with the database's own name for a binary collation."""
        binary = {"postgresql": "C", "mysql": "utf8mb4_bin"}.get(connection.vendor)
        return {**super().db_parameters(connection), "collation": binary}

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """`varchar` by its long name on PostgreSQL.

        For `varchar` Django adds a second index for LIKE, which under the collation C
        the first one serves already.
        """
        kind = super().db_type(connection)
        if kind and connection.vendor == "postgresql":
            return kind.replace("varchar", "character varying", 1)
        return kind
