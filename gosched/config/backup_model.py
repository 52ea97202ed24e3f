"""The key `backup` of a master's config: when, where to and how many."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from gosched.config.cron import check_schedule
from gosched.config.validation import Millis, Model

MAX_KEPT = 10_000
NAME_PLACE = "{name}"  # in the command: the backup's file name


def _cron(value: str) -> str:
    check_schedule(value, "UTC")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"expected an absolute path, got {value!r}")
    return value


class Backup(Model):
    """Backups that the leader makes by itself. `every` counts from the last one; `schedule` is cron, in UTC. `command`
    gets each file on its stdin, for an object store."""

    every_ms: Annotated[Millis, Field(ge=10_000)] | None = Field(default=None, alias="every")
    schedule: Annotated[str, AfterValidator(_cron)] | None = None
    directory: Annotated[str, AfterValidator(_absolute)]
    keep: int = Field(default=24, ge=1, le=MAX_KEPT)
    passphrase_file: str | None = None
    key_file: str | None = None
    command: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_one(self) -> Backup:
        if (self.every_ms is None) == (self.schedule is None):
            raise ValueError('needs either "every", a duration, or "schedule", as cron has it')
        if self.passphrase_file and self.key_file:
            raise ValueError('has "passphrase_file" and "key_file": name one of them')
        return self
