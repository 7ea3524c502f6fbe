from __future__ import annotations

from typing import Self, TypeVar

from django.db import connections, models

Row = TypeVar("Row", bound=models.Model)


class Lockable(models.QuerySet[Row]):
    """Rows that can be locked until the transaction ends.

    Lock one table per statement: MariaDB cannot say which of several it means. SQLite has
    no row locks; there a transaction that writes is alone.
    """

    def locked(self) -> Self:
        """Wait for the rows."""
        return self.select_for_update(no_key=self._weakly())

    def free(self) -> Self:
        """Lock the rows that nobody else has locked, and leave the others out."""
        return self.select_for_update(no_key=self._weakly(), skip_locked=True)

    def _weakly(self) -> bool:
        # Foreign keys of the project's own tables on ours do not collide with this.
        return connections[self.db].features.has_select_for_no_key_update
