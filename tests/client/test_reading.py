"""Jobs that a master has read are submitted as they came."""

from __future__ import annotations

from gosched.client import GoSchedClient
from gosched.client.reading import read_jobs, submit_read
from gosched.config.jobs.draft import JobDraft
from gosched.wire.v1 import types_pb2
from tests.client.fake_cluster import FakeMaster

UNKNOWN = b"\xfa\x3f\x05later"  # field 1023, which no release has


class NewerMaster(FakeMaster):
    """Knows a field of jobs that this release does not."""

    def __init__(self) -> None:
        self.submitted: list[bytes] = []
        super().__init__()

    def ReadJobs(self, request, context):
        answer = super().ReadJobs(request, context)
        for spec in answer.specs:
            spec.MergeFromString(UNKNOWN)
        return answer

    def SubmitJob(self, request, context):
        self.submitted.append(request.spec.SerializeToString())
        return super().SubmitJob(request, context)


def test_fields_that_this_release_does_not_know_reach_the_masters_again() -> None:
    master = NewerMaster()
    try:
        with GoSchedClient(master.address) as client:
            (job,) = read_jobs(client, JobDraft(text=b"name: a\nrun: x\ncount: 3\n", source="f.yaml"))
            assert (job.name, job.task_count, job.is_parent) == ("a", 3, False)
            assert submit_read(client, job, "r1").job_id == submit_read(client, job, "r1").job_id == "j-1"
    finally:
        master.stop()
    assert master.submitted == [job.spec] * 2
    assert UNKNOWN in job.spec
    assert types_pb2.JobSpec.FromString(job.spec).name == "a"


def test_an_array_and_a_schedule_have_no_tasks_of_their_own() -> None:
    master = FakeMaster()
    text = b"name: a\nrun: x\narray: {range: 0-9}\n---\nname: b\nrun: x\nschedule: {cron: '0 3 * * *'}\n"
    text += b"---\nname: c\nrun: x\narray: {matrix: {LR: [1, 2]}}\n"
    try:
        with GoSchedClient(master.address) as client:
            jobs = read_jobs(client, JobDraft(text=text, source="f.yaml"))
    finally:
        master.stop()
    assert [(job.is_parent, job.task_count, bool(job.cron)) for job in jobs] == [
        (True, 0, False),
        (True, 0, True),
        (True, 0, False),
    ]
