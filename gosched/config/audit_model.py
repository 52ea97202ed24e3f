"""The key `audit` of masters: where the audit log goes, and how much of it is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gosched.config.validation import MemoryBytes, Model


class Audit(Model):
    """`path`: the folder of the files (empty: `audit` in the data directory), or the socket of the syslog daemon
    (empty: /dev/log). `max_bytes`: of one file, roughly; `max_files`: with the one that is written."""

    target: Literal["file", "syslog", "none"] = "file"
    path: str = ""
    max_bytes: Annotated[MemoryBytes, Field(ge=1 << 20)] = Field(default=64 << 20, alias="max_size")
    max_files: Annotated[int, Field(ge=2, le=10_000)] = 16

    @model_validator(mode="after")
    def _is_absolute(self) -> Audit:
        if self.path and not self.path.startswith("/"):
            raise ValueError(f'"path" begins with /, got {self.path!r}')
        return self
