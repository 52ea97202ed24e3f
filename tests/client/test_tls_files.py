"""A client takes up new TLS files for new connections, once they go together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gosched.cli.main import run_cli
from gosched.client import targets
from gosched.client.errors import Misused
from gosched.client.targets import Targets, TlsFiles
from tests.wire.tls import authority, issued


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "LOOK_AT_FILES_S", 0.0)


def test_new_contents_are_used_once_they_go_together(tmp_path: Path) -> None:
    folder = authority(tmp_path)
    alice, bob = issued(folder, "client", "alice"), issued(folder, "client", "bob")
    found = Targets("host:1", TlsFiles(cert=alice.cert, key=alice.key, ca=alice.ca))
    first, contents = found.tls_contents()
    assert contents
    assert found.tls_contents() == (first, contents)
    shutil.copy(bob.key, alice.key)  # half of a change
    assert found.tls_contents() == (first, contents)
    shutil.copy(bob.cert, alice.cert)
    second, changed = found.tls_contents()
    assert second == first + 1
    assert changed == tuple(Path(path).read_bytes() for path in (alice.ca, bob.key, bob.cert))
    assert not found.is_old(first)  # streams may still be open
    assert run_cli(["cert", "renew", alice.cert, "--dir", str(folder)]) == 0
    found.tls_contents()
    assert found.is_old(first)


def test_bad_files_are_refused_where_there_are_no_others(tmp_path: Path) -> None:
    folder = authority(tmp_path)
    alice, bob = issued(folder, "client", "alice"), issued(folder, "client", "bob")
    with pytest.raises(Misused, match="is not the key of the certificate"):
        Targets("host:1", TlsFiles(cert=alice.cert, key=bob.key, ca=alice.ca)).tls_contents()
