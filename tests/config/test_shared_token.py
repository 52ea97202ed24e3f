"""The token of a cluster without TLS, in the config."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.config import ConfigError
from gosched.config.settings import MasterSettings


def token_of(file: Path, **more: object) -> str:
    return MasterSettings.model_validate({"shared_token_file": str(file), **more}).shared_token()


def test_the_token_is_what_the_file_holds_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    assert MasterSettings().shared_token() == ""
    file = tmp_path / "token"
    with pytest.raises(ConfigError, match=r"cannot read .*token: No such file or directory"):
        token_of(file)
    file.touch(mode=0o600)
    with pytest.raises(ConfigError, match="is empty"):
        token_of(file)
    file.write_text("a-token\n")
    assert token_of(file) == "a-token"
    tls = {"cert": "c", "key": "k", "ca": "a"}
    with pytest.raises(ConfigError, match="tls is set, too: leave one out"):
        token_of(file, tls=tls)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        token_of(file)
