"""What is remembered of requests: for how long, how much, by whom, and what becomes of what is not."""

import random

import pytest

from gosched.core.commands.cluster import Noop, SetClock, SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.limits import (
    ANSWERS_KEPT_MS,
    MAX_CLOCK_STEP_MS,
    MAX_REQUEST_AGE_MS,
    MAX_REQUEST_AHEAD_MS,
)
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.queue import Queue
from gosched.core.request_ids import asker_of, made_at_ms, request_id_at, request_key, user_mark
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.state_machine import answers, apply
from tests.state_machine.cluster import spec

NOW = 1_764_307_216_123
ANN, BOB = user_mark("ann"), user_mark("bob")


def state_at(now_ms: int = NOW, level: FeatureLevel = FeatureLevel.BOUNDED) -> ClusterState:
    state = ClusterState(feature_level=level)
    state.clock_ms = now_ms
    state.put_queue(Queue(path="default"))
    return state


def ask(
    state: ClusterState, request: str, *, client: str = "c", after_ms: int = 0, body: Noop | SubmitJob | None = None
) -> Outcome:
    """Ask for a change so much later than the last."""
    command = Command(body=body or Noop(), client_id=client, request_id=request, at_ms=state.clock_ms + after_ms)
    return apply(state, command)[0]


def code_of(outcome: Outcome) -> Code:
    return outcome.code if isinstance(outcome, Rejected) else Code.UNSPECIFIED


def test_an_id_says_when_it_was_made_and_any_other_text_says_nothing():
    assert made_at_ms(request_id_at(NOW, "9f0c")) == NOW
    assert made_at_ms(request_id_at(NOW, "9f0c") + "/17") == NOW, "the place in a batch goes with it"
    for text in ("", "r1", "at12-x", f"at{NOW}", f"at{NOW}-", f"xat{NOW}-a", "0193f2a4-7c1e-7d3a-8f00-0123456789ab"):
        assert made_at_ms(text) is None


def test_a_request_is_one_of_its_user_and_with_a_time_from_any_process():
    timed, text = request_id_at(NOW, "9f0c"), "nightly"
    assert request_key("one", timed) == request_key("other", timed)
    assert request_key("one", text) != request_key("other", text)
    assert request_key(f"{ANN}one", timed) == request_key(f"{ANN}other", timed) != request_key(f"{BOB}one", timed)
    assert request_key(f"{ANN}one", text) != request_key(f"{BOB}one", text)
    assert (asker_of(f"{ANN}one"), asker_of("one"), asker_of("")) == (ANN.strip(), "", "")


def test_a_request_is_remembered_for_its_time_whatever_others_ask():
    """Each request of a client of its own, and far more of them than were once remembered."""
    state = state_at()
    mine = request_id_at(NOW, "mine")
    first = ask(state, mine, body=SubmitJob(job_id="j1", spec=spec()))
    text = ask(state, "text", body=SubmitJob(job_id="j2", spec=spec("b")))
    for number in range(3_000):
        ask(state, f"r{number}", client=f"{BOB}{number}", after_ms=1)
    state.clock_ms = NOW + ANSWERS_KEPT_MS - 1
    again = SubmitJob(job_id="j3", spec=spec("c"))
    assert ask(state, mine, client="another process", body=again) == first == Accepted(subject="j1")
    assert ask(state, "text", body=again) == text == Accepted(subject="j2")
    assert [*state.jobs] == ["j1", "j2"]
    assert check(state) == []


def test_a_repeat_that_is_not_remembered_any_more_is_refused_and_not_carried_out():
    state = state_at()
    late, early = NOW + MAX_REQUEST_AHEAD_MS, NOW - MAX_REQUEST_AGE_MS
    ids = [request_id_at(made_ms, "x") for made_ms in (early, NOW, late)]
    assert [code_of(ask(state, request)) for request in ids] == [Code.UNSPECIFIED] * 3
    ask(state, "other", after_ms=ANSWERS_KEPT_MS)
    assert [*state.answered] == [request_key("c", "other")], "they are forgotten"
    body = SubmitJob(job_id="j1", spec=spec())
    for wait_ms in (1, 1, MAX_CLOCK_STEP_MS):
        for request in ids:
            refused = ask(state, request, after_ms=wait_ms, body=body)
            assert code_of(refused) is Code.OUT_OF_TIME
            assert "is not remembered: it was not carried out now, perhaps before" in str(refused)
    assert state.jobs == {}
    assert request_key("c", ids[0]) not in state.answered, "the refusal is not remembered"


def test_an_id_from_a_clock_that_is_ahead_is_refused_and_says_so():
    state = state_at()
    refused = ask(state, request_id_at(NOW + MAX_REQUEST_AHEAD_MS + 5_000, "x"))
    assert code_of(refused) is Code.OUT_OF_TIME
    assert "65 s later than now, by the cluster's clock; at most 60 s are allowed: set this machine's clock" in str(
        refused
    )


def test_below_level_5_ids_are_texts_and_the_raise_takes_over_what_is_remembered():
    state = state_at(level=FeatureLevel.FIRST)
    old, timed = request_id_at(NOW - 10 * MAX_REQUEST_AGE_MS, "x"), request_id_at(NOW, "y")
    kept = {request: ask(state, request, client=f"{ANN}c", body=SubmitJob(job_id=f"j-{request[-1]}", spec=spec(name)))
            for request, name in ((old, "a"), (timed, "b"), ("text", "c"))}  # fmt: skip
    assert all(isinstance(outcome, Accepted) for outcome in kept.values())
    apply(state, Command(body=SetFeatureLevel(level=FeatureLevel.BOUNDED, cluster_id="c")))
    assert state.answers == {}
    assert {answered.user for answered in state.answered.values()} == {ANN.strip()}
    for request, outcome in kept.items():
        assert ask(state, request, client=f"{ANN}c", body=SubmitJob(job_id="j", spec=spec("d"))) == outcome
    never_kept = request_id_at(NOW - 1, "z")
    assert code_of(ask(state, never_kept)) is Code.OUT_OF_TIME, "it may be among those that were forgotten"
    assert check(state) == check(restore(state.freeze())) == []


