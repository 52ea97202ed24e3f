"""A command that meets a bug is refused where it had changed nothing, on all masters alike; else the master ends."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType

import pytest

from gosched import state_machine
from gosched.core.commands.cluster import DropWindow, Noop, Skipped
from gosched.core.commands.command import Command
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.events import CommandFailed
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted, Code, Refusal, Rejected
from gosched.core.records.reservation import Reservation
from gosched.core.state import cluster_state
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.core.state.tables import TABLES, VALUES
from gosched.state_machine import MachineBug, apply, plans, reservations, windows
from gosched.wire.batch import decode_batch, encode_batch, encode_command, name_of, skip_in
from tests.state_machine import chaos
from tests.state_machine.cluster import Cluster, gang, registration, spec

ASKED = Command(body=DropWindow(name="w"), client_id="c", request_id="r")


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, writes: bool = False) -> None:
    """Let the handler of DropWindow raise."""

    def broken(state: ClusterState, *_: object) -> None:
        if writes:
            state.set_next_sequence(7)
        raise error

    monkeypatch.setattr(windows, "drop", broken)


def test_a_bug_before_the_first_write_is_a_refusal_alike_on_all_masters(monkeypatch):
    raising(monkeypatch, KeyError(object()))
    states = [Cluster().state, restore(Cluster().state.freeze())]
    applied = [apply(state, ASKED) for state in states]
    assert applied[0] == applied[1]
    outcome, events = applied[0]
    assert isinstance(outcome, Rejected)
    assert outcome.code is Code.MACHINE_BUG
    assert outcome.detail.startswith("DropWindow met a bug of gosched (KeyError) and changed nothing")
    assert events == (CommandFailed(command="DropWindow", why="KeyError"),)
    assert isinstance(events[0], CommandFailed)
    assert re.search(r" > test_machine_bugs.py:\d+ broken: <object", events[0].trace)
    assert states[0].digest() == states[1].digest()
    assert isinstance(apply(states[0], Command(body=registration("n1")))[0], Accepted), "the cluster goes on"


def test_the_refusal_is_remembered_for_repeats_also_once_the_bug_is_mended(monkeypatch):
    state = Cluster().state
    with monkeypatch.context() as until_mended:
        raising(until_mended, KeyError(1))
        first, _ = apply(state, ASKED)
    assert apply(state, ASKED) == (first, ())


@pytest.mark.parametrize(
    "error", [MemoryError(), RecursionError(), RuntimeError(), OSError(), ImportError(), KeyboardInterrupt()]
)
def test_what_one_master_may_meet_alone_is_no_refusal(monkeypatch, error):
    raising(monkeypatch, error)
    passes = isinstance(error, (MemoryError, KeyboardInterrupt))
    with pytest.raises(type(error) if passes else MachineBug):
        apply(Cluster().state, ASKED)


def test_a_bug_after_a_write_and_any_bug_below_level_5_end_the_master(monkeypatch):
    with monkeypatch.context() as first:
        raising(first, KeyError(1), writes=True)
        with pytest.raises(MachineBug, match=r"DropWindow at revision \d+ met a bug \(KeyError: 1\)"):
            apply(Cluster().state, ASKED)
    raising(monkeypatch, KeyError(1))
    with pytest.raises(MachineBug):
        apply(ClusterState(feature_level=FeatureLevel.FIRST), ASKED)


def test_a_skipped_command_is_refused_under_its_request_and_the_others_of_its_entry_are_not():
    commands = [Command(body=registration("n1")), ASKED, Command(body=Noop())]
    entry = encode_batch("p", 1, [encode_command(command) for command in commands], level=FeatureLevel.FIRST)
    assert [name_of(entry, at) for at in (0, 1, 2, 3, 4)] == ["", "RegisterNode", "DropWindow", "Noop", ""]
    skipped = decode_batch(skip_in(entry, 2, level=FeatureLevel.BOUNDED))
    assert skipped.commands == (commands[0], skipped.commands[1], commands[2])
    assert skipped.commands[1] == Command(body=Skipped(kind="DropWindow"), client_id="c", request_id="r")
    state = Cluster().state
    outcomes = [apply(state, command)[0] for command in skipped.commands]
    assert [type(outcome) for outcome in outcomes] == [Accepted, Rejected, Accepted]
    assert apply(state, ASKED)[0] == outcomes[1], "a repeat of the request is not carried out"


# Any function of the state machine may raise, at any moment.


class Injection:
    """Raises a KeyError at one call, counted, of a function of core or state_machine."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __enter__(self) -> None:
        sys.setprofile(self._called)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and ("/gosched/state_machine/" in name or "/gosched/core/" in name):
            self._left -= 1
            if self._left == 0:
                raise KeyError("injected")


def contents(state: ClusterState) -> dict[str, object]:
    """All that a refused command leaves as it is."""
    kept = {name: getattr(state, name) for name in VALUES if name not in ("revision", "clock_ms")}
    tables = [table for table in TABLES if table.name not in ("answers", "answered")]
    return kept | {table.name: list(table.items(state)) for table in tables}


