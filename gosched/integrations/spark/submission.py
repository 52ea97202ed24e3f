"""A client of a standalone master's submission API (`/v1/submissions`): drivers on a Spark cluster of its own.

Invariant: a submission is sent once. Repeating it would be a second application, so a request without an answer is an
error that says so.
"""

from __future__ import annotations

import time
from urllib.parse import quote

from gosched.config.errors import shown
from gosched.integrations.spark.answers import Object
from gosched.integrations.spark.errors import (
    SparkMisused,
    SparkNotFound,
    SparkRefused,
    SparkTimedOut,
    SparkUnreachable,
)
from gosched.integrations.spark.records import SparkDriver, SparkSubmission
from gosched.integrations.spark.server import SparkServer

#: States that a driver does not leave.
ENDED = frozenset({"FINISHED", "KILLED", "FAILED", "ERROR"})
TIMEOUT_S = 10.0
KILL_S = 60.0
MAX_BYTES = 1 << 20
_PAUSE_S = 0.3
# A master does not look at it, but refuses a request without.
_VERSION = "4.0.0"


class SparkMaster:
    """A client of one master. It may be used by several threads; it holds no connection.

    `url`: where its REST server listens, `http://HOST:6066`; it does with `spark.master.rest.enabled`, and not beside
    `spark.authenticate`. `ca`: file of the authority that signs its certificate; None: the system's. `timeout_s`: of a
    request. All methods raise SparkError.
    """

    def __init__(self, url: str, *, ca: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._server = SparkServer(url, ca=ca, timeout_s=timeout_s, max_bytes=MAX_BYTES)

    def submit(self, submission: SparkSubmission) -> str:
        """Submit an application, and return its driver's id. Raises SparkUnreachable: it may have been submitted all
        the same; SparkRefused: it was not, as by a master on standby."""
        defaults = {"spark.app.name": submission.main_class, "spark.jars": submission.app}
        request = {
            "action": "CreateSubmissionRequest",
            "appResource": submission.app,
            "mainClass": submission.main_class,
            "appArgs": list(submission.args),
            "clientSparkVersion": _VERSION,
            "environmentVariables": dict(submission.env),
            "sparkProperties": {**defaults, **submission.conf, "spark.submit.deployMode": "cluster"},
        }
        try:
            answer = Object(*self._server.ask("v1/submissions/create", post=request))
        except SparkUnreachable as error:
            raise SparkUnreachable(f"{error}: it may have been submitted: look at the master's page first") from error
        if not answer.flag("success"):
            raise SparkRefused(f"{answer.at}: {_message(answer) or 'refused without a word'}")
        return answer.needed("submissionId")

    def driver(self, id: str) -> SparkDriver:
        """Return a driver. Raises SparkNotFound."""
        answer = Object(*self._server.ask(f"v1/submissions/status/{_checked(id)}"))
        if not answer.flag("success"):
            words = _message(answer) or "the master knows no such driver: it was never submitted, or is forgotten"
            raise SparkNotFound(f"{id}: {words}")
        return SparkDriver(
            id=id, state=answer.needed("driverState"), worker=answer.text("workerHostPort"), message=_message(answer)
        )

    def kill(self, id: str, *, timeout_s: float = KILL_S) -> SparkDriver:
        """End a driver, and return how it ended: another way than `KILLED` where it was faster. Raises SparkNotFound,
        SparkTimedOut."""
        ends = time.monotonic() + timeout_s
        while (found := self.driver(id)).state not in ENDED:
            if time.monotonic() >= ends:
                raise SparkTimedOut(f"{id} is {found.state} {timeout_s:g} s after it was to be killed; Spark goes on")
            self._server.ask(f"v1/submissions/kill/{_checked(id)}", post={})  # a second time changes nothing
            time.sleep(_PAUSE_S)
        return found


def _checked(id: str) -> str:
    if not id or id in (".", ".."):
        raise SparkMisused(f"{shown(id)} is no id of a driver, such as driver-20261201120000-0000")
    return quote(id, safe="")


def _message(answer: Object) -> str:
    return " ".join(answer.text("message").split())[:500]
