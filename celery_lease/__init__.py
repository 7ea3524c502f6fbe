"""Durable, leased jobs for Celery: a job store, fencing tokens, exactly-once effects."""

from celery_lease.errors import (
    AttemptTimedOut,
    LeaseError,
    LeaseLost,
    OperationKeyConflict,
    PermanentError,
    RetryableError,
    StaleToken,
    StoreUnavailable,
    WorkerStopping,
)
from celery_lease.policy import Backoff
from celery_lease.task import LeasedTask, current_lease

__version__ = "0.1.0"

__all__ = [
    "AttemptTimedOut",
    "Backoff",
    "LeaseError",
    "LeaseLost",
    "LeasedTask",
    "OperationKeyConflict",
    "PermanentError",
    "RetryableError",
    "StaleToken",
    "StoreUnavailable",
    "WorkerStopping",
    "current_lease",
]
