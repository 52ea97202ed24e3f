"""Clusters by name: which one a command talks to, and the file that names them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gosched.cli.main import root_options_first, run_cli
from gosched.config.context import load_client_context
from gosched.config.errors import ConfigError
from tests.wire.tls import authority, issued


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the config file of the test's own home is."""
    return tmp_path / ".config" / "gosched" / "config.yaml"


def set_context(name: str, endpoints: str, *more: str) -> int:
    return run_cli(["config", "set-context", name, "--endpoints", endpoints, *more])


def test_the_current_context_is_what_nothing_else_names(file, monkeypatch) -> None:
    assert load_client_context(None).endpoints == "localhost:9090"
    assert set_context("prod", "p1:1,p2:2") == 0
    assert set_context("test", "t:1") == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert (load_client_context(None).endpoints, load_client_context(None).source) == ("p1:1,p2:2", "context prod")
    assert run_cli(["config", "use-context", "test"]) == 0
    assert load_client_context(None).endpoints == "t:1"
    monkeypatch.setenv("GOSCHED_CONTEXT", "prod")
    assert load_client_context(None).endpoints == "p1:1,p2:2"
    assert load_client_context(None, "test").endpoints == "t:1"
    monkeypatch.setenv("GOSCHED_ENDPOINTS", "e:1")
    assert load_client_context(None).source == "GOSCHED_ENDPOINTS"
    assert load_client_context(None, "test").endpoints == "t:1", "a flag goes before the environment"
    assert load_client_context("f:1", "test").endpoints == "f:1"


def test_endpoints_of_the_environment_leave_the_current_context_with_its_certificates_out(
    tmp_path, monkeypatch
) -> None:
    alice = issued(authority(tmp_path / "ca"), "client", "alice")
    files = ["--tls-cert", alice.cert, "--tls-key", alice.key, "--tls-ca", alice.ca]
    assert set_context("prod", "p:1", *files) == 0
    assert load_client_context(None).tls == (alice.cert, alice.key, alice.ca)
    monkeypatch.setenv("GOSCHED_ENDPOINTS", "localhost:1")
    assert load_client_context(None).tls is None


def test_a_context_is_checked_when_it_is_set(tmp_path, capfd) -> None:
    folder = authority(tmp_path / "ca")
    alice, bob = issued(folder, "client", "alice"), issued(folder, "client", "bob")
    capfd.readouterr()
    assert set_context("prod", "p:1,p2") == 2
    assert "endpoint 'p2' is neither host:port nor" in capfd.readouterr().err
    assert set_context("prod", "p:1", "--tls-cert", alice.cert) == 2
    assert "give --tls-key, too" in capfd.readouterr().err
    assert set_context("prod", "p:1", "--tls-cert", alice.cert, "--tls-key", bob.key, "--tls-ca", alice.ca) == 2
    assert "is not the key of the certificate" in capfd.readouterr().err
    assert run_cli(["config", "set-context", "prod"]) == 2
    assert "names no masters" in capfd.readouterr().err


def test_contexts_are_listed_viewed_and_deleted(capfd) -> None:
    assert set_context("prod", "p:1") == 0
    assert set_context("test", "t:1", "--use") == 0
    capfd.readouterr()
    assert run_cli(["config", "get-contexts", "-o", "json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [(one["name"], one["current"], one["endpoints"]) for one in listed] == [
        ("prod", False, "p:1"),
        ("test", True, "t:1"),
    ]
    assert run_cli(["config", "view"]) == 0
    assert "current_context: test" in capfd.readouterr().out
    assert run_cli(["config", "delete-context", "test"]) == 0
    assert run_cli(["config", "current-context"]) == 1
    assert "use-context NAME" in capfd.readouterr().err
    assert run_cli(["config", "use-context", "prdo"]) == 2
    assert 'there is no context "prdo" (did you mean "prod"?)' in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contexts: {a: {endpoint: x}}", 'contexts.a.endpoint: unknown key (did you mean "endpoints"?)'),
        ("contexts: {a: 5}", "contexts.a: expected the keys of a context"),
        ("contexts: [a]", "contexts: expected contexts by their names"),
        ("current_context: b\ncontexts: {a: {endpoints: x}}", "current_context: there is no context"),
        ("context: a", "context: unknown key"),
    ],
)
def test_a_mistake_in_the_file_is_said_with_its_place(file, text, problem) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_client_context(None)
    assert str(caught.value).startswith(f"{file}:")
    assert problem in str(caught.value)


def test_an_unknown_context_is_said_with_those_that_there_are(ctl) -> None:
    assert set_context("prod", "p:1") == 0
    done = ctl("status", "--context", "prdo")
    assert done.code == 2
    assert 'no context "prdo" (did you mean "prod"?); there are: prod' in done.err


def test_options_of_the_root_may_follow_the_command(master, capfd) -> None:
    assert run_cli(["status", "-o", "name", "--endpoints", master.address]) == 0
    assert capfd.readouterr().out == "master-1\n"
    assert run_cli(["job", "list", f"--endpoints={master.address}"]) == 0


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("status --endpoints a:1 -o json", "--endpoints a:1 status -o json"),
        ("job list --context=x", "--context=x job list"),
        ("run -- prog --endpoints a:1", "run -- prog --endpoints a:1"),
        ("status --endpoints", "status --endpoints"),
    ],
)
def test_root_options_go_before_the_command_and_words_after_the_dashes_stay(given, moved) -> None:
    assert root_options_first(given.split()) == moved.split()


def test_effective_settings_say_where_each_value_comes_from(tmp_path, monkeypatch, capfd) -> None:
    config = tmp_path / "gosched.yaml"
    config.write_text("server:\n  grpc_addr: ':9090'\n  schedule_period: 2s\nqueues:\n- {name: a}\n")
    monkeypatch.setenv("GOSCHED_ALGORITHM", "spread")
    given = ["config", "view", "--effective", str(config), "-o", "json", "--", "--grpc-addr", ":9095", "--peers=b:7000"]
    assert run_cli(given) == 0
    shown = {row["key"]: (row["value"], row["source"]) for row in json.loads(capfd.readouterr().out)}
    assert shown["server.grpc_addr"] == (":9095", "--grpc-addr")
    assert shown["server.algorithm"] == ("spread", "GOSCHED_ALGORITHM")
    assert shown["server.schedule_period"] == ("2s", f"{config}:3")
    assert shown["lease.heartbeat"] == ("5s", "default")
    assert shown["queues"] == ([{"name": "a"}], f"{config}:4")
    assert shown["raft.enabled"][0] is True
    assert run_cli(["config", "view", "--effective", "--agent", "-o", "json"]) == 0
    assert any(row["key"] == "masters" for row in json.loads(capfd.readouterr().out))
    assert run_cli(["config", "view", "--effective", "--", "--nope"]) == 2
    assert "--nope is no flag" in capfd.readouterr().err
