"""The key `secrets` of masters: where the keys come from that secrets of tenants are sealed with."""

from __future__ import annotations

from pydantic import model_validator

from gosched.config.validation import Model


class Secrets(Model):
    """One of the three; each gives lines `ID:BASE64` of 32 bytes, of which the first seals and all open. `key_file`: a
    file that is read again when it changes. `key_env`: the name of an environment variable. `key_command`: the words of
    a command that prints the lines, of a KMS for example; it runs at the start and at SIGHUP."""

    key_file: str = ""
    key_env: str = ""
    key_command: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_one(self) -> Secrets:
        if sum(map(bool, (self.key_file, self.key_env, self.key_command))) != 1:
            raise ValueError('needs one of "key_file", "key_env" and "key_command"')
        return self
