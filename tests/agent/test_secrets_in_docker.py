"""Secrets of docker tasks: what the daemon is asked for, and what the launcher reads; no daemon runs here."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from gosched.agent.runtimes.docker import Docker
from gosched.agent.runtimes.docker_launcher import Failed, credentials, volumes_of
from gosched.agent.runtimes.inside import AllowedPaths
from gosched.agent.runtimes.interface import CannotRun, Place, SecretPlace
from gosched.core.spec.isolation import Isolation, Volume
from gosched.core.spec.secret_use import SecretUse
from tests.agent.test_docker import make_order


def place(tmp_path: Path) -> Place:
    secrets = SecretPlace(path=tmp_path / "tmpfs", has_registry=True)
    secrets.own.mkdir(parents=True)
    Path(secrets.registry).write_text('{"username": "ann", "password": "sesame"}')
    return Place(path=tmp_path, work=tmp_path / "work", cgroup=None, account=None, secrets=secrets)


def test_a_container_has_the_secrets_at_run_secrets_and_the_spec_on_the_disk_no_value(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    runtime = Docker("unix:///run/d.sock", {}, 99, AllowedPaths(volumes=(str(tmp_path),), images=()))
    isolation = Isolation(registry="secret:hub", volumes=(Volume(host=str(tmp_path / "data"), to="/data"),))
    order = make_order(isolation=isolation, secrets=(SecretUse(name="db", file="db"),))
    launch = runtime.launch(order, place(tmp_path), {"GOSCHED_SECRETS_DIR": "/elsewhere"})
    spec = json.loads((tmp_path / "docker.json").read_text())
    assert "sesame" not in json.dumps([asdict(launch), spec])
    *_, last = spec["container"]["HostConfig"]["Mounts"]
    source = str(tmp_path / "tmpfs" / "files")
    assert last == {"Type": "bind", "Source": source, "Target": "/run/secrets", "ReadOnly": True}
    assert "GOSCHED_SECRETS_DIR=/run/secrets" in spec["container"]["Env"]
    assert [volume["Target"] for volume in volumes_of(spec)] == ["/data"]  # the agent's own mounts are no volumes
    assert credentials(spec) == {"username": "ann", "password": "sesame"}


def test_credentials_that_have_gone_are_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="are not there any more"):
        credentials({"registry": {"credentials_file": str(tmp_path / "none")}})


def test_no_volume_takes_the_place_of_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    runtime = Docker("unix:///run/d.sock", {}, 99, AllowedPaths(volumes=(str(tmp_path),), images=()))
    volumes = (Volume(host=str(tmp_path / "data"), to="/run/secrets/x"),)
    with pytest.raises(CannotRun, match="cannot stand at /run/secrets/x"):
        runtime.launch(make_order(isolation=Isolation(volumes=volumes)), place(tmp_path), {})
