"""A pod that is run to its end: created once, followed, its output, its exit code.

Invariant: a task has one pod, since it has one name: a follower that is started again goes on with the pod that an
earlier one has left, or waits until it is gone, and the API server refuses a second one. The pod names the start of the
task that follows it; a follower deletes a pod of its own start only, so one that was taken for dead harms nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gosched.integrations.pods.api import Json, PodApi
from gosched.integrations.pods.errors import PodConflict, PodDenied, PodError, PodNotFound, PodRefused, PodUnreachable
from gosched.integrations.pods.output import Output
from gosched.integrations.pods.reading import ALLOCATION, FOLLOWER, Pod, read_pod
from gosched.integrations.pods.wanted import Owner

#: How long the API server may not answer while a pod is followed.
LOST_S = 600.0
#: How long it may not give the rest of the log of a container that has ended: a node that is gone has taken it along.
LOG_S = 60.0
KILLED_BY_SIGNAL = 143
FAILED = 1
#: Lines about one pod; a pull that fails is tried for ever, with ever other words.
MOST_SAID = 100
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.3, 3.0
_SIGNAL_S = 0.2  # until a signal is heeded
_PAUSE_WITH_LOG_S = 10.0  # the end of the log tells the end of the container


class _TakenOver(PodError):
    """Another start of the task follows the pod now."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What is run, and what is told about it."""

    api: PodApi
    wanted: Json
    owner: Owner
    #: Whether a pod of an earlier attempt will do: its members, if it has any, have not been started anew.
    takes_earlier: bool
    grace_s: int
    #: Takes one line for people.
    say: Callable[[str], None]
    #: Takes output of the container.
    write: Callable[[bytes], None]
    #: The pod is to end. A handler of signals sets it, which must not touch an Event.
    is_to_stop: bool = False
    #: The log has ended, or broken.
    _wake: threading.Event = field(default_factory=threading.Event)
    _said: set[str] = field(default_factory=set)
    _heard: float = field(default_factory=time.monotonic)
    _is_lost: bool = False

    @property
    def name(self) -> str:
        return str(self.wanted["metadata"]["name"])

    @property
    def follower(self) -> str:
        return str(self.wanted["metadata"]["annotations"][FOLLOWER])

    def tell(self, line: str) -> None:
        """Say something about the pod, once."""
        if line not in self._said and len(self._said) < MOST_SAID:
            self._said.add(line)
            self.say(f"pod {self.api.namespace}/{self.name}: {line}")

    def wait(self, seconds: float) -> None:
        """Wait until something happens, at most so long."""
        ends, was_to_stop = time.monotonic() + seconds, self.is_to_stop
        while (left := ends - time.monotonic()) > 0 and self.is_to_stop == was_to_stop:
            if self._wake.wait(min(left, _SIGNAL_S)):
                break
        self._wake.clear()

    def output(self) -> Output:
        """Begin to give out the log."""
        return Output(self.api, self.name, self.write, self._wake)

    def failed(self, error: PodError) -> None:
        """Bear that the API server does not do its work, for a while. Raises the error after LOST_S."""
        if time.monotonic() - self._heard > LOST_S:
            raise error
        if not self._is_lost:
            self.say(f"pod {self.api.namespace}/{self.name}: {error}; asking again")
        self._is_lost = True

    def heard(self) -> None:
        if self._is_lost:
            self.say(f"pod {self.api.namespace}/{self.name}: the API server answers again")
        self._heard, self._is_lost = time.monotonic(), False


def run_to_end(run: Run) -> int:
    """Return the exit code of the container. Raises PodError, and what `write` has raised; then the pod is deleted."""
    pod = _begin(run)
    if pod is None:
        return KILLED_BY_SIGNAL
    try:
        return _follow(run, pod)
    except PodError:  # the API server is lost
        raise
    except Exception:  # nobody takes its output any more
        _clean_up(run, pod)
        raise


def _follow(run: Run, pod: Pod) -> int:
    output, asked, paused = None, False, _LEAST_PAUSE_S
    while not pod.has_ended:
        _tell(run, pod, is_ours=asked)
        if pod.has_started and output is None:
            output = run.output()
        run.wait(_PAUSE_WITH_LOG_S if output is not None and output.is_open and not asked else paused)
        paused = min(paused * 1.2, _MOST_PAUSE_S)
        if output is not None:
            output.check()
        try:
            if run.is_to_stop and not asked:
                run.tell(f"is deleted, with {run.grace_s} s for the container to end")
                asked = _delete(run, pod.uid)
            found = read_pod(run.api.get(run.name))
            run.heard()
            if found.uid != pod.uid:
                raise PodNotFound("another one has its name now")
        except PodNotFound:
            _finish(run, output)
            return _gone(run, pod, is_ours=asked)
        except _TakenOver as error:
            run.tell(str(error))
            return KILLED_BY_SIGNAL
        except PodError as error:
            run.failed(error)
            continue
        if (found.node, found.words, found.has_started) != (pod.node, pod.words, pod.has_started):
            paused = _LEAST_PAUSE_S
        pod = found
    _tell(run, pod, is_ours=asked)
    _finish(run, output or (run.output() if pod.has_started else None))
    code = _exit_code(run, pod, is_ours=asked)
    _clean_up(run, pod)
    return code


