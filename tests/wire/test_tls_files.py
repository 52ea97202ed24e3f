"""A mistake in the files of TLS is one line that names it, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.wire.probe import TlsPaths
from gosched.wire.roles import BadCertificate
from gosched.wire.tls_files import check_files
from tests.wire.tls import authority, issued, out_of_date


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def alice(folder: Path) -> TlsPaths:
    return issued(folder, "client", "alice")


@pytest.fixture(scope="module")
def bob(folder: Path) -> TlsPaths:
    return issued(folder, "client", "bob")


def problem(cert: str, key: str, ca: str) -> str:
    with pytest.raises(BadCertificate) as caught:
        check_files(cert, key, ca)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_go_together_are_taken(alice: TlsPaths, folder: Path) -> None:
    check_files(alice.cert, alice.key, alice.ca)
    master = issued(folder, "master", "m1", "localhost")
    check_files(master.cert, master.key, master.ca)


def test_a_key_of_another_certificate_is_named(alice: TlsPaths, bob: TlsPaths) -> None:
    assert problem(alice.cert, bob.key, alice.ca) == f"{bob.key} is not the key of the certificate {alice.cert}"


def test_a_certificate_of_another_authority_is_named(alice: TlsPaths, tmp_path: Path) -> None:
    other = authority(tmp_path / "other")
    said = problem(alice.cert, alice.key, str(other / "ca.pem"))
    assert said.startswith(f"the certificate {alice.cert} ")
    assert f"the authority in {other / 'ca.pem'}" in said


def test_an_expired_certificate_is_named_with_its_date(alice: TlsPaths, folder: Path) -> None:
    old = out_of_date(folder, alice, begins_in_days=-9, ends_in_days=-2)
    assert problem(old.cert, old.key, old.ca).startswith(f"the certificate {old.cert} expired at 20")


def test_a_certificate_that_is_not_valid_yet_asks_for_the_clock(alice: TlsPaths, folder: Path) -> None:
    early = out_of_date(folder, alice, begins_in_days=2, ends_in_days=9)
    said = problem(early.cert, early.key, early.ca)
    assert f"the certificate {early.cert} is valid from 20" in said
    assert said.endswith("is this machine's clock right?")


def test_files_that_hold_something_else_are_named(alice: TlsPaths, tmp_path: Path) -> None:
    assert problem(alice.key, alice.key, alice.ca) == f"{alice.key} holds no certificate in PEM form"
    assert problem(alice.cert, alice.cert, alice.ca) == f"{alice.cert} holds no private key in PEM form"
    assert problem(alice.cert, alice.key, alice.key).startswith(f"{alice.key} holds no certificate of an authority")
    assert problem("/nowhere.pem", alice.key, alice.ca) == "cannot read /nowhere.pem: No such file or directory"
    sealed = tmp_path / "sealed.key"
    sealed.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n")
    assert "is encrypted" in problem(alice.cert, str(sealed), alice.ca)
