"""What a supervisor and an agent run to have a container made, ended, frozen, thawed, and commands run in it.

    python -m gosched.agent.runtimes.docker_launcher run SPEC | finish SPEC CODE_IF_LOST
                                                     freeze|thaw HOST NAME | remove HOST NAME DIRECTORY
                                                     orphans HOST AGENT BEFORE < KNOWN
                                                     exec HOST [--tty] [--env NAME=VALUE]... NAME COMMAND...

`run` makes the container and then becomes docker_follow, a small program that stays with it, which becomes `finish`.
All are one process, the supervisor's child. Invariant: the docker package is imported in such processes alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import docker
from docker import errors
from docker.utils import parse_repository_tag
from requests import exceptions
from urllib3.exceptions import HTTPError

from gosched.agent.runtimes import docker_follow, docker_volumes, faults
from gosched.agent.runtimes.docker_exec import execute
from gosched.agent.runtimes.docker_removal import ASKED, remove_of_task, remove_orphans
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.supervisor.launch import account_of
from gosched.agent.supervisor.records import RESULT, TASK, now_ms, write
from gosched.config.private import exposed
from gosched.core.reasons import Reason

CALL_S = 60  # for an answer
PULL_S = 600  # for the next sign of life while an image is fetched
PULL_LIMIT_S = 4 * 3600  # for the whole of it: 100 GB at 10 MB/s are three hours
WAIT_S = 60  # for the end of a container whose process has gone
RETRY_S = 1.0
APPEAR_S = 30.0  # for a container's process, or its end, of which the daemon may hear later than the kernel knows
LATE_S = 5.0  # for the word that a container was killed for its memory, which may come after that of its end
LOOK_AGAIN_S = 0.1
# What a daemon's end looks like, in the middle of a stream too.
GONE = (errors.DockerException, exceptions.RequestException, HTTPError)


class Failed(Exception):
    """Why the container does not run."""

    def __init__(self, reason: Reason, detail: str, *, exit_code: int = 125, blames_node: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.exit_code = exit_code
        self.blames_node = blames_node

    @classmethod
    def of(cls, fault: faults.Fault) -> Failed:
        return cls(fault.reason, fault.detail, exit_code=fault.exit_code, blames_node=fault.blames_node)


def main() -> int:
    verb, *words = sys.argv[1:]
    try:
        match verb:
            case "run":
                run(words[0])
            case "finish":
                return finish(words[0], json.loads(words[1]))
            case "exec":
                return execute(connect(words[0]), words[0], words[1:])
            case "orphans":
                remove_orphans(connect(words[0]), words[1], int(words[2]), set(json.load(sys.stdin)))
            case "remove":
                docker_volumes.release(Path(words[2]))  # of one that was killed
                remove_of_task(connect(words[0]), words[1], Path(words[2]))
            case "freeze":
                connect(words[0]).pause(words[1])
            case "thaw":
                connect(words[0]).unpause(words[1])
            case _:
                raise ValueError(f"unknown word {verb}")
    except Failed as failure:
        if verb in ("run", "finish"):
            write(RESULT, {"reason": failure.reason, "detail": failure.detail, "blames_node": failure.blames_node})
        print(failure.detail, file=sys.stderr)
        return failure.exit_code
    except GONE as error:
        print(one_line(error), file=sys.stderr)
        return 1
    return 0


def connect(host: str, timeout_s: int = CALL_S) -> Any:
    try:
        return docker.APIClient(base_url=host, version="auto", timeout=timeout_s)
    except errors.DockerException as error:
        raise Failed(
            Reason.DOCKER_FAILED, f"no answer from the daemon at {host}: {one_line(error)}", blames_node=True
        ) from error


# The life of a container


def run(spec_file: str) -> None:
    """Make the container and become docker_follow; does not return. Raises Failed."""
    spec = json.loads(Path(spec_file).read_text())
    directory = Path(spec_file).parent
    try:
        client = connect(spec["host"])
        fetch(client, spec)
        hold_volumes(spec, directory)
        with noted(directory / ASKED):
            stop_signal = create(client, spec)
        attached = start(client, spec)
        pid = pid_of(client, spec["name"])
    except GONE as error:  # it was there a moment ago, or there would be no order
        raise Failed(Reason.DOCKER_FAILED, f"the node's daemon: {one_line(error)}", blames_node=True) from error
    finally:
        docker_volumes.release(directory)
    write(TASK, {"pid": pid, "started_at_ms": now_ms()})
    os.set_inheritable(attached, True)
    words = [sys.executable, "-I", "-S", docker_follow.__file__, str(attached), str(pid), str(stop_signal), spec_file]
    os.execv(sys.executable, words)


def hold_volumes(spec: dict[str, Any], directory: Path) -> None:
    """Hold the volumes until the container has started. Raises Failed."""
    account = account_of(spec["account"])
    try:
        docker_volumes.hold(volumes_of(spec), directory, spec["allowed"], account)
    except CannotRun as error:
        raise Failed(error.reason, error.detail) from error
    except OSError as error:
        raise Failed(Reason.BAD_VOLUME, f"a volume cannot be bound: {error}") from error


def fetch(client: Any, spec: dict[str, Any]) -> None:
    image, policy = spec["image"], spec["pull"]
    if policy != "ALWAYS":
        try:
            client.inspect_image(image)
            return
        except errors.ImageNotFound:
            if policy == "NEVER":
                raise Failed(Reason.IMAGE_NOT_FOUND, f"image {image} is not on this node") from None
        except errors.APIError as error:
            raise Failed(Reason.BAD_IMAGE, f"image {image}: {one_line(error)}") from error
    repository, tag = parse_repository_tag(image)
    try:
        with PullTimer(image) as timer:
            # One that many tasks wait for is fetched once by the daemon.
            for line in client.pull(
                repository, tag=tag or "latest", stream=True, decode=True, auth_config=credentials(spec)
            ):
                timer.hears()
                if "error" in line:
                    raise Failed.of(faults.of_registry(image, faults.one_line(str(line["error"]))))
    except errors.APIError as error:
        raise Failed.of(faults.of_registry(image, one_line(error))) from error


class PullTimer:
    """Ends a pull that takes too long, by SIGALRM: the library waits for a pull without a limit, whatever its own is.
    It does not blame the node: which of registry, network and daemon is slow cannot be told from here."""

    def __init__(self, image: str) -> None:
        self.image = image
        self.ends = time.monotonic() + PULL_LIMIT_S

    def __enter__(self) -> PullTimer:
        signal.signal(signal.SIGALRM, self.over)
        self.hears()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def hears(self) -> None:
        left_s = self.ends - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(min(PULL_S, left_s), 0.001))

    def over(self, *_: object) -> NoReturn:
        late = time.monotonic() >= self.ends
        why = f"it takes more than {PULL_LIMIT_S} s" if late else f"nothing was heard of it for {PULL_S} s"
        raise Failed(
            Reason.PULL_FAILED, f"image {self.image} was not fetched: {why}: check its registry, or pull it by hand"
        )


def credentials(spec: dict[str, Any]) -> dict[str, str] | None:
    registry = spec["registry"]
    if registry is None:
        return None
    if "credentials_file" in registry:
        return secret_credentials(registry["credentials_file"])
    file = registry["password_file"]
    try:
        password, problem = Path(file).read_text().strip(), exposed(file)
    except OSError as error:
        detail = f"the password in {file} cannot be read: {error.strerror}"
        raise Failed(Reason.REGISTRY_REFUSED, detail, blames_node=True) from error
    if problem:
        raise Failed(Reason.REGISTRY_REFUSED, problem, blames_node=True)
    return {"username": registry["username"], "password": password}


def secret_credentials(file: str) -> dict[str, str]:
    """Return the credentials that a secret of the tenant holds. Raises Failed."""
    try:
        found: dict[str, str] = json.loads(Path(file).read_text())
    except OSError as error:
        detail = f"the credentials of its registry are not there any more: {error.strerror}"
        raise Failed(Reason.REGISTRY_REFUSED, detail, blames_node=True) from error
    return found


@contextlib.contextmanager
def noted(file: Path) -> Iterator[None]:
    """Note that the daemon is being asked: the file is there until it has answered. Raises Failed."""
    try:
        file.touch()
    except OSError as error:
        detail = f"this node cannot note what it asks its daemon for: {error}"
        raise Failed(Reason.CANNOT_STORE, detail, blames_node=True) from error
    try:
        yield
    except Failed:  # the daemon has answered, too
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


def create(client: Any, spec: dict[str, Any]) -> int:
    """Make the container, and return the signal that asks it to end."""
    try:
        made = client.create_container_from_config(spec["container"], name=spec["name"])
    except errors.ImageNotFound as error:
        raise Failed(Reason.IMAGE_NOT_FOUND, f"image {spec['image']} is not on this node any more") from error
    except errors.APIError as error:
        text = one_line(error)
        if "no command" in text.lower():
            raise Failed(Reason.COMMAND_NOT_FOUND, f"image {spec['image']} has no command", exit_code=127) from error
        fault = fault_of(spec, text)
        if fault.reason != Reason.START_FAILED:
            raise Failed.of(fault) from error
        raise Failed(Reason.BAD_CONTAINER, f"the container was refused: {text}") from error
    for warning in made.get("Warnings") or ():  # a limit that the kernel does not have, for one
        print(f"the container's daemon: {warning}", file=sys.stderr)
    stop = client.inspect_container(spec["name"])["Config"].get("StopSignal") or "SIGTERM"
    return signal_number(str(stop))


def start(client: Any, spec: dict[str, Any]) -> int:
    """Start the container, and return a descriptor that all of its output comes from."""
    name = spec["name"]
    try:
        line = client.attach_socket(name, {"stdout": 1, "stderr": 1, "stream": 1})  # podman makes it ready here
        # A stop order may come between the start and docker_follow's first instruction: it waits until then.
        signal.pthread_sigmask(signal.SIG_BLOCK, docker_follow.FORWARDED)
        client.start(name)
    except errors.APIError as error:
        raise Failed.of(fault_of(spec, one_line(error))) from error
    return os.dup(line.fileno())


def volumes_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the mounts that the job names. The first of all is the task's own directory, the last one its secrets, if
    it has any."""
    mounts: list[dict[str, Any]] = spec["container"]["HostConfig"]["Mounts"]
    return mounts[1 : len(mounts) - 1 if spec.get("has_secrets") else len(mounts)]


