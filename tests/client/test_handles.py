"""Handles of jobs, what they say of themselves, and the endpoints that a client finds by itself."""

from __future__ import annotations

import pytest

from gosched import GoSchedClient, Job, JobFailed, JobHandle, as_completed, wait
from gosched.client import Misused, NotSubmitted, Submitted
from gosched.core.records.job import JobState

JOB = Job(name="a", run="echo hi")


def test_a_handle_has_what_the_answer_to_a_submission_has(start_master):
    with GoSchedClient(start_master().address) as client:
        job = client.submit(JOB)
        assert isinstance(job, Submitted)
        assert (job.id, job.job_id, job.name, job.warnings, job.unchanged) == ("j-1", "j-1", "a", (), False)
        assert repr(job) == "JobHandle(name='a', id='j-1')"
        assert {job, client.job("a")} == {job}
        assert job != "j-1"
        assert job.state is JobState.PENDING


def test_a_handle_does_what_the_client_does(start_master):
    master = start_master()
    master.log = b"hello\n"
    with GoSchedClient(master.address) as client:
        job = client.submit(JOB)
        assert "".join(chunk.text for chunk in job.logs()) == "hello\n"
        assert job.wait().state is JobState.SUCCEEDED
        assert job.result().id == job.id
        assert [detail.state for detail in job.watch()] == [JobState.SUCCEEDED]
        assert job.control("hold").job_id == job.id
        assert job.explain().job.id == job.id
        job.cancel("not needed")
    assert master.actions == [("j-1", "hold")]


def test_result_says_how_a_job_failed(start_master):
    master = start_master()
    master.views = [[(JobState.FAILED, 1)]]
    with GoSchedClient(master.address) as client:
        job = client.submit(JOB)
        with pytest.raises(JobFailed, match=r"job a \(j-1\) is FAILED") as caught:
            job.result()
    assert caught.value.exit_code == 1
    assert caught.value.detail.id == "j-1"


@pytest.mark.parametrize("wrong", ["j-1", ["j-1"], 5, [None]])
def test_waits_take_handles(wrong):
    with pytest.raises(Misused, match=r"as submit\(\) returns them|expected a"):
        wait(wrong)
    with pytest.raises(Misused, match=r"as submit\(\) returns them|expected a"):
        list(as_completed(wrong))


def test_waits_of_no_jobs_end_at_once():
    assert wait([]) == (set(), set())
    assert list(as_completed([])) == []


def test_jobs_of_two_clients_are_not_waited_for_together(start_master):
    address = start_master().address
    with GoSchedClient(address) as one, GoSchedClient(address) as other:
        jobs = [one.submit(JOB), other.submit(Job(name="b", run="x"))]
        with pytest.raises(Misused, match="different clients"):
            wait(jobs)


def test_a_client_without_endpoints_goes_where_goschedctl_goes(start_master, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GOSCHED_ENDPOINTS", start_master().address)
    with GoSchedClient() as client:
        assert client.get_status().nodes == 2
        assert repr(client).startswith("GoSchedClient('127.0.0.1:")
    monkeypatch.setenv("GOSCHED_TLS_CERT", "a")
    with pytest.raises(Misused, match="TLS needs"):
        GoSchedClient()


def test_names_of_the_sdk_are_all_there():
    import gosched

    for name in set(gosched.__all__) - {"GoSchedExecutor"}:
        assert getattr(gosched, name)
    with pytest.raises(AttributeError):
        gosched.nothing  # noqa: B018
    assert NotSubmitted
    assert JobHandle
