"""Totals that only grow, although the events they count are deleted after a while."""

from collections import Counter
from datetime import datetime

from django.db import models, transaction

from celery_lease.django.models import JobEvent


class Tally(models.Model):
    """How many job events of each kind there have ever been, one row for all processes.

    Counting the table anew would be slow, and would fall whenever old events
    are pruned, which a monitoring system takes for a restart.

    Attributes:
        counted_to: The last event that is in the totals.
        totals: Number of events by kind.
    """

    counted_to = models.BigIntegerField(default=0)
    totals = models.JSONField(default=dict)

    class Meta:
        """One row."""

        verbose_name_plural = "tallies"

    def __str__(self) -> str:
        """Return how far it has counted."""
        return f"events to {self.counted_to}"

    @classmethod
    @transaction.atomic
    def brought_up_to(cls, moment: datetime) -> Counter[str]:
        """Add the events before ``moment`` to the totals, and return these.

        Args:
            moment: Far enough back that no transaction still open has older
                events: ids are given before the commit, so a late one is skipped.
        """
        tally, _ = cls.objects.select_for_update().get_or_create(pk=1)
        return tally._count(moment)  # noqa: SLF001 - the row under its lock

    def _count(self, moment: datetime) -> Counter[str]:
        uncounted = JobEvent.objects.filter(pk__gt=self.counted_to)
        too_young = uncounted.filter(at__gte=moment).order_by("pk").first()
        settled = uncounted.filter(pk__lt=too_young.pk) if too_young else uncounted
        last = settled.order_by("-pk").first()
        if last:
            self._add(settled.filter(pk__lte=last.pk), last.pk)
        return Counter(self.totals)

    def _add(self, events: models.QuerySet[JobEvent], last: int) -> None:
        found = events.order_by().values_list("kind").annotate(models.Count("pk"))
        self.totals = dict(Counter(self.totals) + Counter(dict(found)))
        self.counted_to = last
        self.save()
