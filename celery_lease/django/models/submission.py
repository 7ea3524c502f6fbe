from __future__ import annotations

from typing import Any, Self

from django.db import models

from celery_lease.django.fields import ExactCharField, MomentField
from celery_lease.django.models.handover import Handover
from celery_lease.django.models.job import Job
from celery_lease.django.models.lockable import Lockable


class SubmissionQuerySet(Lockable["Submission"]):
    """Questions a store asks about submissions."""

    def with_attempts(self) -> Self:
        """The submissions, each with the `attempts` of its job."""
        job = Job.objects.using(self.db).filter(pk=models.OuterRef("job_id"))
        return self.annotate(attempts=models.Subquery(job.values("attempts")))


class Submission(Handover):
    """A later submission that joined a job under its own task id."""

    task_id = ExactCharField(max_length=255, primary_key=True)
    # No constraint: its check would lock the job's row, and a commit would wait for it.
    job = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="submissions",
    )
    created_at = MomentField()

    #: The job's, as `with_attempts` read it.
    attempts: int = 0

    objects = SubmissionQuerySet.as_manager()

    class Meta:
        """As those of jobs; those of one job together."""

        indexes = (
            models.Index(fields=["job", "next_publish_at"], name="lease_submission_job"),
            models.Index(fields=["next_publish_at"], name="lease_submission_next_publish"),
            models.Index(fields=["published_epoch"], name="lease_submission_epoch"),
        )

    def __str__(self) -> str:
        return f"{self.task_id} of {self.job_id}"

    def plan(self, using: str, **changes: Any) -> bool:
        """Write `changes`, unless the submission was settled meanwhile."""
        unsettled = Submission.objects.using(using).filter(pk=self.pk, settled_at=None)
        if not unsettled.update(**changes):
            return False
        for name, value in changes.items():
            setattr(self, name, value)
        return True
