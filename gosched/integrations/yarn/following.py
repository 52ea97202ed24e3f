"""An application that is run to its end: submitted once, followed, its logs, its exit code.

Invariant: under one tag no second application is submitted while the first one lives, or once it has succeeded: YARN
itself is the record, so a follower that is started again, on another machine too, goes on with the application that an
earlier one has left.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gosched.integrations.yarn.client import YarnClient
from gosched.integrations.yarn.errors import YarnError, YarnNotFound, YarnRefused, YarnTimedOut, YarnUnreachable
from gosched.integrations.yarn.records import Submission, YarnApplication

#: How long no ResourceManager may answer while an application is followed.
LOST_S = 600.0
KILLED_BY_SIGNAL = 143
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.5, 5.0
_EXIT_CODE = re.compile(r"exited with +exitCode: (-?\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is run, and what is told about it."""

    client: YarnClient
    #: Its `id` is put in.
    wanted: Submission
    #: By which an earlier follower's application is found; empty: it is not looked for.
    tag: str
    #: Set: the application is to end.
    stop: threading.Event
    #: Takes one line for people.
    say: Callable[[str], None]


def run_to_end(run: Run) -> tuple[YarnApplication, int]:
    """Return the application as it ended, and the exit code of its command. Raises YarnError."""
    app = _earlier(run) or _submitted(run)
    state, asked, heard, began = "", False, time.monotonic(), time.monotonic()
    while True:
        try:
            if run.stop.is_set() and not asked:
                asked = True
                run.say(f"{app.id}: is killed")
                run.client.kill(app.id)
            app = run.client.app(app.id)
            heard = time.monotonic()
        except YarnNotFound as error:
            raise YarnNotFound(f"{error}: YARN has forgotten it, and what became of it") from error
        except (YarnTimedOut, YarnUnreachable) as error:  # timed out: what it was asked to end takes long to end
            asked = False
            if time.monotonic() - heard > LOST_S:
                raise
            run.say(f"{app.id}: {error}; asking again")
        if app.state != state:
            state = app.state
            run.say(f"{app.id}: {state}{', ' * bool(app.tracking_url)}{app.tracking_url}")
        if app.has_ended:
            return app, _exit_code(app, was_stopped=run.stop.is_set())
        run.stop.wait(min(_MOST_PAUSE_S, _LEAST_PAUSE_S + (time.monotonic() - began) / 20))
        if run.stop.is_set():  # which ends each wait at once
            time.sleep(_LEAST_PAUSE_S)


def logs_of(run: Run, app: YarnApplication) -> tuple[bytes, bytes]:
    """Return the ends of stdout and stderr; what cannot be had is said."""
    found = []
    for name in ("stdout", "stderr"):
        try:
            found.append(run.client.log(app, name))
        except YarnError as error:
            run.say(f"{app.id}: no {name}: {error}")
            found.append(b"")
    return found[0], found[1]


def _earlier(run: Run) -> YarnApplication | None:
    """Return the application of an earlier follower: one that lives, or else one that has succeeded."""
    if not run.tag:
        return None
    found = run.client.apps(tags=[run.tag])
    alive = [app for app in found if not app.has_ended]
    chosen = max(
        alive or [app for app in found if app.final_status == "SUCCEEDED"], key=lambda app: app.id, default=None
    )
    if chosen is not None:
        run.say(f"{chosen.id}: taken over from an earlier start, by its tag {run.tag}")
    return chosen


def _submitted(run: Run) -> YarnApplication:
    id = run.client.new_application().id
    tags = (*run.wanted.tags, *([run.tag] if run.tag else []))
    run.client.submit(replace(run.wanted, id=id, tags=tags))
    run.say(f"{id}: submitted")
    try:
        return run.client.app(id)
    except YarnNotFound as error:
        raise YarnRefused(f"{id} was submitted, and is not there: {error}") from error


def _exit_code(app: YarnApplication, *, was_stopped: bool) -> int:
    """Return 0 for success. A command that never spoke to the ResourceManager has FAILED for YARN, whatever its exit
    code: then that counts, which the diagnostics have."""
    if app.state == "KILLED":
        return KILLED_BY_SIGNAL if was_stopped else 1
    if app.final_status == "SUCCEEDED":
        return 0
    said = _EXIT_CODE.findall(app.diagnostics)
    code = int(said[-1]) if said else 1
    return code if 0 <= code < 256 else 1
