"""An application that is followed to its end, where YARN forgets, fails or was asked before.

tests/integration/test_yarn.py has it with a real YARN and a job of gosched.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from gosched.integrations.yarn import Submission, YarnApplication, YarnClient, YarnNotFound, YarnUnreachable, following
from gosched.integrations.yarn.following import Run, run_to_end

from .scripted import Answer, serving

ID, OLD, OLDER = "application_1700000000000_0009", "application_1700000000000_0002", "application_1700000000000_0001"
NONE = Answer({"apps": {}})
SUBMITTED = (NONE, Answer({"application-id": ID}), Answer(b"", 202))
FAILED = "AM Container for appattempt_1_2_000001 exited with  exitCode: {}\nFailing this attempt."


def app(state: str, *, id: str = ID, result: str = "UNDEFINED", why: str = "") -> dict[str, object]:
    return {"id": id, "state": state, "finalStatus": result, "diagnostics": why}


def one(state: str, **more: str) -> Answer:
    return Answer({"app": app(state, **more)})


def followed(
    *answers: Answer, stops: bool = False, tag: str = "t"
) -> tuple[YarnApplication, int, list[str], Sequence[str]]:
    """Return the application, the exit code, what was said, and what was asked, without queries."""
    stop, said = threading.Event(), list[str]()
    if stops:
        stop.set()
    with serving(*answers) as rm:
        client = YarnClient([rm.url], timeout_s=5, failover_s=0)
        wanted = Submission(id="", name="n", command="c")
        found, code = run_to_end(Run(client=client, wanted=wanted, tag=tag, stop=stop, say=said.append))
    asked = [f"{method} {path.partition('?')[0].removeprefix('/ws/v1/cluster/')}" for method, path, _, _ in rm.asked]
    return found, code, said, asked


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LEAST_PAUSE_S", 0.01)
    monkeypatch.setattr(following, "_MOST_PAUSE_S", 0.01)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (one("FINISHED", result="SUCCEEDED"), 0),
        (one("FINISHED", result="FAILED"), 1),
        (one("FAILED", result="FAILED", why=FAILED.format(0)), 0),
        (one("FAILED", result="FAILED", why=FAILED.format(7)), 7),
        (one("FAILED", result="FAILED", why=FAILED.format(-100)), 1),
        (one("FAILED", result="FAILED", why=FAILED.format(99999)), 1),
        (one("FAILED", result="FAILED", why="no queue of this name"), 1),
        (one("KILLED", result="KILLED"), 1),
    ],
)
def test_the_exit_code_is_the_results_or_the_commands(end: Answer, code: int) -> None:
    found, got, said, asked = followed(*SUBMITTED, one("ACCEPTED"), one("RUNNING"), end)
    assert (found.id, got) == (ID, code)
    assert [line.partition(": ")[2] for line in said] == ["submitted", "RUNNING", found.state]
    assert asked.count("POST apps") == 1


@pytest.mark.parametrize(
    ("earlier", "chosen"),
    [
        ([app("RUNNING", id=OLD)], OLD),
        ([app("RUNNING", id=OLD), app("FINISHED", id=OLDER, result="SUCCEEDED")], OLD),
        ([app("FINISHED", id=OLD, result="SUCCEEDED"), app("FAILED", id=OLDER)], OLD),
    ],
)
def test_an_application_of_an_earlier_start_is_taken_over(earlier: list[dict[str, object]], chosen: str) -> None:
    end = one("FINISHED", id=chosen, result="SUCCEEDED")
    found, code, said, asked = followed(Answer({"apps": {"app": earlier}}), end)
    assert (found.id, code) == (chosen, 0)
    assert "POST apps" not in asked
    assert said[0] == f"{chosen}: taken over from an earlier start, by its tag t"


def test_one_that_has_failed_is_followed_by_another_and_without_a_tag_none_is_looked_for() -> None:
    failed = Answer({"apps": {"app": app("FAILED", id=OLD)}})
    end = one("FINISHED", result="SUCCEEDED")
    assert "POST apps" in followed(failed, *SUBMITTED[1:], end)[3]
    assert followed(*SUBMITTED[1:], end, tag="")[3][0] == "POST apps/new-application"


def test_one_that_is_to_stop_is_killed_and_its_end_waited_for() -> None:
    killing = (Answer({"state": "KILLING"}, 202), Answer({"state": "KILLED"}))
    found, code, said, asked = followed(*SUBMITTED, one("RUNNING"), *killing, one("KILLED"), stops=True)
    assert (found.state, code) == ("KILLED", 143)
    assert asked.count(f"PUT apps/{ID}/state") == 2
    assert f"{ID}: is killed" in said


def test_a_kill_that_cannot_be_asked_for_yet_is_asked_for_again() -> None:
    end = (Answer({"state": "KILLED"}), one("KILLED"))
    found, code, _, asked = followed(*SUBMITTED, one("RUNNING"), Answer(b"", 503), Answer(b"", 503), *end, stops=True)
    assert (found.state, code) == ("KILLED", 143)
    assert asked.count(f"PUT apps/{ID}/state") == 3


def test_managers_that_do_not_answer_for_a_while_are_asked_again() -> None:
    found, code, said, _ = followed(*SUBMITTED, one("RUNNING"), Answer(b"", 503), one("FINISHED", result="SUCCEEDED"))
    assert (found.state, code) == ("FINISHED", 0)
    assert any(line.endswith("asking again") for line in said)


def test_managers_that_are_gone_for_long_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOST_S", 0.0)
    with pytest.raises(YarnUnreachable):
        followed(*SUBMITTED, one("RUNNING"), Answer(b"", 503))


def test_an_application_that_yarn_has_forgotten_ends_it() -> None:
    gone = Answer({"RemoteException": {"message": f"app with id: {ID} not found"}}, 404)
    with pytest.raises(YarnNotFound, match="YARN has forgotten it"):
        followed(*SUBMITTED, one("RUNNING"), gone)


@pytest.mark.parametrize(
    ("shown", "log"),
    [
        (b"Container: c on n\nLogLength:4\nLogContents:\nout\nEnd of LogType:stdout.\n****\n\n", b"out\n"),
        (b"Container: c on n\nLogContents:\nEnd of LogType:x\nEnd of LogType:stdout.\n", b"End of LogType:x\n"),
        (b"Container: c on n\nLogContents:\nEnd of LogType:stdout.\n****\n", b""),
        (b"as it is", b"as it is"),
    ],
)
def test_a_log_is_what_the_command_wrote(shown: bytes, log: bytes) -> None:
    with serving(Answer(shown)) as node:
        url = f"{node.url}/node/containerlogs/container_1_2_01_000001/ann"
        with serving(Answer({"app": {**app("RUNNING"), "amContainerLogs": url}})) as rm:
            client = YarnClient([rm.url], user="ann")
            assert client.log(client.app(ID), last_bytes=100) == log
    assert node.asked[0][1] == "/ws/v1/node/containerlogs/container_1_2_01_000001/stdout?size=-100&user.name=ann"


def test_logs_that_are_not_there_are_said() -> None:
    with serving(Answer(b"java.lang.Exception: Cannot find this log on the local disk.", 404)) as node:
        url = f"{node.url}/node/containerlogs/c/ann"
        for log_url, words in ((url, "has no such log"), ("", "has not been placed")):
            with serving(Answer({"app": {**app("RUNNING"), "amContainerLogs": log_url}})) as rm:
                client = YarnClient([rm.url])
                with pytest.raises(YarnNotFound, match=words):
                    client.log(client.app(ID))
