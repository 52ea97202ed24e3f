"""The path of a master's Unix socket in its config, and what an issuer's users may not be called."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gosched.config import MasterSettings
from gosched.config.oidc_model import Oidc


def settings(path: str) -> MasterSettings:
    return MasterSettings.model_validate({"server": {"socket": path}})


def test_a_socket_has_an_absolute_path_of_bounded_length_or_is_left_out() -> None:
    assert settings("/run/gosched/master.sock").server.socket == "/run/gosched/master.sock"
    assert settings("").server.socket == ""
    for bad in ("run/x", "/run/", "/run/a\nb", "/run/a,b"):
        with pytest.raises(ValidationError, match=r"expected an absolute path, such as /run/gosched/master.sock"):
            settings(bad)
    with pytest.raises(ValidationError, match="has 81 bytes; the path of a socket has at most 80 here"):
        settings("/" + "x" * 80)


@pytest.mark.parametrize("prefix", ["unix:", "unix:a", "u", "unix"])
def test_no_issuers_user_can_be_called_like_an_account(prefix: str) -> None:
    known: dict[str, Any] = {"issuer": "https://a", "client_id": "c"}
    with pytest.raises(ValidationError, match="could begin unix:NAME, which is an account"):
        Oidc.model_validate({**known, "user_prefix": prefix})
    with pytest.raises(ValidationError, match="could begin unix:NAME"):
        Oidc.model_validate({**known, "groups_prefix": prefix})
    assert Oidc.model_validate({**known, "user_prefix": "corp:"}).user_prefix == "corp:"
