"""Kubeconfigs: what is understood, and what is refused by name."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gosched.config.errors import ConfigError
from gosched.integrations.pods import access
from gosched.integrations.pods.access import find_access, from_kubeconfig
from gosched.integrations.pods.errors import PodMisused
from tests.wire.tls import authority, issued


def written(
    folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any
) -> str:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://a:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "current-context": "c",
        **more,
    }
    (file := folder / "config").write_text(json.dumps(config))
    return str(file)


def test_a_token_file_is_read_anew_and_stands_beside_the_kubeconfig(tmp_path: Path) -> None:
    found = from_kubeconfig(written(tmp_path, user={"tokenFile": "token"}), "")
    assert (found.url, found.namespace) == ("https://a:6443", "n")
    for token in ("one", "two"):
        (tmp_path / "token").write_text(f"{token}\n")
        assert found.token() == token
    assert "token=" not in repr(found)


def test_a_client_certificate_is_a_file_or_stands_in_the_kubeconfig(tmp_path: Path) -> None:
    tls = issued(authority(tmp_path), "client", "ann")
    inline = {
        f"client-{kind}-data": base64.b64encode(Path(str(file)).read_bytes()).decode()
        for kind, file in (("certificate", tls.cert), ("key", tls.key))
    }
    named = {"client-certificate": str(tls.cert), "client-key": str(tls.key)}
    for user in (inline, named):
        found = from_kubeconfig(written(tmp_path, cluster={"certificate-authority": str(tls.ca)}, user=user), "c")
        assert found.trust is not None
        assert found.token() == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "user u: exec: it is not supported here: use a token"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "user u: auth-provider: it is not supported"),
        ({"user": {"username": "me", "password": "x"}}, "user u: username: it is not supported"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "cluster c: insecure-skip-tls-verify: it is not supported"),
        ({"cluster": {"proxy-url": "http://p"}}, "cluster c: proxy-url: it is not supported"),
        ({"cluster": {"server": "a:6443"}}, "'a:6443' is no address of an API server"),
        ({"user": {"client-certificate-data": "eA=="}}, "client-certificate and client-key come together"),
        ({"user": {"client-certificate-data": "?"}}, "client-certificate-data: it is no base64"),
        ({"user": {"client-certificate-data": "eA==", "client-key-data": "eA=="}}, "certificates cannot be used"),
        ({"user": {"token": 7}}, "token: expected a text, got 7"),
        ({"current-context": ""}, "it has no current-context"),
        ({"current-context": "d"}, "it has no context of the name 'd'"),
        ({"clusters": None}, "it has no cluster of the name 'c'"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(PodMisused) as caught:
        from_kubeconfig(written(tmp_path, **more), "")
    assert said in str(caught.value)


def test_a_file_that_is_not_there_or_no_kubeconfig_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the kubeconfig"):
        from_kubeconfig(str(tmp_path / "none"), "")
    (tmp_path / "config").write_text("[]")
    with pytest.raises(PodMisused, match="expected one kubeconfig"):
        from_kubeconfig(str(tmp_path / "config"), "")
    with pytest.raises(PodMisused, match="are not merged here"):
        from_kubeconfig("a:b", "")


def test_without_a_kubeconfig_it_is_the_service_account_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(PodMisused, match="no API server is named: give --kubeconfig FILE"):
        find_access("", "")
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("mine")
    (tmp_path / "ca.crt").write_bytes((authority(tmp_path / "ca") / "ca.pem").read_bytes())
    found = find_access("", "")
    assert (found.url, found.namespace, found.token()) == ("https://kubernetes.default.svc", "mine", "t")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert find_access("", "").url == "https://[fd00::1]:443"
