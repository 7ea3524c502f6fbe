"""Every error this package raises, and what to do about each.

The docstring of a class is its default message.
"""

from __future__ import annotations

import inspect


class LeaseError(Exception):
    """Something about a lease went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.cleandoc(type(self).__doc__ or "").split("\n\n")[0])


class ConfigurationError(LeaseError):
    """A `lease_*` option is missing or wrong; the message names it and a valid value."""


class UnknownOption(ConfigurationError):
    """There is no such `lease_*` option; the message names the nearest valid one."""


class StoreUnavailable(LeaseError):
    """The job store cannot be reached; nothing was written, try again when it answers."""


class OperationKeyConflict(LeaseError):
    """This operation key belongs to a job with other arguments; the first job is untouched."""


class JobIdConflict(LeaseError):
    """This task id belongs to a job of another task; let Celery choose the id."""


class MessageNotSerialisable(LeaseError):
    """The arguments cannot be serialised; pass plain values, nothing was submitted."""


class StaleToken(LeaseError):
    """Another holder has this job, or it has ended: the write was refused and recorded."""


class TransactionModeError(LeaseError):
    """SQLite refused to write after reading; set OPTIONS["transaction_mode"] = "IMMEDIATE"."""


class NoLease(LeaseError):
    """There is no lease here: the task was called directly, or this is no leased task."""


class AttemptTimeout(LeaseError):
    """The attempt ran longer than lease_attempt_timeout or Celery's hard time limit."""

    code = "ATTEMPT_TIMED_OUT"


class RecordedFailure(LeaseError):
    """The job is dead; the exception that ended it is kept as text only.

    Attributes:
        name: Class name of the exception that ended the job.
        code: Its stable code.
    """

    def __init__(self, message: str | None = None, name: str = "", code: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.code = code


class WrongJobState(LeaseError):
    """The job is in a state that does not allow this; read it again and decide anew."""


class PermanentError(LeaseError):
    """The operation will never succeed, so it is not retried.

    Args:
        message: For people.
        code: Stable name of the reason, kept with the failure.
    """

    retryable = False

    def __init__(self, message: str | None = None, *, code: str = "PERMANENT") -> None:
        super().__init__(message or code)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_permanent, (type(self), str(self), self.code)


class RetryableError(LeaseError):
    """The operation may succeed later, so it is retried whatever `lease_give_up_on` says.

    Args:
        message: For people.
        code: Stable name of the reason, kept with the failure.
        retry_after: Seconds to wait at least; it lengthens the backoff, never shortens it.
    """

    retryable = True

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str = "RETRYABLE",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or code)
        self.code = code
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_retryable, (type(self), str(self), self.code, self.retry_after)


class Interrupt(BaseException):
    """Raised inside a task body to end its attempt.

    A `BaseException`, so that `except Exception` in a body does not swallow it; it never
    leaves `LeasedTask.__call__`, since past it the pool would report a failed task.
    """


class LeaseLost(Interrupt):
    """The lease ended or was taken away; another holder may run the job now."""


class AttemptTimedOut(Interrupt):
    """The attempt ran longer than `lease_attempt_timeout`."""


class WorkerStopping(Interrupt):
    """The worker is shutting down; the job is handed back uncounted."""


class Deferred(Interrupt):
    """The body asked for its job to be handed back until a later time, uncounted.

    Args:
        seconds: How long to wait.
        reason: For people, kept in the event.
    """

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(seconds, reason)
        self.seconds = seconds
        self.reason = reason


# Keyword-only arguments do not survive the default pickling of exceptions, and
# the pool carries exceptions from child to parent by pickle.
def _restore_permanent(cls: type[PermanentError], message: str, code: str) -> PermanentError:
    return cls(message, code=code)


def _restore_retryable(
    cls: type[RetryableError], message: str, code: str, retry_after: float | None
) -> RetryableError:
    return cls(message, code=code, retry_after=retry_after)
