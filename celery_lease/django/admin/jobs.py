"""Jobs in Django's admin: looked at, never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from celery_lease.django.admin import cells, tables
from celery_lease.django.admin.filters import LeaseFilter, PeriodFilter, StateFilter
from celery_lease.django.admin.listing import CappedPaginator, JobList, matching
from celery_lease.django.models import Job

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString

_FILTERS = (StateFilter, LeaseFilter, PeriodFilter)


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic for the checker only
    """What there is to know of a job. Its verbs belong to the store, not to a form."""

    list_display = (
        "task_name",
        "state_badge",
        "tenant",
        "queue",
        "tries",
        "lease_health",
        "age",
        "next_run",
    )
    list_filter = _FILTERS
    # Newest first from an index; the other columns have none to sort by.
    ordering = ("-created_at",)
    sortable_by = ("age",)
    # Only opens the box; `matching` searches.
    search_fields = ("id", "key")
    search_help_text = "A task id or an operation key, exactly."
    paginator = CappedPaginator
    show_full_result_count = False
    # Each count of a facet would be a walk over the table.
    show_facets = admin.ShowFacets.NEVER
    actions = None
    fieldsets = (
        (None, {"fields": ("id", "task", "state_badge", "key", "tenant", "queue", "tries")}),
        ("Lease", {"fields": ("lease_health", "lease_facts")}),
        ("Timeline", {"fields": ("timeline",), "classes": ("lease-wide",)}),
        ("Failure", {"fields": ("failure_text",), "classes": ("lease-wide",)}),
        ("Arguments", {"fields": ("arguments_text",), "classes": ("lease-wide", "collapse")}),
        ("Result", {"fields": ("result_text", "checkpoint_text"), "classes": ("collapse",)}),
        ("Submissions that joined", {"fields": ("joined",), "classes": ("lease-wide",)}),
        ("Times", {"fields": ("times",), "classes": ("lease-wide",)}),
    )

    class Media:
        """Colours that are readable in the light and in the dark theme."""

        css = {"all": ("celery_lease/admin.css",)}  # noqa: RUF012  # Django's form

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Jobs come from submissions."""
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Jobs are moved by the store, under their tokens."""
        del request, obj
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Jobs are deleted when their retention has ended."""
        del request, obj
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """No lookups but those of the filters: an address must not scan the table."""
        del value, request
        return lookup in {one.parameter_name for one in _FILTERS}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Jobs with their leases and the store's time, in one statement."""
        del request
        return Job.objects.select_related("lease").with_clock()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """The list without large columns."""
        del request, kwargs
        return JobList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        """Exact ids and keys, which indexes find."""
        del request
        term = search_term.strip()
        return (matching(queryset, term) if term else queryset), False

    @admin.display(description="task")
    def task_name(self, job: Job) -> SafeString:
        """The last part of the task's name."""
        return cells.task_name(job)

    @admin.display(description="state")
    def state_badge(self, job: Job) -> SafeString:
        """Where the job stands."""
        return cells.badge(job.state)

    @admin.display(description="attempts")
    def tries(self, job: Job) -> str:
        """Attempts so far and at most."""
        return f"{job.attempts}/{job.max_attempts}"

    @admin.display(description="lease")
    def lease_health(self, job: Job) -> SafeString | str:
        """Who holds the job, and for how long still."""
        return cells.lease(job)

    @admin.display(description="age", ordering="-created_at")
    def age(self, job: Job) -> SafeString | str:
        """How long ago it was submitted."""
        return cells.ago(job, job.created_at)

    @admin.display(description="next run")
    def next_run(self, job: Job) -> SafeString | str:
        """When it may start."""
        return cells.next_run(job)

    @admin.display(description="terms")
    def lease_facts(self, job: Job) -> SafeString | str:
        """The lease in full."""
        return tables.lease(job)

    @admin.display(description="events")
    def timeline(self, job: Job) -> SafeString | str:
        """What happened, in order."""
        return tables.timeline(job)

    @admin.display(description="failure")
    def failure_text(self, job: Job) -> SafeString | str:
        """Why the last attempt failed."""
        return cells.failure(job)

    @admin.display(description="arguments")
    def arguments_text(self, job: Job) -> SafeString | str:
        """The readable copy of the arguments."""
        return cells.block(job.arguments)

    @admin.display(description="result")
    def result_text(self, job: Job) -> SafeString | str:
        """The recorded result."""
        return cells.block(job.result)

    @admin.display(description="checkpoint")
    def checkpoint_text(self, job: Job) -> SafeString | str:
        """What the next attempt reads."""
        return cells.block(job.checkpoint)

    @admin.display(description="submissions")
    def joined(self, job: Job) -> SafeString | str:
        """Later submissions of the same operation."""
        return tables.submissions(job)

    @admin.display(description="times")
    def times(self, job: Job) -> SafeString | str:
        """When what happened, or will."""
        return tables.times(job)
