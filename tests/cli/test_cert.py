"""`goschedctl cert`: an authority, certificates that masters and agents take, and what they say."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from gosched.cli.authority import describe
from gosched.cli.main import run_cli
from gosched.config.settings import Tls
from gosched.master.base.channels import own_certificate
from gosched.wire.certificates import own_identity
from gosched.wire.roles import BadCertificate, CertificateHolder, Role


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["cert", "init"]) == 0
    return tmp_path


def issue(*words: str) -> int:
    return run_cli(["cert", "issue", *words])


def test_a_master_takes_the_certificate_that_was_issued_for_it(folder: Path) -> None:
    assert issue("master", "master-1", "--cluster", "prod", "--san", "10.0.0.1", "--san", "m1.example") == 0
    tls = Tls(cert="master-1.pem", key="master-1.key", ca="ca.pem")
    assert own_certificate(tls, "master-1") == CertificateHolder(cluster="prod", role=Role.MASTER, name="master-1")


@pytest.mark.parametrize(("role", "name"), [("master", "gosched-0"), ("agent", "*"), ("client", "helm")])
def test_a_role_is_named_in_a_dns_name_if_asked(folder: Path, role: str, name: str) -> None:
    assert issue(role, name, "--dns") == 0
    file = "any" if name == "*" else name
    holder = CertificateHolder(role=Role(role), name=name, in_dns=True)
    (found,) = describe(Path(f"{file}.pem"))
    assert found.holder == holder
    if role != "client":
        assert own_identity(f"{file}.pem", f"{file}.key", "ca.pem") == holder


def test_nobody_can_serve_with_a_certificate_of_a_client(folder: Path) -> None:
    assert issue("client", "alice") == 0
    with pytest.raises(BadCertificate, match="unsuitable certificate purpose"):
        own_identity("alice.pem", "alice.key", "ca.pem")


def test_keys_are_readable_by_their_owner_only(folder: Path) -> None:
    assert issue("client", "alice") == 0
    for key in ("ca.key", "alice.key"):
        assert stat.S_IMODE((folder / key).stat().st_mode) == 0o600


def test_show_prints_role_names_and_expiry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issue("agent", "node-17", "--cluster", "prod", "--san", "10.0.1.17", "--days", "30")
    capsys.readouterr()
    assert run_cli(["cert", "show", "node-17.pem", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["role"], shown["name"], shown["cluster"]) == ("agent", "node-17", "prod")
    assert (shown["names"], shown["expired"]) == (["10.0.1.17"], False)
    assert run_cli(["cert", "show", "node-17.pem"]) == 0
    assert "in 29 days" in capsys.readouterr().out
    assert run_cli(["cert", "show", "ca.pem"]) == 0
    assert "role:      authority" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["master", "m1", "--days", "4000"], "the authority itself expires in 3649 days"),
        (["client", "alice", "--san", "10.0.0.1"], "a client is no server"),
        (["agent", "*"], "name the hosts of these agents with --san"),
        (["agent", "node.example", "--dns"], "is not NAME.ROLE.gosched.internal"),
        (["agent", "n", "--dns", "--cluster", "prod"], "a DNS name cannot hold the cluster"),
        (["agent", "n", "--san", "x.master.gosched.internal"], "names 2 roles"),
        (["client", ""], "is not gosched://CLUSTER/ROLE/NAME"),
        (["root", "x"], "'root' is not one of"),
        (["client", "alice", "--dir", "nowhere"], "make an authority with `goschedctl cert init`"),
        (["client", "taken"], "taken.key exists already"),
    ],
)
def test_what_cannot_be_issued_is_refused_with_a_line_and_no_file(
    folder: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "taken.key").touch()
    before = sorted(folder.iterdir())
    capsys.readouterr()
    assert issue(*words) == 2
    printed = capsys.readouterr().err
    assert line in printed
    assert printed.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_an_authority_is_never_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "ca.key").read_bytes()
    assert run_cli(["cert", "init"]) == 2
    assert "ca.key exists already" in capsys.readouterr().err
    assert (folder / "ca.key").read_bytes() == before


def shown(file: str, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    capsys.readouterr()
    assert run_cli(["cert", "show", file, "-o", "json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_renewed_certificate_has_a_new_key_and_all_else_as_before(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issue("master", "m1", "--cluster", "prod", "--san", "10.0.0.1", "--san", "m1.example", "--days", "30")
    key, before = (folder / "m1.key").read_bytes(), shown("m1.pem", capsys)
    (folder / "m1.key").chmod(0o640)
    assert run_cli(["cert", "renew", "m1.pem"]) == 0
    after = shown("m1.pem", capsys)
    for kept in ("role", "name", "cluster", "names", "subject", "days_left"):
        assert after[kept] == before[kept]
    assert after["id"] != before["id"]
    assert (folder / "m1.key").read_bytes() != key
    assert stat.S_IMODE((folder / "m1.key").stat().st_mode) == 0o640
    assert own_identity("m1.pem", "m1.key", "ca.pem").name == "m1"
    assert run_cli(["cert", "renew", "m1.pem", "--days", "90"]) == 0
    assert shown("m1.pem", capsys)["days_left"] == 89
    assert sorted(file.name for file in folder.iterdir()) == ["ca.key", "ca.pem", "m1.key", "m1.pem"]


def test_a_certificate_moves_to_another_authority_only_if_that_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issue("agent", "*", "--dns")
    assert run_cli(["cert", "init", "--dir", "new"]) == 0
    before = (folder / "any.pem").read_bytes()
    capsys.readouterr()
    assert run_cli(["cert", "renew", "any.pem", "--dir", "new"]) == 2
    printed = capsys.readouterr().err
    assert "was signed by another authority than the one in new" in printed
    assert printed.count("\n") == 1
    assert (folder / "any.pem").read_bytes() == before
    assert run_cli(["cert", "renew", "any.pem", "--dir", "new", "--rotate"]) == 0
    assert own_identity("any.pem", "any.key", "new/ca.pem").name == "*"


def test_show_tells_each_certificate_of_a_file_and_which_authority_signed_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issue("client", "alice")
    assert run_cli(["cert", "init", "--dir", "new"]) == 0
    (folder / "both.pem").write_bytes((folder / "ca.pem").read_bytes() + (folder / "new/ca.pem").read_bytes())
    old, new = shown("both.pem", capsys)
    assert old["id"] != new["id"]
    assert (old["role"], new["role"], new["days_left"]) == ("authority", "authority", 3649)
    assert shown("alice.pem", capsys, "--ca", "both.pem")["signed_by"] == old["id"]
    assert run_cli(["cert", "show", "alice.pem", "--ca", "new/ca.pem"]) == 0
    assert "signed by: none of the authorities in new/ca.pem" in capsys.readouterr().out
    # What trusts both signs on with its own key.
    shutil.copy(folder / "both.pem", folder / "new/ca.pem")
    assert run_cli(["cert", "issue", "client", "bob", "--dir", "new"]) == 0
    assert shown("new/bob.pem", capsys, "--ca", "both.pem")["signed_by"] == new["id"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nobody.pem"], "nobody.pem does not exist: `goschedctl cert issue` makes new certificates"),
        (["ca.pem"], "ca.pem is an authority's"),
        (["alice.pem", "--key", "other.key"], "other.key does not exist"),
        (["alice.pem", "--days", "4000"], "the authority itself expires in 3649 days"),
        (["alice.pem", "--dir", "nowhere"], "make an authority with `goschedctl cert init`"),
    ],
)
def test_what_cannot_be_renewed_is_refused_with_a_line_and_stays(
    folder: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    issue("client", "alice")
    before = {file: file.read_bytes() for file in folder.iterdir()}
    capsys.readouterr()
    assert run_cli(["cert", "renew", *words]) == 2
    printed = capsys.readouterr().err
    assert line in printed
    assert printed.count("\n") == 1
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_groups_of_a_user_are_written_shown_and_kept_by_a_renewal(folder: Path) -> None:
    assert issue("client", "ann", "--group", "ops", "--group", "nlp") == 0
    assert [found.groups for found in describe(Path("ann.pem"))] == [("nlp", "ops")]
    assert run_cli(["cert", "renew", "ann.pem"]) == 0
    assert [found.groups for found in describe(Path("ann.pem"))] == [("nlp", "ops")]
    assert issue("agent", "n1", "--group", "ops") == 2
