"""`goschedctl yarn` where something is wrong; tests/integration/test_yarn.py has it with a real YARN."""

from __future__ import annotations

import json
import sys

import pytest

from gosched.cli.main import run_cli

from .scripted import Answer, serving

ID = "application_1700000000000_0001"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("info",), "no ResourceManager is named: give --rm http://HOST:8088, or set GOSCHED_YARN_RM"),
        (("--rm", "ftp://a", "info"), "'ftp://a' is no address of a ResourceManager: expected http://HOST:8088"),
        (("--rm", "a:1", "app", "7"), "'7' is no id of an application, such as application_1700000000000_0001"),
        (("--rm", "a:1", "submit", "--env", "A", "true"), "--env: expected NAME=VALUE, got 'A'"),
        (("--rm", "a:1", "submit", "--memory", "7", "true"), "--memory: needs a unit such as 7Mi or 7Gi"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_asked(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOSCHED_YARN_RM", raising=False)
    assert run_cli(["yarn", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (Answer(b"", 403), 4, "answers 403: say who you are"),
        (Answer({"RemoteException": {"message": "no such app"}}, 404), 1, "no such app"),
        (Answer(b"<html>"), 1, "no JSON"),
        (Answer(b"", 503), 5, "no ResourceManager answers: "),
    ],
)
def test_each_failure_has_its_exit_code(
    answer: Answer, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(answer) as rm:
        assert run_cli(["yarn", "--rm", rm.url, "app", ID]) == code
    assert said in capsys.readouterr().err


def test_where_the_package_for_kerberos_is_missing_it_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with serving(Answer(b"", 401, {"WWW-Authenticate": "Negotiate"})) as rm:
        assert run_cli(["yarn", "--rm", rm.url, "info"]) == 4
    assert "127.0.0.1 asks for Kerberos: pip install 'gosched[kerberos]'" in capsys.readouterr().err


def test_text_of_others_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    app = {"id": ID, "name": "\x1b[2Jevil", "state": "FAILED", "diagnostics": "a\x1b]0;b\nline\x9b2J"}
    with serving(Answer({"app": app}), Answer({"apps": {"app": app}})) as rm:
        assert run_cli(["yarn", "--rm", rm.url, "app", ID]) == 0
        assert run_cli(["yarn", "--rm", rm.url, "apps"]) == 0
    out = capsys.readouterr().out
    assert "evil" in out
    assert not {"\x1b", "\x9b"} & set(out)


def test_a_command_of_several_words_is_quoted_for_the_shell_and_one_word_is_its_line() -> None:
    new = Answer({"application-id": ID})
    with serving(new, Answer(b"", 202), new, Answer(b"", 202)) as rm:
        assert run_cli(["yarn", "--rm", rm.url, "submit", "echo a && echo b"]) == 0
        assert run_cli(["yarn", "--rm", rm.url, "submit", "--", "echo", "a && b"]) == 0
    bodies = [json.loads(body) for _, path, body, _ in rm.asked if path.startswith("/ws/v1/cluster/apps?")]
    lines = [body["am-container-spec"]["commands"]["command"] for body in bodies]
    assert [line.split("\n")[0] for line in lines] == ["{ echo a && echo b", "{ echo 'a && b'"]
    assert {line.split("\n")[1] for line in lines} == {"} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"}


def test_one_that_had_ended_before_it_was_killed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Answer({"state": "FINISHED"})) as rm:
        assert run_cli(["yarn", "--rm", rm.url, "kill", ID]) == 0
    assert capsys.readouterr().err == f"{ID}: had ended before: FINISHED\n"
