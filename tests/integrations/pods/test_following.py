"""A pod that is followed to its end, where something goes wrong or an earlier one is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gosched.integrations.pods import following
from gosched.integrations.pods.access import Access
from gosched.integrations.pods.api import PodApi
from gosched.integrations.pods.errors import PodDenied, PodNotFound, PodRefused, PodUnreachable
from gosched.integrations.pods.following import Run, run_to_end
from gosched.integrations.pods.wanted import Amounts, Owner, wanted

from .api_server import ApiServer, api_server

OWN = Owner(task="j-1/task/0", job="j-1", attempt="2", allocation="second")
EARLIER = Owner(task="j-1/task/0", job="j-1", attempt="1", allocation="first")
LINE = b"2026-01-02T03:04:05.000000000Z hello\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    for name in ("_LEAST_PAUSE_S", "_MOST_PAUSE_S", "_PAUSE_WITH_LOG_S"):
        monkeypatch.setattr(following, name, 0.01)
    with api_server() as running:
        yield running


class Followed:
    def __init__(self, server: ApiServer, *, takes_earlier: bool = True) -> None:
        self.said: list[str] = []
        self.printed = b""
        access = Access(url=server.url, trust=None, namespace="n", token=lambda: "secret")
        self.run = Run(
            api=PodApi(access), wanted=pod(OWN), owner=OWN, takes_earlier=takes_earlier, grace_s=3,
            say=lambda line: self.said.append(line.partition(": ")[2]), write=self._write,
        )  # fmt: skip

    def _write(self, data: bytes) -> None:
        self.printed += data

    def end(self) -> int:
        return run_to_end(self.run)


def pod(owner: Owner) -> dict[str, object]:
    none = Amounts()
    return wanted(owner, template={}, image="i", command=("c",), environment={}, amounts=none, grace_s=3)


def test_it_is_created_followed_printed_and_deleted(server: ApiServer) -> None:
    states = [lambda: server.set_state({"running": {}}), lambda: None, lambda: server.end(3)]
    server.tick, server.log = lambda: states.pop(0)() if states else None, LINE
    followed = Followed(server)
    assert followed.end() == 3
    assert followed.printed == b"hello\n"
    assert followed.said == ["created", "its container has ended with exit code 3"]
    assert server.pod is None


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, 137, "OOMKilled"),
        ({"terminated": {"exitCode": 143}}, 143, "its container has ended with exit code 143, by signal 15"),
        ({"terminated": {"exitCode": -1}}, 1, "its container has ended with exit code 1"),
        ({}, 1, "Evicted: the node was low on memory"),
        ({"terminated": {"exitCode": 0}}, 1, "was stopped before its container had ended by itself"),
    ],
)
def test_each_end_has_its_exit_code_and_words(server: ApiServer, state: dict, code: int, said: str) -> None:  # type: ignore[type-arg]
    is_evicted = state.get("terminated", {"exitCode": 0})["exitCode"] == 0
    more = {"reason": "Evicted", "message": "the node was low on memory"} if is_evicted else {}
    server.tick = lambda: server.pod and server.set_state(state, "Failed", **more)
    followed = Followed(server)
    assert followed.end() == code
    assert said in followed.said


def test_what_it_waits_for_is_said_once_and_the_lines_have_a_bound(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MOST_SAID", 5)

    def pull() -> None:
        looks = server.count("GET")
        server.set_state({"waiting": {"reason": "ErrImagePull", "message": f"try {looks // 4}"}}, "Pending")
        if looks == 40:
            server.end(0)

    server.tick = pull
    followed = Followed(server)
    assert followed.end() == 0
    assert followed.said == ["created", *[f"ErrImagePull: try {number}" for number in range(4)]]


@pytest.mark.parametrize("code", [None, 0])
def test_an_earlier_starts_is_taken_over_while_it_lives_or_has_succeeded(server: ApiServer, code: int | None) -> None:
    server.keep(pod(EARLIER))
    if code is not None:
        server.end(code)
    server.tick = lambda: server.asked[-2:][0][0] == "PATCH" and server.end(0)
    followed = Followed(server)
    assert followed.end() == 0
    assert followed.said[0] == "taken over from an earlier start, of attempt 1"
    assert server.count("POST") == 1
    deleted = [body for method, body in server.asked if method == "DELETE"]
    assert [body["preconditions"]["uid"] for body in deleted] == ["uid-1"]


@pytest.mark.parametrize(("ended", "takes_earlier"), [(True, True), (False, False)])
def test_one_that_has_failed_or_is_a_gangs_of_an_earlier_attempt_is_replaced(
    server: ApiServer, ended: bool, takes_earlier: bool
) -> None:
    server.keep(pod(EARLIER))
    if ended:
        server.end(7)
    server.tick = lambda: server.pod and server.count("DELETE") and server.end(0)
    followed = Followed(server, takes_earlier=takes_earlier)
    assert followed.end() == 0
    assert followed.said == ["an earlier start's is deleted first", "created"]


def test_one_that_is_being_deleted_is_waited_for(server: ApiServer) -> None:
    server.keep(pod(EARLIER))
    assert server.pod is not None
    server.pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"

    def pass_time() -> None:
        if server.count("POST") == 3:
            server.pod = None
        elif server.count("POST") > 3:
            server.end(0)

    server.tick = pass_time
    followed = Followed(server)
    assert followed.end() == 0
    assert followed.said == ["an earlier one is being deleted; waiting until it is gone", "created"]


def test_a_second_run_of_the_same_task_gets_no_pod_of_its_own_while_the_first_one_runs(server: ApiServer) -> None:
    server.keep(pod(OWN))
    with pytest.raises(PodRefused, match="is another kube run's of this task, which has one pod at a time"):
        Followed(server).end()
    assert server.count("DELETE") == 0


def test_one_that_was_stopped_from_outside_is_no_success_of_an_earlier_start(server: ApiServer) -> None:
    server.keep(pod(EARLIER))
    server.set_state({"terminated": {"exitCode": 0}}, "Failed", reason="Evicted")
    server.tick = lambda: server.pod and server.count("DELETE") and server.end(0)
    followed = Followed(server)
    assert followed.end() == 0
    assert followed.said == ["an earlier start's is deleted first", "created"]


def test_a_success_whose_log_is_gone_with_its_node_is_a_success(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOG_S", 0.0)
    server.tick = lambda: server.end(0)
    server.log_status = 503
    followed = Followed(server)
    assert followed.end() == 0
    assert "the rest of its log cannot be had" in followed.said[1]


def test_a_pod_of_somebody_else_is_left_alone(server: ApiServer) -> None:
    server.keep({"metadata": {"name": "x"}})
    with pytest.raises(PodRefused, match="is not of this task: delete it, it is in the way"):
        Followed(server).end()
    assert server.count("DELETE") == 0


@pytest.mark.parametrize("conflicts", [0, 3])
def test_one_that_is_to_stop_is_deleted_whatever_changes_meanwhile(server: ApiServer, conflicts: int) -> None:
    followed = Followed(server)
    left = [(409, {"message": "changed"})] * conflicts
    server.instead = lambda method: left.pop() if method == "DELETE" and left else None

    def stop() -> None:
        followed.run.is_to_stop = True

    server.tick = stop
    assert followed.end() == 143
    assert server.pod is None
    assert followed.said == ["created", "is deleted, with 3 s for the container to end"]
    assert {body["gracePeriodSeconds"] for method, body in server.asked if method == "DELETE"} == {3}


def test_one_that_another_start_follows_now_is_not_deleted(server: ApiServer) -> None:
    followed = Followed(server)

    def take_over() -> None:
        assert server.pod is not None
        server.pod["metadata"]["annotations"]["gosched.io/allocation"] = "third"
        followed.run.is_to_stop = True

    server.tick = take_over
    assert followed.end() == 143
    assert server.pod is not None
    assert followed.said[-1] == "another start of the task follows it now; it is left alone"


def test_a_stop_before_there_is_a_pod_leaves_none(server: ApiServer) -> None:
    followed = Followed(server)
    followed.run.is_to_stop = True
    server.instead = lambda method: (503, {}) if method == "POST" else None
    assert followed.end() == 143


def test_one_that_somebody_deletes_is_a_failure(server: ApiServer) -> None:
    def vanish() -> None:
        server.pod = None

    server.tick = vanish
    followed = Followed(server)
    assert followed.end() == 1
    assert followed.said[-1].startswith("was deleted by somebody else before it had ended")


def test_one_that_ends_well_because_somebody_deleted_it_is_a_failure(server: ApiServer) -> None:
    def end() -> None:
        assert server.pod is not None
        server.pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
        server.end(0)

    server.tick = end
    followed = Followed(server)
    assert followed.end() == 1
    assert followed.said[-1] == "was deleted by somebody else before it had ended"


@pytest.mark.parametrize(
    "bad", [(503, {"message": "later"}), (403, {"message": "not yet"}), (200, b"<html>"), (200, {"metadata": []})]
)
def test_an_api_server_that_is_unwell_for_a_while_is_asked_again(server: ApiServer, bad: tuple[int, object]) -> None:
    left = [bad] * 3
    server.instead = lambda method: left.pop() if method == "GET" and left else None
    server.tick = lambda: server.end(0)
    followed = Followed(server)
    assert followed.end() == 0
    assert [line.endswith("asking again") for line in followed.said] == [False, True, False]
    assert followed.said[-1] == "the API server answers again"


def test_one_that_is_unwell_for_long_is_given_up(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOST_S", 0.0)
    server.instead = lambda method: (503, {"message": "later"})
    with pytest.raises(PodUnreachable, match="later"):
        Followed(server).end()


@pytest.mark.parametrize(
    ("status", "kind"), [(401, PodDenied), (403, PodDenied), (422, PodRefused), (404, PodNotFound)]
)
def test_a_pod_that_is_refused_is_not_tried_again(server: ApiServer, status: int, kind: type[Exception]) -> None:
    server.instead = lambda method: (status, {"message": "namespaces not found: no"})
    with pytest.raises(kind, match="no"):
        Followed(server).end()
    assert len(server.asked) == 1


def test_output_that_cannot_be_written_ends_it(server: ApiServer) -> None:
    server.tick, server.log = lambda: server.set_state({"running": {}}), LINE
    followed = Followed(server)

    def broken(_data: bytes) -> None:
        raise BrokenPipeError

    followed.run.write = broken
    with pytest.raises(BrokenPipeError):
        followed.end()
    assert server.pod is None, "it does not run on for nobody"
