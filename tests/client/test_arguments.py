"""Wrong arguments of every public method: a GoSchedError that says what was expected and what was given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.api.job_query import JobQuery
from gosched.client import GoSchedClient, GoSchedError, Misused
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.client.arguments import expected, fits, given_as, member
from gosched.core.commands.jobs import Action
from gosched.core.records.access import AccessRole
from gosched.core.records.job import JobState
from gosched.core.records.window import Window
from gosched.core.spec.job_spec import JobSpec
from tests.client.fake_cluster import FakeMaster

PUBLIC = [
    name
    for name in dir(GoSchedClient)
    if not name.startswith("_") and callable(getattr(GoSchedClient, name)) and name not in ("close", "take_backup")
]
FITTING = {
    "command": ["x"],
    "bindings": [],
    "role": AccessRole.VIEWER,
    "lasts_ms": 1000,
    "tasks": 1,
    "queues": [],
    "quotas": [],
    "query": JobQuery(),
    "window": Window(name="w", start_ms=1, nodes=()),
}
#: What no argument takes.
TAKE_BYTES = {("revoke_certificate", "certificate"), ("set_secret", "value")}
STRANGE = [object(), b"bytes", 1j, {1: 2}, {"a", "b"}, lambda: None, float("nan")]


@pytest.fixture(scope="module")
def client() -> Iterator[GoSchedClient]:
    master = FakeMaster()
    with GoSchedClient(master.address, timeout_s=5) as client:
        yield client
    master.stop()
    assert set(master.calls) <= {"PlanJob"}  # of no jobs; nothing else has sent anything


def arguments() -> list[tuple[str, str]]:
    return [
        (method, name)
        for method in PUBLIC
        for name in inspect.signature(getattr(GoSchedClient, method)).parameters
        if name != "self"
    ]


def called(client: GoSchedClient, method: str, argument: str, value: object) -> Any:
    """Call a method with a wrong argument, and fitting ones for what it cannot do without."""
    needed = inspect.signature(getattr(client, method)).parameters.values()
    given = {p.name: FITTING.get(p.name, "x") for p in needed if p.default is p.empty}
    return getattr(client, method)(**{**given, argument: value})


@pytest.mark.parametrize(("method", "argument"), arguments())
def test_a_wrong_type_is_refused_by_name_with_what_was_expected_and_given(client, method, argument):
    for value in STRANGE:
        if isinstance(value, bytes) and (method, argument) in TAKE_BYTES:
            continue
        with pytest.raises(Misused) as caught:
            called(client, method, argument, value)
        message = str(caught.value)
        assert message.startswith(f"{method}(): {argument}: expected ") or "a job is made of" in message, message
        assert f"({type(value).__name__})" in message


def test_every_public_method_of_one_client_is_in_the_other_with_the_same_arguments():
    for name in PUBLIC:
        mine, other = (inspect.signature(getattr(kind, name)) for kind in (GoSchedClient, AsyncGoSchedClient))
        assert list(mine.parameters.values()) == list(other.parameters.values()), name
        assert inspect.getdoc(getattr(GoSchedClient, name)), name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(job=JSON)
def test_whatever_is_submitted_is_a_job_or_a_gosched_error(client, job):
    try:
        client.plan(job) if isinstance(job, list) and not job else client.submit(job)
    except GoSchedError:
        return
    assert job == []  # the plan of no jobs


@settings(max_examples=50, deadline=None)
@given(values=st.dictionaries(st.sampled_from(["name", "run", "count", "resources", "env", "tasks"]), JSON, max_size=4))
def test_whatever_keys_a_job_has_it_is_a_spec_or_a_misuse(values):
    from gosched.client.spec import spec_of

    try:
        found: object = spec_of(values)
    except Misused as error:
        found = str(error)
    assert isinstance(found, JobSpec) or "\n" not in found


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda c: c.get_job(5), "get_job(): job: expected text, got 5 (int)"),
        (lambda c: c.list_jobs(states="RUNNING"), "expected a list of a JobState or text, got 'RUNNING' (str)"),
        (lambda c: c.list_jobs(states=["RUNING"]), "did you mean RUNNING?"),
        (lambda c: c.list_jobs(limit=True), "list_jobs(): limit: expected a whole number or None, got True (bool)"),
        (lambda c: c.list_jobs(since_ms=2**70), "list_jobs(): "),
        (lambda c: c.get_job("\udc80"), "get_job(): "),
        (lambda c: c.control("x", "holt"), "did you mean HOLD?"),
        (lambda c: c.wait("x", "5"), "wait(): timeout: expected a number or None, got '5' (str)"),
        (
            lambda c: c.submit(5),
            "submit(): job: expected a Job or a JobSpec or a mapping of text to anything or text or",
        ),
        (lambda c: c.submit([]), "got [] (list)"),
        (lambda c: c.submit("nowhere.yaml"), "cannot read the job file nowhere.yaml: No such file"),
        (lambda c: c.exec("x", "ls"), "exec(): command: expected a list of text, got 'ls' (str)"),
        (lambda c: c.drain("n", deadline_s=-1), "must not be negative"),
        (
            lambda _: GoSchedClient(8080),
            "GoSchedClient(): endpoints: expected text or a list of text or None, got 8080",
        ),
        (lambda _: GoSchedClient("h:1", tls=("a", "b", "c")), "tls: expected a TlsFiles or None, got ('a', 'b', 'c')"),
        (lambda _: GoSchedClient("https://h:8080"), "https://h:8080 needs the client's TLS files"),
    ],
)
def test_what_a_wrong_argument_says(client, call, says):
    with pytest.raises(Misused) as caught:
        call(client)
    assert says in str(caught.value)


def test_a_missing_argument_is_pythons_own_error(client):
    with pytest.raises(TypeError, match=r"get_job\(\) missing a required argument: 'job'"):
        client.get_job()


def test_names_of_enums_are_taken_in_any_case():
    assert member(JobState, "running") is JobState.RUNNING
    assert member(Action, Action.HOLD) is Action.HOLD


def test_a_value_whose_repr_fails_is_still_told_of():
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert given_as(Bad()) == "a value (Bad)"
    assert len(given_as("x" * 1000)) < 80


@pytest.mark.parametrize(
    ("value", "hint", "right"),
    [
        (1, float, True), (True, int, False), (1.5, int, False), ((1, 2), tuple[int, int], True),
        ((1,), tuple[int, int], False), (["a"], list[str], True), ({"a": 1}, dict[str, int], True),
        ({"a": "b"}, dict[str, int], False), (None, int | None, True), (("a",), tuple[str, ...], True),
    ],
)  # fmt: skip
def test_values_and_annotations(value, hint, right):
    assert fits(value, hint) is right
    assert expected(hint)


def test_enums_have_their_name():
    assert issubclass(JobState, Enum)
    assert expected(JobState) == "a JobState"
