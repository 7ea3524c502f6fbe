"""From a task id to its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery_lease.django.models import Job, Submission
    from celery_lease.django.step import Step


@dataclass
class Found:
    """A job and the submission that led to it, `None` for its own."""

    job: Job
    submission: Submission | None

    @property
    def handover(self) -> Job | Submission:
        """Where the hand-over state of the task id lies."""
        return self.submission or self.job

    def plan(self, step: Step, **changes: object) -> None:
        """Write hand-over state."""
        if self.submission:
            self.submission.plan(step.using, **changes)
        else:
            step.move(self.job, **changes)


def find(step: Step, task_id: str) -> Found | None:
    """The job that a task id belongs to."""
    job = step.jobs.with_lease().filter(pk=task_id).first()
    if job:
        return Found(job, None)
    # A statement of its own: an OR with a subquery would read the whole table.
    submission = step.submissions.filter(pk=task_id).first()
    if submission is None:
        return None
    job = step.jobs.with_lease().filter(pk=submission.job_id).first()
    return Found(job, submission) if job else None
