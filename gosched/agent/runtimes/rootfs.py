"""Tasks on a root filesystem: an OCI runtime (crun or runc) on a bundle that is made for the task.

The one rule: nothing of a task is in the node's own view. Its root is a layer above the image, mounted where only the
task sees it, so that mounts go with its last process and the image is never written to. The cgroup stays the agent's.

A program that is PID 1 does not die of a signal that it has no handler for: a task that does not handle SIGTERM is
killed when its grace is over, as with all containers.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from gosched.agent.orders import Order
from gosched.agent.runtimes import oci_exec
from gosched.agent.runtimes.environment import DEFAULT_PATH
from gosched.agent.runtimes.images import Images
from gosched.agent.runtimes.inside import SHM_BYTES, binds, find_command, inner_cwd, inner_env
from gosched.agent.runtimes.interface import CannotRun, Launch, Place
from gosched.agent.runtimes.names import hostname
from gosched.agent.runtimes.oci_bundle import Container, Device, config
from gosched.agent.runtimes.oci_failure import LOG, OWN_STDERR, STARTED, explained
from gosched.agent.runtimes.root_layer import (
    CGROUPS,
    MOUNT_LAYER,
    has_overlay,
    hierarchy,
    in_own_view,
    lay_over,
    missing_program,
)
from gosched.agent.runtimes.rootfs_launcher import SPEC
from gosched.agent.supervisor.control_group import cgroup_of

RUNTIMES = ("crun", "runc")  # the first that is there
_ID = "task"  # of the container; each one has its own state directory

DevicePaths = Callable[[tuple[int, ...]], tuple[str, ...]]


class Rootfs:
    """`oci_runtime`: its name or path; empty: crun, or else runc. `cache`: for what was unpacked. `device_paths`: the
    device nodes of GPUs, by their numbers."""

    def __init__(self, oci_runtime: str, cache: Path, device_paths: DevicePaths = lambda gpus: ()) -> None:
        self._runtime = oci_runtime or next((name for name in RUNTIMES if shutil.which(name)), "")
        self._cache = cache
        self._device_paths = device_paths
        self._images = Images(cache)

    def problem(self) -> str:
        if not self._runtime:
            return "neither crun nor runc is installed"
        if shutil.which(self._runtime) is None:
            return f"there is no program {self._runtime}: install it, or name another with oci_runtime"
        if missing := missing_program():
            return f"there is no program {missing}"
        if os.geteuid() != 0:
            return "the agent is not root"
        return ""

    def launch(self, order: Order, place: Place, env: dict[str, str]) -> Launch:
        """The bundle is `oci` in the allocation's directory. CannotRun: IMAGE_NOT_FOUND, BAD_IMAGE, VOLUME_NOT_FOUND,
        BAD_VOLUME, COMMAND_NOT_FOUND, NOT_EXECUTABLE, NO_CGROUP."""
        bundle = place.path / "oci"
        bundle.mkdir(mode=0o700, exist_ok=True)
        image = _image(order.image)
        container = self._container(order, place, env)
        (bundle / "config.json").write_text(json.dumps(config(container)))
        layered = has_overlay(self._cache)
        runtime = self._words(bundle)
        log = ("--log", str(bundle / LOG)) if self._is_crun else ()  # it says what it says on stderr too
        run = [*runtime, *log, "run", "--pid-file", str(bundle / STARTED), "--bundle", str(bundle), _ID]
        view = in_own_view(run, *([MOUNT_LAYER] if layered else []), OWN_STDERR)
        command = explained(view, bundle, self._runtime, str(place.cgroup or ""), cgroup_of(os.getpid()))
        ready = (image if image.is_dir() else self._images.ready(image, bundle)) if layered else None
        if ready is not None:
            find_command(container.command, container.cwd, container.env["PATH"], container.binds, ready)
            lay_over(ready, bundle)
        else:
            command = self._launcher(bundle, image, container, place, layered, command)
        return Launch(
            command=command,
            env={"PATH": os.environ.get("PATH", DEFAULT_PATH)},
            cwd=str(bundle),
            cgroup=str(place.cgroup or ""),
            announces=ready is None,
            exec=self._beside(runtime, bundle, place.cgroup),
            cleanup=(in_own_view(_removal(runtime, bundle)), ("rm", "-rf", str(bundle))),
        )

    def _launcher(
        self, bundle: Path, image: Path, container: Container, place: Place, layered: bool, then: Sequence[str]
    ) -> tuple[str, ...]:
        spec = {
            "image": str(image),
            "cache": str(self._cache),
            "layered": layered,
            "command": list(container.command),
            "cwd": container.cwd,
            "path": container.env["PATH"],
            "binds": [asdict(bind) for bind in container.binds],
            "cgroup": str(place.cgroup or ""),
            "then": list(then),
        }
        (bundle / SPEC).write_text(json.dumps(spec))
        return (sys.executable, "-I", "-m", "gosched.agent.runtimes.rootfs_launcher", str(bundle))

    def _words(self, bundle: Path) -> list[str]:
        words = [self._runtime, "--root", str(bundle / "state")]
        if self._is_crun:
            return [*words, "--cgroup-manager=disabled"]
        # Its warnings that the cgroup is not its own are of no use to the task's owner.
        return [*words, "--log", str(bundle / LOG), "--log-format", "json"]

    @property
    def _is_crun(self) -> bool:
        return Path(self._runtime).name.startswith("crun")

    def _beside(self, runtime: Sequence[str], bundle: Path, cgroup: Path | None) -> tuple[str, ...]:
        """It ends with the container's name; --tty and --env may stand before that."""
        own = [sys.executable, "-I", "-S", oci_exec.__file__, str(bundle)]
        if self._is_crun:
            return (*own, str(cgroup or ""), *runtime, "--", _ID)
        return in_own_view([*own, "", *runtime, "--", _ID])

    def _container(self, order: Order, place: Place, env: Mapping[str, str]) -> Container:
        cgroups_path = ""
        if not self._is_crun:
            if place.cgroup is None:
                why = "runc needs a cgroup for the task, and this node has none: install crun"
                raise CannotRun("NO_CGROUP", why, blames_node=True)
            # A child, since it wants an empty one; the limits of the task's cgroup hold below it.
            cgroups_path = f"/{place.cgroup.relative_to(hierarchy())}/{_ID}"
        return Container(
            command=order.command,
            env=inner_env(order, place, env, path=DEFAULT_PATH),
            cwd=inner_cwd(order),
            hostname=hostname(order.task_id),
            isolation=order.isolation,
            account=place.account,
            binds=binds(order, place),
            devices=_devices(self._device_paths(order.gpus)),
            shm_bytes=order.resources.memory_bytes or SHM_BYTES,
            cgroups_path=cgroups_path,
            cgroup_view=place.cgroup is not None and hierarchy() == CGROUPS,
            machine=platform.machine(),
        )


def _removal(runtime: Sequence[str], bundle: Path) -> list[str]:
    """A runtime that still runs may remove its container by itself in the same moment."""
    gone = f"[ ! -e {shlex.quote(str(bundle / 'state' / _ID))} ]"
    return ["sh", "-c", f'"$@" || {gone}', "sh", *runtime, "delete", "--force", _ID]


def _image(name: str) -> Path:
    """A directory or a file."""
    path = Path(name)
    if not path.is_absolute():
        raise CannotRun("BAD_IMAGE", f"image {name!r}: a rootfs task needs an absolute path on the node")
    try:
        kind = path.stat().st_mode
    except OSError as error:
        raise CannotRun("IMAGE_NOT_FOUND", f"image {name} is not on this node: {error.strerror}") from error
    if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
        raise CannotRun("BAD_IMAGE", f"image {name} is neither a directory nor an archive")
    return path


def _devices(paths: Sequence[str]) -> list[Device]:
    numbers = {path: os.stat(path).st_rdev for path in paths}
    return [Device(path=path, major=os.major(n), minor=os.minor(n)) for path, n in numbers.items()]
