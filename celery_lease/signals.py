"""Signals, each sent once per transition by the process that made it.

Receivers get `sender` (the task, or `None` from the sweeper) and keyword
arguments; one that raises is logged and stops nothing.
"""

from __future__ import annotations

from celery.utils.dispatch import Signal

#: After a granted claim; `job`, `lease`.
lease_claimed = Signal(name="lease_claimed", providing_args={"job", "lease"})
#: After each renewal of a process's leases; `grants`.
lease_renewed = Signal(name="lease_renewed", providing_args={"grants"})
#: The holder learned that its lease has ended; `grant`.
lease_lost = Signal(name="lease_lost", providing_args={"grant"})
#: The sweeper took a job from a holder; `expired`.
lease_expired = Signal(name="lease_expired", providing_args={"expired"})
#: The job was handed back uncounted; `job`, `reason`.
lease_released = Signal(name="lease_released", providing_args={"job", "reason"})
#: An attempt failed and another is planned; `job`, `failure`, `retry_in`.
job_retrying = Signal(name="job_retrying", providing_args={"job", "failure", "retry_in"})
#: The job succeeded; `job`.
job_succeeded = Signal(name="job_succeeded", providing_args={"job"})
#: The job was given up; `job`, `failure`.
job_dead = Signal(name="job_dead", providing_args={"job", "failure"})
#: A submission joined an existing job; `job`, `task_id`.
job_duplicate = Signal(name="job_duplicate", providing_args={"job", "task_id"})
#: A write under an old token was refused; `grant`, `what`.
stale_write_refused = Signal(name="stale_write_refused", providing_args={"grant", "what"})
