"""Windows are made, changed, dropped, and forgotten when they have ended."""

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import DropWindow, PassTime, SetQueues, SetWindow
from gosched.core.events import WindowsChanged
from gosched.core.outcome import Code
from gosched.core.records.queue import Queue
from gosched.core.records.window import Window
from gosched.core.state.restore import restore
from gosched.state_machine import windows
from tests.state_machine.cluster import Cluster

REPAIR = Window(name="repair", start_ms=1000, end_ms=2000, nodes=("n1",), reason="new disks")


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2")
    return cluster


def test_a_window_is_made_and_the_same_again_changes_nothing(c):
    assert c.accept(SetWindow(window=REPAIR)).subject == "repair"
    assert c.events == (WindowsChanged(),)
    assert c.accept(SetWindow(window=REPAIR)).unchanged
    assert c.events == ()
    assert restore(c.state.freeze()).windows == {"repair": REPAIR}


def test_a_window_is_changed_by_its_name(c):
    c.accept(SetWindow(window=REPAIR))
    longer = replace(REPAIR, end_ms=0, nodes=("n1", "n2"), queues=("default",), tenants=("nlp", "vision"))
    assert not c.accept(SetWindow(window=longer)).unchanged
    assert c.state.windows == {"repair": longer}


def test_a_window_is_dropped_once(c):
    c.accept(SetWindow(window=REPAIR))
    c.accept(DropWindow(name="repair"))
    assert (c.state.windows, c.events) == ({}, (WindowsChanged(),))
    assert c.reject(DropWindow(name="repair"), Code.NOT_FOUND) == "no window 'repair': it has ended, or never was"


def test_an_ended_window_is_forgotten_as_time_passes_and_with_the_next_one(c):
    for name, end in (("a", 2000), ("b", 3000), ("open", 0)):
        c.accept(SetWindow(window=replace(REPAIR, name=name, end_ms=end)))
    assert c.accept(PassTime(), at_ms=1999).unchanged
    c.accept(PassTime(), at_ms=2000)
    assert (list(c.state.windows), c.events) == (["b", "open"], (WindowsChanged(),))
    c.accept(SetWindow(window=replace(REPAIR, name="c", end_ms=5000)), at_ms=3000)
    assert (list(c.state.windows), c.events) == (["open", "c"], (WindowsChanged(),))


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"name": ""}, Code.INVALID, "window name is empty"),
        ({"name": "a b"}, Code.INVALID, "may hold only letters"),
        ({"nodes": ()}, Code.INVALID, "window repair is of no node"),
        ({"nodes": ("n1", "n1")}, Code.INVALID, "nodes must be sorted and distinct"),
        ({"nodes": ("n2", "n1")}, Code.INVALID, "nodes must be sorted and distinct"),
        ({"nodes": ("n9",)}, Code.NOT_FOUND, "is of node 'n9', and there is no such node"),
        ({"nodes": tuple(f"{i:09}" for i in range(30_000))}, Code.INVALID, "names take 270000 bytes"),
        ({"queues": ("nope",)}, Code.NOT_FOUND, "is for queue 'nope', and there is no such queue"),
        ({"queues": ("b", "a")}, Code.INVALID, "queues must be sorted"),
        ({"tenants": ("b", "a")}, Code.INVALID, "tenants must be sorted"),
        ({"tenants": ("a\n",)}, Code.INVALID, "tenant 'a\\n' may hold only"),
        ({"start_ms": -1}, Code.INVALID, "its start -1 ms is not between"),
        ({"end_ms": 1 << 60}, Code.INVALID, "its end 1152921504606846976 ms is not between"),
        (
            {"end_ms": 1000},
            Code.INVALID,
            "repair ends at 1970-01-01T00:00:01Z, not after its start at 1970-01-01T00:00:01Z",
        ),
        ({"start_ms": 1, "end_ms": 2}, Code.INVALID, "window repair has ended already"),
        ({"reason": "a\nb"}, Code.INVALID, "its reason must be one line"),
        ({"reason": "x" * 1025}, Code.INVALID, "at most 1024 characters"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(c, changes, code, why):
    assert why in c.reject(SetWindow(window=replace(REPAIR, **changes)), code)


def test_there_are_only_so_many_windows_and_ended_ones_do_not_count(c, monkeypatch):
    monkeypatch.setattr(windows, "MAX_WINDOWS", 1)
    c.accept(SetWindow(window=REPAIR))
    c.accept(SetWindow(window=replace(REPAIR, reason="more disks")))
    later = SetWindow(window=replace(REPAIR, name="later", end_ms=9000))
    assert "there are 1 windows, the limit" in c.reject(later, Code.EXHAUSTED)
    c.accept(later, at_ms=2000)
    assert list(c.state.windows) == ["later"]


def test_a_window_outlives_the_queue_that_it_was_for(c):
    c.accept(SetQueues(queues=(Queue(path="default"), Queue(path="lab"))))
    c.accept(SetWindow(window=replace(REPAIR, queues=("lab",))))
    c.accept(SetQueues(queues=(Queue(path="default"),)))
    assert c.state.windows["repair"].queues == ("lab",)
