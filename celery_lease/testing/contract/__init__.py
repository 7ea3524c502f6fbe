"""The contract of `JobStore`, as tests that any store can run unmodified.

```python
from celery_lease.testing.contract import StoreContract

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self): ...     # an empty JobStore
    @pytest.fixture
    def elapse(self, store): ...  # a function: let so many seconds pass for the store
```

`elapse` either moves the store's clock or shifts every stored time into the
past, so that no test sleeps. The store's time may also move by itself, as that
of a server does: the tests allow `scene.TOLERANCE` seconds where they compare times.
"""

from __future__ import annotations

import pytest

_PARTS = (
    "claiming",
    "ending",
    "expiring",
    "operating",
    "publishing",
    "racing",
    "record",
    "renewing",
    "retention",
    "scene",
    "settling",
    "stale",
    "submission",
)
# Before they are imported: only then do failing asserts show their values.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from celery_lease.testing.contract.claiming import ClaimContract  # noqa: E402
from celery_lease.testing.contract.ending import EndingContract  # noqa: E402
from celery_lease.testing.contract.expiring import ExpiryContract  # noqa: E402
from celery_lease.testing.contract.operating import OperatingContract  # noqa: E402
from celery_lease.testing.contract.publishing import PublishingContract  # noqa: E402
from celery_lease.testing.contract.racing import RacingContract  # noqa: E402
from celery_lease.testing.contract.record import RecordContract  # noqa: E402
from celery_lease.testing.contract.renewing import RenewalContract  # noqa: E402
from celery_lease.testing.contract.retention import RetentionContract  # noqa: E402
from celery_lease.testing.contract.settling import SettlingContract  # noqa: E402
from celery_lease.testing.contract.stale import StaleCallerContract  # noqa: E402
from celery_lease.testing.contract.submission import SubmissionContract  # noqa: E402


class StoreContract(
    SubmissionContract,
    ClaimContract,
    RenewalContract,
    EndingContract,
    StaleCallerContract,
    SettlingContract,
    ExpiryContract,
    PublishingContract,
    OperatingContract,
    RetentionContract,
    RecordContract,
    RacingContract,
):
    """Everything a `JobStore` promises; subclasses give the fixtures `store` and `elapse`."""


__all__ = ["StoreContract"]