def fault_of(spec: dict[str, Any], text: str) -> faults.Fault:
    asked = spec["container"]
    paths = [volume[end] for volume in volumes_of(spec) for end in ("Source", "Target")]
    return faults.of_runtime(text, cwd=asked["WorkingDir"], volumes=paths)


def signal_number(text: str) -> int:
    if text.isdigit():
        return int(text)
    name = text if text.startswith("SIG") else f"SIG{text}"
    return int(signal.Signals[name]) if name in signal.Signals.__members__ else int(signal.SIGTERM)


def pid_of(client: Any, name: str) -> int:
    """Return its pid; 0: it has ended already. Raises Failed, and what else the daemon refuses."""
    deadline = time.monotonic() + APPEAR_S
    while True:
        try:
            state = client.inspect_container(name)["State"]
        except errors.APIError as error:
            if "no such process" not in str(error):  # podman reads files of the process, which ends meanwhile
                raise
        else:
            if not state["Running"]:
                return 0
            if state["Pid"] and os.path.exists(f"/proc/{state['Pid']}"):
                return int(state["Pid"])
        if time.monotonic() > deadline:
            raise Failed(Reason.DOCKER_FAILED, "the container's process is not on this machine", blames_node=True)
        time.sleep(0.05)


def finish(spec_file: str, usage: dict[str, int]) -> int:
    """Return the container's own exit code; `result.json` says more where there is more to say."""
    spec = json.loads(Path(spec_file).read_text())
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            client = connect(spec["host"], WAIT_S)
            code = int(client.wait(spec["name"])["StatusCode"])
            killed_for_memory = was_killed_for_memory(client, spec, code, usage)
            break
        except (Failed, *GONE) as error:
            if isinstance(error, errors.NotFound) or time.monotonic() > deadline:
                detail = f"the container's exit code is unknown: {one_line(error)}"
                raise Failed(Reason.CONTAINER_LOST, detail, blames_node=True) from error
            time.sleep(RETRY_S)
    result: dict[str, Any] = {"usage": {**usage, "oom_kills": int(killed_for_memory)}}
    if killed_for_memory:
        result |= {"reason": Reason.OOM_KILLED, "detail": "it used more memory than it asked for"}
    write(RESULT, result)
    return code


def was_killed_for_memory(client: Any, spec: dict[str, Any], code: int, usage: dict[str, int]) -> bool:
    """Return whether it was. Daemons learn of it apart from the container's end, and perhaps after it."""
    if usage.get("oom_kills"):
        return True
    may_be_late = code == 128 + signal.SIGKILL and spec["container"]["HostConfig"].get("Memory")
    deadline = time.monotonic() + (LATE_S if may_be_late else 0)
    while True:
        if client.inspect_container(spec["name"])["State"].get("OOMKilled"):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_AGAIN_S)


def one_line(error: Exception) -> str:
    return faults.one_line(str(getattr(error, "explanation", None) or error))


if __name__ == "__main__":
    sys.exit(main())
