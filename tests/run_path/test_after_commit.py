"""Whatever a body does after `commit()`, its job has succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from celery_lease import current_lease

if TYPE_CHECKING:
    import pytest

    from tests.run_path.conftest import Lab


def test_a_later_exception_is_logged(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    @lab.task()
    def body() -> NoReturn:
        with current_lease().commit() as done:
            done.result = {"status": 200}
        raise ValueError("too late")

    job, result = lab.outcome(body)
    assert (job.state, job.attempts, job.result) == ("succeeded", 1, '{"status": 200}')
    assert (result.state, result.result) == ("SUCCESS", {"status": 200})
    assert "too late" in caplog.text


def test_a_retry_comes_too_late(lab: Lab) -> None:
    @lab.task(bind=True)
    def body(self: Any) -> NoReturn:
        with self.lease.commit():
            lab.note("effect")
        raise self.retry(countdown=0)

    job, result = lab.outcome(body)
    assert (job.state, lab.runs, result.state) == ("succeeded", ["effect"], "SUCCESS")


def test_an_exit_comes_too_late(lab: Lab) -> None:
    @lab.task()
    def body() -> NoReturn:
        with current_lease().commit() as done:
            done.result = 1
        raise SystemExit(1)

    job, result = lab.outcome(body)
    assert (job.state, result.result) == ("succeeded", 1)


def test_the_committed_result_comes_before_the_returned_one(lab: Lab) -> None:
    @lab.task()
    def body() -> str:
        with current_lease().commit() as done:
            done.result = "committed"
        return "returned"

    job, result = lab.outcome(body)
    assert (job.result, result.result) == ('"committed"', "committed")


def test_the_returned_result_counts_when_none_was_committed(lab: Lab) -> None:
    @lab.task()
    def body() -> str:
        with current_lease().commit():
            pass
        return "returned"

    job, result = lab.outcome(body)
    assert (job.result, result.result) == ('"returned"', "returned")


def test_a_commit_whose_block_raises_is_none(lab: Lab) -> None:
    @lab.task()
    def body() -> str:
        with current_lease().commit():
            if lab.note("run") == 1:
                raise ValueError("rolled back")
        return "ok"

    job, _ = lab.outcome(body)
    assert (job.state, job.attempts, lab.runs) == ("succeeded", 2, ["run", "run"])


def test_a_committed_result_that_json_cannot_hold_is_kept_as_its_repr(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    @lab.task()
    def body() -> None:
        with current_lease().commit() as done:
            done.result = {7}

    job, result = lab.outcome(body)
    assert (job.state, job.result) == ("succeeded", '"{7}"')
    assert result.result == "{7}"
    assert "its repr is" in caplog.text
