"""The archive itself: a shared directory or a bucket, by obstore, which is imported here and only where an archive is
configured.

Invariant: each call has a time limit, and fails with ArchiveError alone.
"""

from __future__ import annotations

import configparser
import contextlib
import re
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gosched.archive.calls import BoundedCalls, Busy
from gosched.archive.members import ArchivedPiece, Unpacker
from gosched.config.archive_model import Archive
from gosched.config.private import exposed

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

CALL_LIMIT_S = 20.0  # one request, with its repeats
PUT_LIMIT_S = 300.0  # the upload of one object, in parts
READ_BYTES = 256 * 1024
CREDENTIALS_AGAIN = timedelta(minutes=5)
DELETES_AT_ONCE = 500
MAX_CALLS = 16  # at once

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NEEDED = "pip install 'gosched[archive]'"


class ArchiveError(Exception):
    """One line for people: what could not be done, and why."""


class NotArchived(ArchiveError):
    """The archive has no such log."""


def object_key(cluster_id: str, allocation_id: str, stream: str) -> str:
    """Return the name of the object of one stream. Raises ArchiveError for an id that would name something else."""
    parts = [cluster_id, *allocation_id.split("/")]
    if not all(_PART.fullmatch(part) for part in parts):
        raise ArchiveError(f"{allocation_id!a} of cluster {cluster_id!a} cannot be the name of an archived log")
    return f"{'/'.join(parts)}.{stream}.gz"


def times_object(stream: str) -> str:
    """Return the stream's name in the key of the object that has its times: the agent's index, packed as the stream."""
    return f"{stream}-times"


class LogArchive:
    """The logs of ended tasks, by cluster, allocation and stream."""

    def __init__(self, settings: Archive) -> None:
        """Raises ArchiveError where the extra is not installed. What else is wrong shows at the first use: a program
        starts while a shared directory is not mounted yet."""
        try:
            import obstore
            from obstore.exceptions import BaseError, NotFoundError
        except ModuleNotFoundError as error:
            raise ArchiveError(f"archive: {error.name} is not installed, and this needs it: {_NEEDED}") from error
        self._obstore = obstore
        self._error, self._not_found = BaseError, (FileNotFoundError, NotFoundError)
        self._settings = settings
        self._url = settings.url
        self._calls = BoundedCalls(MAX_CALLS)
        self._opened: LocalStore | S3Store | None = None

    async def put(self, key: str, file: Path) -> None:
        """Store a file, in place of what is there. Raises ArchiveError."""
        with self._errors(f"cannot write {key}"):
            await self._calls.run(lambda: self._obstore.put(self._store(), key, file), PUT_LIMIT_S)

    async def read(self, key: str) -> AsyncGenerator[ArchivedPiece, None]:
        """Yield a stream from its start. Raises ArchiveError, NotArchived."""
        unpacker = Unpacker()
        with self._errors(f"cannot read {key}"):
            found = await self._calls.run(lambda: self._obstore.get(self._store(), key), CALL_LIMIT_S)
            chunks = iter(found.stream(min_chunk_size=READ_BYTES))
            while (chunk := await self._calls.run(partial(next, chunks, None), CALL_LIMIT_S)) is not None:
                for piece in unpacker.feed(bytes(chunk)):
                    yield piece
            unpacker.finish()

    async def delete_older(self, cluster_id: str, than: datetime) -> int:
        """Remove the cluster's logs that were written before a moment, and return how many. Raises ArchiveError."""
        removed = 0
        with self._errors("cannot remove old logs"):
            listing = partial(self._obstore.list, prefix=cluster_id, chunk_size=DELETES_AT_ONCE)
            batches = iter(await self._calls.run(lambda: listing(self._store()), CALL_LIMIT_S))
            while (batch := await self._calls.run(partial(next, batches, None), CALL_LIMIT_S)) is not None:
                old = [item["path"] for item in batch if item["last_modified"] < than]
                if old:
                    await self._calls.run(partial(self._obstore.delete, self._store(), old), PUT_LIMIT_S)
                removed += len(old)
        return removed

    def _store(self) -> LocalStore | S3Store:
        """Return the store, opened at the first use. May wait for a file system."""
        if self._opened is None:
            self._opened = _s3(self._settings) if self._settings.is_s3 else _directory(self._settings)
        return self._opened

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._not_found as error:
            raise NotArchived(f"{self._url}: {what}: there is no such log") from error
        except Busy as error:
            raise ArchiveError(f"{self._url}: {what}: {MAX_CALLS} calls wait for it already") from error
        except TimeoutError as error:
            raise ArchiveError(f"{self._url}: {what}: no answer in time") from error
        except (self._error, OSError, ValueError) as error:  # also of a damaged log, and of a file of credentials
            raise ArchiveError(f"{self._url}: {what}: {_line(error)}") from error


def _directory(settings: Archive) -> LocalStore:
    from obstore.store import LocalStore

    path = Path(unquote(urlsplit(settings.url).path))
    if not path.is_dir():
        raise ValueError(f"there is no directory {path}: mount or make it")
    return LocalStore(path)


def _s3(settings: Archive) -> S3Store:
    from obstore.store import S3Store

    parts = urlsplit(settings.url)
    options: dict[str, Any] = {"region": settings.region}
    if settings.endpoint:
        options["endpoint"] = settings.endpoint
    if settings.credentials_file:
        credentials = _CredentialsFile(Path(settings.credentials_file))
        credentials()  # a mistake shows now
        options["credential_provider"] = credentials
    return S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        client_options={
            "allow_http": bool(settings.endpoint and settings.endpoint.startswith("http:")),
            "timeout": timedelta(seconds=CALL_LIMIT_S),
            "connect_timeout": timedelta(seconds=5),
        },
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=CALL_LIMIT_S)},
        **options,
    )


class _CredentialsFile:
    """Reads the file of credentials now and then: a secret may be replaced while the program runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> dict[str, Any]:
        parser = configparser.RawConfigParser()
        try:
            if problem := exposed(self._path):
                raise ValueError(problem)
            parser.read_string(self._path.read_text(encoding="utf-8"), source=str(self._path))
            section = parser["default"]
            key, secret = section["aws_access_key_id"], section["aws_secret_access_key"]
        except OSError as error:
            raise ValueError(f"cannot read {self._path}: {error.strerror}") from error
        except (configparser.Error, KeyError, UnicodeError) as error:
            named = "expected [default] with aws_access_key_id and aws_secret_access_key"
            raise ValueError(f"{self._path}: {named}") from error
        found = {
            "access_key_id": key,
            "secret_access_key": secret,
            "expires_at": datetime.now(UTC) + CREDENTIALS_AGAIN,
        }
        token = section.get("aws_session_token")
        return {**found, "token": token} if token else found


def _line(error: BaseException) -> str:
    """Return the first line: obstore adds the error once more, for its developers."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
