"""A client of Spark's monitoring API (`/api/v1`): of the UI of an application that runs, or of a history server."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from gosched.config.errors import shown
from gosched.integrations.spark import answers
from gosched.integrations.spark.errors import SparkBadAnswer, SparkMisused
from gosched.integrations.spark.records import SparkApplication, SparkExecutor, SparkStage
from gosched.integrations.spark.server import SparkServer

TIMEOUT_S = 10.0
MAX_BYTES = 16 << 20  # of one answer: about 4,000 stages


class SparkClient:
    """A client of one server of Spark. It may be used by several threads; it holds no connection.

    `url`: the address of the UI, or of the history server. `ca`: file of the authority that signs its certificate;
    None: the system's. `timeout_s`: of one request. `max_bytes`: of one answer. All methods raise SparkError.
    """

    def __init__(
        self, url: str, *, ca: str | None = None, timeout_s: float = TIMEOUT_S, max_bytes: int = MAX_BYTES
    ) -> None:
        self._server = SparkServer(url, ca=ca, timeout_s=timeout_s, max_bytes=max_bytes)

    def applications(self, *, limit: int = 0) -> tuple[SparkApplication, ...]:
        """Return the applications: a UI's own one, or all of a history server, `limit` at most; 0: all."""
        query = [("limit", str(limit))] if limit else []
        return answers.read_applications(*self._server.ask("api/v1/applications", query))

    def application(self, id: str) -> SparkApplication:
        """Return an application. Raises SparkNotFound."""
        return answers.read_application(*self._server.ask(_of(id)))

    def stages(self, id: str, *, statuses: Sequence[str] = ()) -> tuple[SparkStage, ...]:
        """Return the stages of an application, with `statuses` (`active`, `pending`, ...) those in one of them. Raises
        SparkNotFound."""
        query = [("status", status) for status in statuses]
        return answers.read_stages(*self._server.ask(f"{_of(id)}/stages", query))

    def executors(self, id: str) -> tuple[SparkExecutor, ...]:
        """Return the driver and the executors that live. Raises SparkNotFound."""
        return answers.read_executors(*self._server.ask(f"{_of(id)}/executors"))

    def settings(self, id: str) -> dict[str, str]:
        """Return the settings that an application runs with, but for secrets. Raises SparkNotFound."""
        return answers.read_settings(*self._server.ask(f"{_of(id)}/environment"))


def _of(id: str) -> str:
    if not id or id in (".", ".."):
        raise SparkMisused(f"{shown(id)} is no id of an application, such as app-20261201120000-0000")
    try:
        return f"api/v1/applications/{quote(id, safe='')}"
    except UnicodeEncodeError as error:  # half of a character
        raise SparkBadAnswer(f"{shown(id)} is no id of an application") from error
