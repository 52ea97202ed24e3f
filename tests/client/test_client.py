from __future__ import annotations

import asyncio
import contextlib
import http.server
import itertools
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from gosched import Job
from gosched.client import (
    Denied,
    GoSchedClient,
    GoSchedError,
    Misused,
    NotFound,
    Refused,
    TimedOut,
    Unavailable,
    masters,
    targets,
)
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.client.errors import OutOfTime
from gosched.client.spec import spec_of
from gosched.core.records.job import JobState
from gosched.core.request_ids import made_at_ms, request_id_at
from gosched.wire import addresses
from gosched.wire.addresses import AddressBook
from tests.client.fake_cluster import FakeMaster
from tests.ports import HeldPort
from tests.slow_path import SlowPath

JOB = "name: a\nrun: echo hi"
#: Fake masters end connections that are pinged all the time.
WITHOUT_PINGS = tuple(option for option in targets.OPTIONS if "keepalive" not in option[0])


def test_status_has_the_fields_of_the_contract(start_master):
    with GoSchedClient(start_master().address) as client:
        status = client.get_status()
    assert (status.nodes, status.nodes_ready, status.pending, status.leader) == (2, 1, 0, "master-1")
    assert status.total.cpu_millis == 8500


@pytest.mark.parametrize("host", ["127.0.0.1", "3f2a9c.invalid"])
def test_http_endpoint_names_the_masters_also_where_their_names_are_those_of_containers(start_master, host):
    master = start_master()
    address = f"{host}:{master.address.rpartition(':')[2]}"

    class Rest(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"masters": [{"id": "m", "grpc_address": address}]}).encode()
            self.send_response(200 if self.path == "/api/v1/status" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Rest)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with GoSchedClient(f"http://127.0.0.1:{server.server_port}/") as client:
            assert client.get_status().nodes == 2
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_dead_master_is_passed_over(start_master):
    dead, alive = HeldPort(), start_master()
    with GoSchedClient([dead.address, alive.address], timeout_s=30) as client:
        for _ in range(3):
            assert client.get_status().epoch == 3


def test_a_master_behind_a_path_of_300_ms_is_connected_to_once(start_master):
    with SlowPath(start_master().address) as path, GoSchedClient(path.address) as client:
        assert client.get_status().nodes == 2
        assert path.connections == 1


def test_a_master_that_takes_no_connection_holds_a_client_up_for_a_moment_only(start_master, monkeypatch):
    monkeypatch.setattr(random, "randrange", lambda limit: 0)  # it is asked first
    with (
        silent_port() as silent,
        GoSchedClient(f"{silent},{start_master().address}") as client,
    ):
        began = time.monotonic()
        assert client.get_status().nodes == 2
        assert time.monotonic() - began < targets.TRY_S


def test_an_async_client_is_held_up_for_a_moment_only(start_master, monkeypatch):
    monkeypatch.setattr(random, "randrange", lambda limit: 0)

    async def story(silent: str) -> float:
        async with AsyncGoSchedClient(f"{silent},{start_master().address}") as client:
            began = time.monotonic()
            assert (await client.get_status()).nodes == 2
            return time.monotonic() - began

    with silent_port() as silent:
        assert asyncio.run(story(silent)) < targets.TRY_S


