"""What a holder holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as the store gave it: the proof every later write carries.

    Attributes:
        job_id: The job.
        token: Fencing token of this attempt, larger than every earlier one of the job.
        owner: `host:parent-pid:random:n`.
        ttl: Seconds the lease lasts from each grant or renewal.
        attempt: Number of this attempt, from 1; 0 when only an outcome is handed out.
        task_id: The submission whose message led here; settling belongs to it.
    """

    job_id: str
    token: int
    owner: str
    ttl: float
    attempt: int
    task_id: str
