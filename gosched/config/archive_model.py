"""The key `archive` of both daemons: where the logs of ended tasks are copied to, and read from."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gosched.config.validation import Millis, Model

DAY_MS = 86_400_000


def _place(value: str) -> str:
    parts = urlsplit(value)
    expected = "expected file:///DIRECTORY or s3://BUCKET/PREFIX"
    if parts.query or parts.fragment or ".." in parts.path.split("/"):
        raise ValueError(f"{expected}, got {value!r}")
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return value.rstrip("/")
    if parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc:
        return value.rstrip("/")
    raise ValueError(f"{expected}, got {value!r}")


def _endpoint(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc or parts.query:
        raise ValueError(f"expected the URL of an S3 server, such as https://s3.example.com, got {value!r}")
    return value.rstrip("/")


class Archive(Model):
    """A shared directory, or a bucket of an S3 server. `endpoint`: of a server that is not Amazon's. Credentials are
    in `credentials_file`, in the format of ~/.aws/credentials, else in AWS_ACCESS_KEY_ID and its like. `retention`:
    the leading master removes what is older; none: nothing is removed."""

    url: Annotated[str, AfterValidator(_place)]
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    region: str = "us-east-1"
    credentials_file: str | None = None
    retention_ms: Annotated[Millis, Field(ge=DAY_MS)] | None = Field(default=None, alias="retention")

    @model_validator(mode="after")
    def _fits(self) -> Archive:
        if not self.is_s3 and (self.endpoint or self.credentials_file):
            raise ValueError('"endpoint" and "credentials_file" are of s3://, and "url" is a directory')
        return self

    @property
    def is_s3(self) -> bool:
        return self.url.startswith("s3://")