@contextlib.contextmanager
def silent_port() -> Iterator[str]:
    """Nobody is there: whoever dials it hears nothing, as of a machine that is off."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as opened:
        for _ in range(4):
            sock = opened.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_master_is_found_where_its_name_pointed_once_no_name_server_answers(start_master):
    master, answers = start_master(), [["127.0.0.9", "127.0.0.1"]]

    def lookup(host: str) -> list[str]:
        if not answers:
            raise OSError("no name server answers")
        return answers.pop()

    with GoSchedClient(f"masters.invalid:{master.address.rpartition(':')[2]}") as client:
        client._masters._targets.book = AddressBook(lookup=lookup)
        assert client.get_status().nodes == 2
        client._masters._channels.clear()
        client._masters._targets.book._names["masters.invalid"].answered_at = 0.0
        assert client.get_status().nodes == 2
        assert not answers


def test_closing_a_client_ends_streams_also_where_their_masters_name_points_elsewhere_by_now(start_master, monkeypatch):
    monkeypatch.setattr(addresses, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(masters, "OPTIONS", WITHOUT_PINGS)
    master, ended = start_master(), []
    master.put("j-1", spec_of(Job(name="a", run="echo hi")))
    master.frozen = True
    target = f"masters.invalid:{master.address.rpartition(':')[2]}"
    answers = [["127.0.0.1"]]
    client = GoSchedClient(target)
    client._masters._targets.book = AddressBook(lookup=lambda host: answers[-1])

    def follow():
        try:
            list(client.watch("j-1"))
        except Misused as error:
            ended.append(str(error))

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        await_call(master, "WatchJob")
        old = client._masters.at(target)
        answers.append(["127.0.0.1", "127.0.0.9"])
        client._masters._targets.silent.add(target)
        assert client._masters.at(target) is not old
        time.sleep(0.05)
        assert not following.done()
        client.close()
        try:
            following.result(5)
        finally:
            master.frozen = False
    assert len(ended) == 1
    assert "the client is closed" in ended[0]


def test_channels_to_addresses_that_a_name_has_left_are_bounded(monkeypatch):
    monkeypatch.setattr(addresses, "ASK_AGAIN_S", 0.0)
    numbers, target = itertools.count(), "masters.invalid:1"
    with GoSchedClient(target) as client:
        client._masters._targets.book = AddressBook(lookup=lambda host: [f"127.0.1.{next(numbers)}"])
        for _ in range(masters.MAX_LEFT + 5):
            client._masters._targets.silent.add(target)
            client._masters.at(target)
        assert len(client._masters._left) == masters.MAX_LEFT


def await_call(master, method):
    ends = time.monotonic() + 10
    while method not in master.calls:
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_client_that_lives_on_finds_the_masters_that_came_after_those_that_it_was_told_of(start_master, monkeypatch):
    monkeypatch.setattr(targets, "LEARN_EVERY_S", 0.0)
    told, later = start_master(), start_master()
    told.others = [later.address]
    with GoSchedClient(told.address, timeout_s=30) as client:
        client.list_nodes()
        told.stop()
        assert client.get_status().epoch == 3
    assert "GetClusterStatus" in later.calls


def test_frozen_master_is_passed_over_within_its_try(start_master, monkeypatch):
    monkeypatch.setattr(targets, "TRY_S", 0.2)
    frozen, alive = start_master(), start_master()
    frozen.frozen = True
    with GoSchedClient([frozen.address, alive.address], timeout_s=30) as client:
        assert client.get_status().epoch == 3
    frozen.frozen = False


def submitted(client, count):
    for number in range(count):
        client.submit(f"name: job-{number}\nrun: echo hi")


def followed(start_master):
    """Return a leader, and a follower that passes calls on to it."""
    leader = start_master()
    follower = start_master(shared=leader)
    follower.leader = leader.address
    return leader, follower


def test_a_call_that_was_passed_on_is_followed_by_calls_of_the_leader_itself(start_master, monkeypatch):
    leader, follower = followed(start_master)
    monkeypatch.setattr(random, "randrange", lambda _: 0)
    with GoSchedClient([follower.address, leader.address], timeout_s=30) as client:
        submitted(client, 4)
    assert (follower.calls, leader.calls) == (["SubmitJob"], ["SubmitJob"] * 3)


def test_a_leader_that_has_gone_is_asked_no_more(start_master, monkeypatch):
    leader, follower = followed(start_master)
    monkeypatch.setattr(random, "randrange", lambda _: 0)
    with GoSchedClient([follower.address, leader.address], timeout_s=30) as client:
        submitted(client, 2)
        leader.stop()  # the follower has not heard of it, and names it on
        submitted(client, 5)
    assert follower.calls == ["SubmitJob"] * 6


def test_a_leader_that_the_client_was_not_told_of_is_not_called(start_master):
    leader, follower = followed(start_master)
    with GoSchedClient(follower.address, timeout_s=30) as client:
        submitted(client, 3)
    assert (len(follower.calls), leader.calls) == (3, [])


def test_a_frozen_leader_costs_one_try_and_not_one_of_each_call(start_master, monkeypatch):
    monkeypatch.setattr(targets, "TRY_S", 0.2)
    leader, follower = followed(start_master)
    monkeypatch.setattr(random, "randrange", lambda _: 0)
    with GoSchedClient([follower.address, leader.address], timeout_s=30) as client:
        submitted(client, 1)
        leader.frozen = True
        submitted(client, 4)
        assert leader.calls == ["SubmitJob"]
        assert follower.calls == ["SubmitJob"] * 5
        leader.frozen = False


def test_unknown_outcome_is_asked_again_under_the_same_request_id(start_master):
    first = start_master()
    second = start_master(shared=first)
    first.fail_after_commit = second.fail_after_commit = True
    with GoSchedClient([first.address, second.address], timeout_s=30) as client:
        assert client.submit(JOB).job_id == "j-1"
    assert list(first.jobs) == ["j-1"]
    assert first.calls.count("SubmitJob") + second.calls.count("SubmitJob") >= 2


@pytest.mark.parametrize("ahead_ms", [-7_200_000, 7_200_000])
def test_a_client_whose_clock_is_hours_off_learns_the_masters_time(start_master, ahead_ms):
    master = start_master()
    master.clock_ahead_ms = ahead_ms
    with GoSchedClient(master.address) as client:
        assert [client.submit(JOB).job_id for _ in range(2)] == ["j-1", "j-2"]
    assert master.calls.count("SubmitJob") == 3, "the second submission has the right time at once"


def test_a_change_that_may_have_been_made_gets_no_other_id(start_master):
    """The first try may have been carried out, by a clock that was another one then."""
    first, second = start_master(), start_master()
    first.clock_ahead_ms = second.clock_ahead_ms = 7_200_000
    first.failures = second.failures = [grpc.StatusCode.UNAVAILABLE]
    with GoSchedClient([first.address, second.address], timeout_s=30) as client, pytest.raises(OutOfTime):
        client.submit(JOB)
    assert first.jobs == second.jobs == {}


def test_a_callers_own_id_is_never_replaced(start_master):
    master = start_master()
    master.clock_ahead_ms = 7_200_000
    with GoSchedClient(master.address) as client, pytest.raises(OutOfTime, match="made at another time"):
        client.submit(JOB, request_id=request_id_at(time.time_ns() // 1_000_000, "x"))
    assert master.jobs == {}


def test_a_change_of_unknown_outcome_says_under_which_id_to_repeat_it(start_master):
    master = start_master()
    master.cut_off_after = 0
    with GoSchedClient(master.address, timeout_s=0.5) as client, pytest.raises(Unavailable, match="look") as caught:
        client.submit_all([JOB])
    assert made_at_ms(caught.value.request_id) is not None


def test_each_submission_has_a_request_id_of_its_own(start_master):
    with GoSchedClient(start_master().address) as client:
        assert [client.submit(JOB).job_id for _ in range(2)] == ["j-1", "j-2"]


def test_own_request_id_gives_the_first_answer_to_another_client_too(start_master):
    address = start_master().address
    with GoSchedClient(address) as one, GoSchedClient(address) as other:
        assert one.submit(JOB, request_id="r1").job_id == other.submit(JOB, request_id="r1").job_id == "j-1"


def test_without_any_master_the_call_ends_in_time_with_code_5():
    with GoSchedClient(HeldPort().address, timeout_s=0.5) as client, pytest.raises(Unavailable) as caught:
        client.get_status()
    assert (caught.value.exit_code, caught.value.was_reached) == (5, False)


def test_error_without_a_leader_is_what_a_living_master_says(start_master):
    dead, alive = HeldPort(), start_master()
    alive.failures = [grpc.StatusCode.UNAVAILABLE] * 1000
    with (
        GoSchedClient([dead.address, alive.address], timeout_s=1.0) as client,
        pytest.raises(Unavailable, match="no leader") as caught,
    ):
        client.get_status()
    assert caught.value.was_reached


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, Refused),
        (grpc.StatusCode.NOT_FOUND, NotFound),
        (grpc.StatusCode.PERMISSION_DENIED, Denied),
    ],
)
def test_refusal_is_not_tried_again(start_master, code, kind):
    master = start_master()
    master.failures = [code]
    with GoSchedClient(master.address) as client, pytest.raises(kind, match="no leader"):
        client.get_status()
    assert master.calls == ["GetClusterStatus"]


def test_list_jobs_turns_all_pages_newest_first_up_to_the_limit(start_master):
    with GoSchedClient(start_master().address) as client:
        for _ in range(5):
            client.submit(JOB)
        assert [job.id for job in client.list_jobs()] == ["j-5", "j-4", "j-3", "j-2", "j-1"]
        assert [job.id for job in client.list_jobs(limit=3)] == ["j-5", "j-4", "j-3"]
        assert client.list_jobs(states=[JobState.FAILED]) == []


def test_watch_goes_on_over_a_broken_stream_without_repeats(start_master):
    master = start_master()
    master.views = [
        [(JobState.PENDING, 5), (JobState.RUNNING, 8)],
        [(JobState.PENDING, 7), (JobState.RUNNING, 8), (JobState.RUNNING, 9)],  # a master that lags behind
        [(JobState.SUCCEEDED, 11)],
    ]
    with GoSchedClient(master.address) as client:
        job = client.submit(JOB).job_id
        assert [detail.revision for detail in client.watch(job)] == [5, 8, 9, 11]


def test_wait_times_out_with_code_124_while_the_job_goes_on(start_master):
    master = start_master()
    with GoSchedClient(master.address) as client:
        job = client.submit(JOB).job_id
        master.frozen = True
        with pytest.raises(TimedOut) as caught:
            client.wait(job, timeout=0.3)
        master.frozen = False
    assert caught.value.exit_code == 124


def test_logs_go_on_over_broken_streams_byte_for_byte(start_master):
    master = start_master()
    master.log = b"".join(b"line %d\n" % n for n in range(50))
    master.log_breaks = [10, 11, 11, 200]
    with GoSchedClient(master.address) as client:
        job = client.submit(JOB).job_id
        chunks = list(client.logs(job, follow=True))
    assert b"".join(chunk.data for chunk in chunks) == master.log
    assert all(master.log[c.offset : c.offset + len(c.data)] == c.data for c in chunks)


def test_logs_of_an_unknown_job_are_not_found(start_master):
    with GoSchedClient(start_master().address) as client, pytest.raises(NotFound):
        list(client.logs("nobody"))


def test_nodes_are_filtered_by_labels(start_master):
    with GoSchedClient(start_master().address) as client:
        assert [node.node.id for node in client.list_nodes(labels={"zone": "a"})] == ["n-1"]
        assert client.list_nodes()[0].heartbeat_age_ms is None
        assert client.list_nodes(labels={"zone": "b"}) == []


@pytest.mark.parametrize(
    "endpoints",
    [
        *(
            "",
            "host",
            " , ",
            ["http//x"],
            ":9090",
            "host:port",
            "host:0",
            "host:99999",
            "host:\u00b2",
            "host:9090/path",
        ),
        *("a..b:9090", f"{'a' * 64}:9090", "[::1:9090", "http://", "http://host:port"),
    ],
)
def test_bad_endpoints_are_refused_at_once(endpoints):
    with pytest.raises(GoSchedError, match=r"host:port|host:9090"):
        GoSchedClient(endpoints)


def test_sdk_is_importable_from_the_package(start_master):
    import gosched

    client = gosched.GoSchedClient(start_master().address)
    assert client.get_status().pending == 0
    client.close()


def test_invalid_yaml_reaches_no_master(start_master):
    master: FakeMaster = start_master()
    with GoSchedClient(master.address) as client, pytest.raises(GoSchedError, match="did you mean"):
        client.submit("name: a\nrn: x")
    assert master.calls == []