def course(seed: int, commands: int = 120) -> Counter[str]:
    """What came of commands with a bug in the middle, and how often. Raises AssertionError."""
    r, state, seen = Random(seed), ClusterState(), Counter[str]()
    for number, command in enumerate([*chaos.opening(), *chaos.commands(r, state, commands)]):
        twin = restore(state.freeze())
        before = contents(twin)
        try:
            with Injection(r.choice((3, 5, 9, 20, 60, r.randrange(4, 400)))):
                outcome, _ = apply(twin, command)
        except MachineBug:
            outcome = None
            seen["ended"] += 1
        if isinstance(outcome, Rejected) and outcome.code is Code.MACHINE_BUG:
            seen["refused"] += 1
            assert contents(twin) == before, command
            assert check(twin) == []
            again = restore(state.freeze())
            assert apply(twin, Command(body=Noop(), at_ms=0)) == apply(again, Command(body=Noop(), at_ms=0))
            twin.revision -= 1
            unasked = Command(body=command.body, at_ms=command.at_ms, epoch=command.epoch)
            assert apply(twin, unasked) == apply(again, unasked), "its indexes are as they were"
        apply(state, command)
        seen["commands"] += number > 0
    return seen


def test_a_refused_command_left_everything_as_it_was_wherever_it_raised():
    seen = sum([course(seed) for seed in (1, 2)], Counter[str]())
    assert min(seen["refused"], seen["ended"]) > 20, seen


def test_the_course_finds_a_write_that_is_not_counted(monkeypatch):
    monkeypatch.setattr(ClusterState, "writes", property(lambda _: 0, lambda *_: None), raising=False)
    with pytest.raises(AssertionError):
        sum([course(seed) for seed in range(1, 10)], Counter[str]())


def test_each_change_of_the_state_is_counted_before_it_is_made():
    source = ast.parse(inspect.getsource(cluster_state))
    state = next(part for part in source.body if isinstance(part, ast.ClassDef) and part.name == "ClusterState")
    prefixes = ("put_", "drop_", "set_", "raise_", "order_", "_put", "_drop")
    changes = [part for part in state.body if isinstance(part, ast.FunctionDef) and part.name.startswith(prefixes)]
    assert len(changes) > 40
    for change in changes:
        first = ast.unparse(change.body[1 if ast.get_docstring(change) else 0])
        assert first == "self.writes += 1" or first.startswith(("self._put(", "self._drop(")), change.name


_IN_PLACE = {"pop", "popitem", "clear", "update", "setdefault", "append", "pop_due", "add", "charge", "put", "drop"}


def test_no_handler_changes_a_value_or_an_index_past_the_state():
    """What is assigned, or changed in place, of `state` is counted by nobody."""
    found = []
    for path in sorted(Path(state_machine.__file__).parent.glob("*.py")):
        for part in ast.walk(ast.parse(path.read_text())):
            changed: list[ast.expr] = []
            if isinstance(part, ast.Assign):
                changed = part.targets
            elif isinstance(part, ast.AugAssign | ast.AnnAssign):
                changed = [part.target]
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _IN_PLACE:
                changed = [part.func]
            found += [f"{path.name}: {ast.unparse(one)}" for one in changed if ast.unparse(one).startswith("state.")]
    assert found == ["apply.py: state.revision", "apply.py: state.clock_ms", "timeouts.py: state.pop_due"]


def test_a_gang_that_meets_a_bug_is_refused_alone_and_its_plan_goes_on(monkeypatch):
    right, cluster = plans._gang_problem, Cluster()
    cluster.node()
    for name in ("j1", "j2"):
        cluster.submit(spec(name), name)
    before = cluster.state.freeze()

    def broken(state: ClusterState, wanted: GangPlacement) -> str:
        return right(state, wanted) if wanted.job_id != "j2" else {}["j2"]

    monkeypatch.setattr(plans, "_gang_problem", broken)
    command = Command(
        body=CommitPlan(revision=0, gangs=tuple([gang(cluster.job(name), "n1") for name in ("j1", "j2")])), at_ms=1
    )
    applied = [apply(state, command) for state in (cluster.state, restore(before))]
    assert applied[0] == applied[1]
    outcome, events = applied[0]
    assert isinstance(outcome, Accepted)
    assert outcome.refusals == (Refusal(job_id="j2", detail="KeyError in CommitPlan, a bug of gosched", is_bug=True),)
    assert CommandFailed(command="CommitPlan", why="KeyError") in events
    assert [cluster.job(name).active for name in ("j1", "j2")] == [2, 0]
    assert check(cluster.state) == []


def test_a_gang_that_meets_a_bug_when_it_is_half_placed_ends_the_master(monkeypatch):
    cluster = Cluster()
    cluster.node()
    cluster.submit(spec(), "j1")

    def half(state: ClusterState, *_: object) -> None:
        state.set_next_sequence(7)
        raise KeyError

    monkeypatch.setattr(plans, "place", half)
    with pytest.raises(MachineBug):
        apply(cluster.state, Command(body=CommitPlan(revision=0, gangs=(gang(cluster.job("j1"), "n1"),)), at_ms=1))


def test_a_reservation_that_meets_a_bug_is_refused_alone(monkeypatch):
    cluster = Cluster()
    cluster.node()
    for name in ("j1", "j2"):
        cluster.submit(spec(name), name)

    def broken(state: ClusterState, wanted: Reservation) -> str:
        raise KeyError

    monkeypatch.setattr(reservations, "reservation_problem", broken)
    wanted = Reservation(job_id="j2", attempt=1, start_ms=10, end_ms=20, shares=(), made_at_ms=1)
    plan = CommitPlan(revision=0, gangs=(gang(cluster.job("j1"), "n1"),), reservations=(wanted,))
    outcome, _ = apply(cluster.state, Command(body=plan, at_ms=1))
    assert isinstance(outcome, Accepted)
    assert [(refusal.job_id, refusal.is_bug) for refusal in outcome.refusals] == [("j2", True)]
    assert cluster.job("j1").active == 2