def _begin(run: Run) -> Pod | None:
    """Return the task's pod, new or left by an earlier start; None: the task is to end, and has none."""
    while True:
        try:
            try:
                pod = read_pod(run.api.create(run.wanted))
                run.tell("created")
                return pod
            except PodConflict:
                pod = read_pod(run.api.get(run.name))
            run.heard()
            if pod.task != run.owner.task:
                raise PodRefused(f"pod {run.api.namespace}/{run.name} is not of this task: delete it, it is in the way")
            if pod.follower == run.follower:  # the answer to its creation was lost
                run.tell("created")
                return pod
            if pod.is_leaving:
                run.tell("an earlier one is being deleted; waiting until it is gone")
            elif pod.allocation == run.owner.allocation:
                raise PodRefused(
                    f"pod {run.api.namespace}/{run.name} is another kube run's of this task, which has one pod at a"
                    " time: run them one behind the other, or as tasks of their own; if no such program runs, delete it"
                )
            elif _will_do(run, pod):
                pod = read_pod(run.api.annotate(run.name, pod.uid, {ALLOCATION: run.owner.allocation}))
                run.tell(f"taken over from an earlier start, of attempt {pod.attempt or '?'}")
                return pod
            else:
                run.tell("an earlier start's is deleted first")
                run.api.delete(run.name, uid=pod.uid, version=pod.version, grace_s=run.grace_s)
        except (PodConflict, PodNotFound) as error:
            if isinstance(error, PodNotFound) and str(error).startswith("namespaces "):
                raise
            run.heard()
        except PodUnreachable as error:
            run.failed(error)
        if run.is_to_stop and _is_deleted(run):
            return None
        run.wait(_LEAST_PAUSE_S)


def _will_do(run: Run, pod: Pod) -> bool:
    """Return whether an earlier start's pod is this one's as well: it lives, or has succeeded."""
    is_useful = not pod.has_ended or (pod.exit_code == 0 and not pod.was_stopped)
    return is_useful and (run.takes_earlier or pod.attempt == run.owner.attempt)


def _is_deleted(run: Run) -> bool:
    """Delete what may have been created without an answer. Return whether there is nothing left to delete."""
    try:
        return _delete(run, "")
    except (PodNotFound, _TakenOver):
        return True
    except PodError as error:
        run.failed(error)
        return False


def _delete(run: Run, uid: str) -> bool:
    """Have our pod deleted, whatever it looks like; return whether the API server will. Raises _TakenOver."""
    pod = read_pod(run.api.get(run.name))
    if pod.allocation != run.owner.allocation or uid not in ("", pod.uid):
        raise _TakenOver("another start of the task follows it now; it is left alone")
    if not pod.is_leaving:
        try:
            run.api.delete(run.name, uid=pod.uid, version=pod.version, grace_s=run.grace_s)
        except PodConflict:  # it has changed since: look again
            return False
    return True


def _tell(run: Run, pod: Pod, *, is_ours: bool) -> None:
    if pod.node:
        run.tell(f"on {pod.node}")
    for line in pod.words:
        run.tell(line)
    if pod.is_leaving and not is_ours:
        run.tell("is being deleted, and not by this task")


def _finish(run: Run, output: Output | None) -> None:
    """Give out the rest of the log; where it cannot be had, this is said."""
    ends = time.monotonic() + LOG_S
    while output is not None:
        try:
            output.finish()
            return
        except PodNotFound:
            return
        except PodError as error:
            is_final = isinstance(error, PodRefused) and not isinstance(error, PodDenied)
            if is_final or time.monotonic() > ends:
                run.tell(f"the rest of its log cannot be had: {error}")
                return
            run.failed(error)  # an API server that has just started denies what it allows later
            run.wait(_LEAST_PAUSE_S)


def _gone(run: Run, pod: Pod, *, is_ours: bool) -> int:
    """Return the exit code for a pod that is not there any more."""
    if is_ours:
        return KILLED_BY_SIGNAL
    run.tell("was deleted by somebody else before it had ended, and what became of it is not known")
    return pod.exit_code or FAILED


def _exit_code(run: Run, pod: Pod, *, is_ours: bool) -> int:
    code = pod.exit_code
    if is_ours:
        return KILLED_BY_SIGNAL if code is None else code
    if pod.is_leaving and not code:
        run.tell("was deleted by somebody else before it had ended")
        return FAILED
    if pod.was_stopped and not code:
        run.tell("was stopped before its container had ended by itself")
        return FAILED
    if code is None:
        run.tell("has ended before its container has")
        return FAILED
    if code:
        signal = f", by signal {code - 128}" if 128 < code < 193 else ""
        run.tell(f"its container has ended with exit code {code}{signal}")
    return code


def _clean_up(run: Run, pod: Pod) -> None:
    """Delete a pod that was reported; one that cannot be deleted is named."""
    while True:
        try:
            if _delete(run, pod.uid):
                return
        except (PodNotFound, _TakenOver):
            return
        except PodError as error:
            if isinstance(error, PodRefused) or run.is_to_stop:
                run.tell(f"is left behind: {error}")
                return
            run.failed(error)
        run.wait(_LEAST_PAUSE_S)
