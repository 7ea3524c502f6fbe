"""Filters whose choices are fixed: the database is never asked which values there are."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.admin import SimpleListFilter
from django.utils import timezone

from celery_lease.django.clock import Clock
from celery_lease.job import State

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from celery_lease.django.models import Job

_PERIODS = {
    "1h": ("Past hour", timedelta(hours=1)),
    "24h": ("Past 24 hours", timedelta(hours=24)),
    "7d": ("Past 7 days", timedelta(days=7)),
}


class FixedFilter(SimpleListFilter):
    """A filter that names its choices in the class."""

    choices_by_value: ClassVar[dict[str, str]]

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        """The choices."""
        del request, model_admin
        return list(self.choices_by_value.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """The jobs of the choice; all of them for what is no choice."""
        del request
        value = self.value()
        return self.chosen(queryset, value) if value in self.choices_by_value else queryset

    def chosen(self, jobs: QuerySet[Job], value: str) -> QuerySet[Job]:
        """The jobs of a choice."""
        raise NotImplementedError


class StateFilter(FixedFilter):
    """By where a job stands."""

    title = "state"
    parameter_name = "state"
    choices_by_value: ClassVar = {
        state.value: state.value.replace("_", " ").capitalize() for state in State
    }

    def chosen(self, jobs: QuerySet[Job], value: str) -> QuerySet[Job]:
        """The jobs in that state."""
        return jobs.filter(state=value)


class LeaseFilter(FixedFilter):
    """By whether somebody holds a job, or has let it slip."""

    title = "lease"
    parameter_name = "lease"
    choices_by_value: ClassVar = {"live": "Live", "expired": "Expired", "none": "None"}

    def chosen(self, jobs: QuerySet[Job], value: str) -> QuerySet[Job]:
        """The jobs whose lease is like that."""
        if value == "none":
            return jobs.filter(lease__isnull=True)
        if value == "live":
            return jobs.filter(lease__expires_at__gt=Clock())
        return jobs.filter(lease__expires_at__lte=Clock())


class PeriodFilter(FixedFilter):
    """By how long ago a job was submitted."""

    title = "submitted"
    parameter_name = "period"
    choices_by_value: ClassVar = {value: title for value, (title, _) in _PERIODS.items()}

    def chosen(self, jobs: QuerySet[Job], value: str) -> QuerySet[Job]:
        """The jobs of that period, by this host's clock: no index knows the store's."""
        return jobs.filter(created_at__gte=timezone.now() - _PERIODS[value][1])