def test_a_user_over_its_share_is_refused_and_loses_nothing_and_others_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answers, "MAX_ANSWERED_BYTES", 8_000)
    state = state_at()
    first = {}
    for number in range(200):
        outcome = ask(state, f"r{number}", client=f"{ANN}c", body=SubmitJob(job_id=f"j{number}", spec=spec("a")))
        if code_of(outcome) is Code.EXHAUSTED:
            assert "a user may hold as much as it leaves: ask less often, and repeat this later" in str(outcome)
            break
        first[f"r{number}"] = outcome
    assert 40 <= len(first) <= 55, "a half of all that is remembered"
    for request, outcome in first.items():
        assert ask(state, request, client=f"{ANN}c") == outcome
    assert ask(state, "r", client=f"{BOB}c") == Accepted()
    assert ask(state, "") == Accepted(), "what is not to be remembered needs no share"
    ask(state, "r2", client=f"{BOB}c", after_ms=ANSWERS_KEPT_MS)
    assert ask(state, "r200", client=f"{ANN}c") == Accepted()
    assert check(state) == []


def test_after_the_clock_was_set_back_nothing_is_carried_out_again():
    state = state_at()
    forgotten, kept = request_id_at(NOW, "x"), request_id_at(NOW + ANSWERS_KEPT_MS, "y")
    ask(state, forgotten, body=SubmitJob(job_id="j1", spec=spec("a")))
    ask(state, kept, after_ms=ANSWERS_KEPT_MS, body=SubmitJob(job_id="j2", spec=spec("b")))
    assert [*state.answered] == [request_key("c", kept)]
    back_ms = 10 * 60_000
    apply(state, Command(body=SetClock(to_ms=state.clock_ms - back_ms)))
    assert check(state) == []
    twin = restore(state.freeze())
    assert twin.digest() == state.digest()
    body = SubmitJob(job_id="j3", spec=spec("c"))
    for minute in range(60):
        assert code_of(ask(state, forgotten, body=body)) is Code.OUT_OF_TIME
        assert ask(state, kept, body=body) == Accepted(subject="j2") or code_of(ask(state, kept)) is Code.OUT_OF_TIME
        assert code_of(ask(state, request_id_at(state.clock_ms, f"{minute}"), after_ms=60_000)) is Code.UNSPECIFIED
    assert [*state.jobs] == ["j1", "j2"]


def test_after_years_were_set_back_what_is_remembered_is_forgotten_in_an_hour():
    state = state_at(NOW + 10**11)
    ask(state, "r")
    apply(state, Command(body=SetClock(to_ms=NOW)))
    assert check(state) == []
    (answered,) = state.answered.values()
    assert answered.until_ms == NOW + ANSWERS_KEPT_MS + MAX_CLOCK_STEP_MS


class Life:
    """Clients with any clocks, floods of others, steps of the clock forward and some minutes back, restores."""

    def __init__(self, seed: int) -> None:
        self.rng, self.state = random.Random(seed), state_at()
        #: How often each request was carried out, by its user and its id.
        self.done: dict[str, int] = {}
        self.repeats = 0

    def live(self) -> None:
        asked: list[str] = []
        rng = self.rng
        for number in range(600):
            if rng.random() < 0.5 or not asked:
                skew_ms = rng.choice([0, 0, rng.randrange(-MAX_REQUEST_AGE_MS * 2, MAX_REQUEST_AHEAD_MS * 2)])
                made = request_id_at(self.state.clock_ms + skew_ms, str(number))
                asked.append(f"{rng.choice([ANN, BOB, ' '])}{made}")
            self.ask(rng.choice(asked[-50:]), number)
            if rng.random() < 0.02:
                step_ms = rng.randrange(-MAX_REQUEST_AGE_MS, MAX_REQUEST_AGE_MS)
                apply(self.state, Command(body=SetClock(to_ms=self.state.clock_ms + step_ms)))
            if rng.random() < 0.02:
                self.state = restore(self.state.freeze())

    def ask(self, key: str, number: int) -> None:
        user, _, request = key.partition(" ")
        body = SubmitJob(job_id=f"n{number}", spec=spec(f"n{number}"))
        after_ms = self.rng.choice([0, 1, 20_000])
        outcome = ask(self.state, request, client=f"{user} {number}".strip(), after_ms=after_ms, body=body)
        if isinstance(outcome, Accepted):
            self.repeats += key in self.done
            self.done[key] = self.done.get(key, 0) + (outcome.subject == body.job_id)


@pytest.fixture
def _little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWERED_BYTES", 20_000)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("_little_is_remembered")
def test_no_request_with_a_time_is_carried_out_twice_whatever_comes(seed: int):
    life = Life(seed)
    life.live()
    assert {*life.done.values()} == {1}
    assert life.repeats > 20
    assert check(life.state) == []
    assert life.state.footprint.tables["answered"] < 20_000


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("ANSWERS_KEPT_MS", MAX_REQUEST_AGE_MS // 2),
        ("MAX_REQUEST_AGE_MS", 2 * MAX_REQUEST_AGE_MS),
    ],
)
@pytest.mark.usefixtures("_little_is_remembered")
def test_these_lives_find_what_forgets_too_early(name: str, broken: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answers, name, broken)
    twice = 0
    for seed in range(6):
        life = Life(seed)
        life.live()
        twice += max(life.done.values()) > 1
    assert twice > 0
