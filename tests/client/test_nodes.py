from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from gosched.client import GoSchedClient, NotFound, Refused, Unavailable


def test_a_change_of_a_node_is_asked_again_under_the_same_request_id(start_master):
    first, second = start_master(), start_master()
    first.failures = second.failures = [grpc.StatusCode.UNAVAILABLE]
    with GoSchedClient([first.address, second.address]) as client:
        done = client.drain("n-1", reason="kernel", deadline_s=0.5)
    assert (done.node_id, done.staying, done.unchanged) == ("n-1", ("j-1",), False)
    asked = first.requests + second.requests
    assert len(asked) == 2
    assert len({request.request_id for request in asked}) == 1
    assert {(request.reason, request.drain_in_ms) for request in asked} == {("kernel", 500)}


def test_a_change_whose_outcome_is_not_known_says_so(start_master):
    master = start_master()
    master.failures = [grpc.StatusCode.UNAVAILABLE] * 100
    with (
        GoSchedClient(master.address, timeout_s=0.3) as client,
        pytest.raises(Unavailable, match="may still take effect"),
    ):
        client.drain("n-1")


def test_a_node_is_found_by_id_first_and_by_a_name_that_is_its_own(start_master):
    master = start_master()
    with GoSchedClient(master.address) as client:
        one = client.get_node("host").node
        assert one.id == "n-1"
        master.more_nodes = [replace(one, id="n-2"), replace(one, id="host", name="other")]
        assert client.get_node("host").node.id == "host"
        master.more_nodes.pop()
        with pytest.raises(Refused, match="2 nodes are named 'host': say which by its id: n-1, n-2"):
            client.get_node("host")
        with pytest.raises(NotFound):
            client.get_node("nobody")
