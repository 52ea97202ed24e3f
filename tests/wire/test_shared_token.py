"""The token of a cluster without TLS, as clients find it and servers compare it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.wire import shared_token
from gosched.wire.shared_token import SharedToken, forget_tokens, is_of_this_machine, keep_tokens, token_of_address


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shared_token, "_BASES", (str(tmp_path / "none"), str(tmp_path)))
    return tmp_path


def test_a_user_finds_the_token_of_an_address_of_this_machine_and_of_no_other(base: Path) -> None:
    keep_tokens(["127.0.0.1:30001", "127.0.0.1:30002"], "first")
    assert token_of_address("127.0.0.1:30001") == "first"
    assert token_of_address("http://localhost:30002/api") == "first"
    assert token_of_address("127.0.0.1:30003") == ""
    assert token_of_address("10.0.0.1:30001") == ""
    keep_tokens(["127.0.0.1:30001"], "next")
    assert token_of_address("127.0.0.1:30001") == "next"
    forget_tokens(["127.0.0.1:30001"])
    assert token_of_address("127.0.0.1:30001") == ""
    (directory,) = base.glob("gosched-local-*")
    assert [oct(path.stat().st_mode & 0o777) for path in (directory, *directory.iterdir())] == ["0o700", "0o600"]


def test_a_directory_that_others_can_look_into_is_not_used(base: Path) -> None:
    keep_tokens(["127.0.0.1:30001"], "first")
    (directory,) = base.glob("gosched-local-*")
    directory.chmod(0o755)
    assert token_of_address("127.0.0.1:30001") == ""
    with pytest.raises(PermissionError):
        keep_tokens(["127.0.0.1:30001"], "first")


@pytest.mark.parametrize(
    ("target", "is_own"),
    [
        ("127.0.0.3:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("http://127.0.0.1:1/x", True),
        ("127.0.0.1.example.com:1", False),
        ("node-1:1", False),
        ("http://10.0.0.1:1", False),
        ("unix:/run/x", False),
    ],
)
def test_the_token_is_sent_to_this_machine_alone(target: str, is_own: bool) -> None:
    assert is_of_this_machine(target) is is_own


def test_only_who_bears_the_token_shows_it_and_what_browsers_keep_counts_for_them_alone() -> None:
    shared = SharedToken("right")
    assert shared.is_shown([("x", "y"), ("authorization", "Bearer right")])
    for value in ("", "right", "Bearer wrong", "Bearer ", "Basic right", f"Bearer {shared.session}", "Bearer ü"):
        assert not shared.is_shown([("authorization", value)]), value
    assert shared.is_of(f"Bearer {shared.session}", of_browser=True)
    assert len({shared.session, shared.proof("a", "b"), shared.proof("b", "a"), SharedToken("x").proof("a", "b")}) == 4
