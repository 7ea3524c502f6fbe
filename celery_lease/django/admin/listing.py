"""A list whose cost does not grow with the table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Q

from celery_lease.django.models import Submission

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from celery_lease.django.models import Job
    from celery_lease.django.models.job import JobQuerySet

#: How many jobs are counted and paged; more are for a filter.
CAP = 10_000


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # generic for the checker only
    """Counts no further than `CAP`."""

    @cached_property
    def count(self) -> int:
        """The number of jobs, at most `CAP`."""
        return min(self._counted, CAP)

    @property
    def capped(self) -> bool:
        """Whether there are more."""
        return self._counted > CAP

    @cached_property
    def _counted(self) -> int:
        # Unordered, so that any index may serve.
        jobs: QuerySet[Job] = self.object_list  # type: ignore[assignment]  # the admin's own
        return jobs.order_by().values("pk")[: CAP + 1].count()


class JobList(ChangeList):
    """Jobs without their large columns."""

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Job]:
        """The jobs asked for."""
        jobs: JobQuerySet
        jobs = super().get_queryset(request, exclude_parameters)  # type: ignore[assignment]  # the admin's own
        return jobs.light()


def matching(jobs: QuerySet[Job], term: str) -> QuerySet[Job]:
    """The jobs with exactly this id, operation key, or id of a submission that joined."""
    # A statement of its own: an OR with a subquery would read the whole table.
    joined = Submission.objects.using(jobs.db).filter(pk=term).values_list("job_id", flat=True)
    return jobs.filter(Q(pk__in=[term, *joined]) | Q(key=term))
