"""The key `join` of masters, and `join_token_file` of agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gosched.config import ConfigError, load_agent_settings, load_master_settings
from gosched.master.agents.join_authority import JoinAuthority
from gosched.wire.tls_watch import TlsWatch
from tests.access.joins import write_key
from tests.replication.certificates import Authority


def load(folder: Path, text: str, read: Any = load_master_settings) -> Any:
    path = folder / "c.yaml"
    path.write_text(text)
    return read(str(path), {})


def test_certificates_last_thirty_days_unless_the_key_says_so(tmp_path: Path) -> None:
    assert load(tmp_path, "retention: {}").join is None
    assert load(tmp_path, "join: {ca_cert: a, ca_key: b}").join.certificate_lasts_ms == 30 * 86_400_000
    assert load(tmp_path, "join: {ca_cert: a, ca_key: b, certificate_lasts: 1h}").join.certificate_lasts_ms == 3_600_000


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("ca_cert: a", 'needs "ca_key"'),
        ("ca_cert: a, ca_key: b, certificate_lasts: 1s", "join.certificate_lasts"),
        ("ca_cert: a, ca_key: b, certificate_lasts: 500d", "join.certificate_lasts"),
        ("ca_cert: a, ca_key: b, lasts: 1d", "lasts"),
    ],
)
def test_a_bad_key_is_one_line(tmp_path: Path, keys: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"join: {{{keys}}}")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_tls_nothing_is_signed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml:1: join: certificates of agents need TLS"):
        load(tmp_path, "join: {ca_cert: a, ca_key: b}").join_settings()


def test_an_agent_has_a_token_or_files(tmp_path: Path) -> None:
    text = "join_token_file: t\ntls: {cert: a, key: b, ca: c}"
    with pytest.raises(ConfigError, match="join_token_file: tls is set, too: leave one out"):
        load(tmp_path, text, load_agent_settings)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("open", "join.ca_key: users other than its owner can use the secret"),
        ("absent", "join.ca_key: cannot read"),
        ("another", "is not the key of"),
        ("no authority", "is no certificate of an authority"),
        ("not trusted", "is not trusted: put it into"),
    ],
)
def test_an_authority_that_cannot_sign_is_refused_at_start(tmp_path: Path, mistake: str, words: str) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    files = authority.files("m1")
    cert, key = authority.folder / "ca.pem", write_key(authority)

    class Quiet:
        def __getattr__(self, _: str) -> Any:
            return lambda *_, **__: None

    tls = TlsWatch(files.cert, files.key, files.ca, Quiet())
    settings = {"ca_cert": str(cert), "ca_key": str(key)}
    JoinAuthority(_join(tmp_path, settings), tls)
    if mistake == "open":
        key.chmod(0o644)
    elif mistake == "absent":
        key.unlink()
    elif mistake == "another":
        settings["ca_key"] = str(write_key(other))
    elif mistake == "no authority":
        settings |= {"ca_cert": files.cert, "ca_key": files.key}
    else:
        settings |= {"ca_cert": str(other.folder / "ca.pem"), "ca_key": str(write_key(other))}
    with pytest.raises(ConfigError) as refused:
        JoinAuthority(_join(tmp_path, settings), tls)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def _join(folder: Path, keys: dict[str, str]) -> Any:
    return load(folder, f"join: {{ca_cert: {keys['ca_cert']}, ca_key: {keys['ca_key']}}}").join
