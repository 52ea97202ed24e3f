"""Tasks on a root filesystem: an OCI runtime (crun or runc) on a bundle that is made for the task.

Invariant: nothing of a task is in the node's own view. Its root is a layer above the image, mounted where only the
task sees it, so that mounts go with its last process and the image is never written to. The cgroup stays the agent's.

A program that is PID 1 does not die of a signal that it has no handler for: a task that does not handle SIGTERM is
killed when its grace is over, as with all containers.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gosched.agent.beneath import opened
from gosched.agent.runtimes import oci_exec
from gosched.agent.runtimes.environment import DEFAULT_PATH
from gosched.agent.runtimes.images import Images
from gosched.agent.runtimes.inside import (
    SHM_BYTES,
    AllowedPaths,
    binds,
    inner_cwd,
    inner_env,
    open_archive,
    open_named,
    secrets_bind,
)
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.lookup import Root, find_command
from gosched.agent.runtimes.names import hostname
from gosched.agent.runtimes.oci_bundle import Container, Device, config
from gosched.agent.runtimes.oci_failure import LOG, OWN_STDERR, STARTED, explained
from gosched.agent.runtimes.root_layer import (
    CGROUPS,
    LOWER,
    MOUNT_LAYER,
    has_overlay,
    hierarchy,
    in_own_view,
    lay_over,
    link_lower,
    missing_program,
)
from gosched.agent.runtimes.rootfs_launcher import SPEC
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.launch import Account, HostBind, Launch
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason

RUNTIMES = ("crun", "runc")  # the first that is there
VOLUMES = "volumes"  # in the bundle
_ID = "task"  # of the container; each one has its own state directory

DevicePaths = Callable[[tuple[int, ...]], tuple[str, ...]]


class Rootfs:
    """The rootfs runtime.

    `oci_runtime`: its name or path; empty: crun, or else runc. `cache`: for what was unpacked. `paths`: what of the
    host tasks may name. `device_paths`: the device nodes of GPUs, by their numbers.
    """

    def __init__(
        self, oci_runtime: str, cache: Path, paths: AllowedPaths, device_paths: DevicePaths = lambda gpus: ()
    ) -> None:
        self._runtime = oci_runtime or next((name for name in RUNTIMES if shutil.which(name)), "")
        self._cache = cache
        self._paths = paths
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

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        """Return the launch. The bundle is `oci` in the allocation's directory. Raises CannotRun: IMAGE_NOT_FOUND,
        IMAGE_NOT_ALLOWED, BAD_IMAGE, VOLUME_NOT_FOUND, VOLUME_NOT_ALLOWED, BAD_VOLUME, COMMAND_NOT_FOUND,
        NOT_EXECUTABLE, NO_CGROUP."""
        bundle = place.path / "oci"
        bundle.mkdir(mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as held:
            image, is_directory = self._open_image(order.image, place.account)
            held.callback(os.close, image)
            container = self._container(order, place, env)
            volumes = self._volumes(container, bundle, place.account)
            bound = self._bound(order.image, bundle / LOWER, place.account) if is_directory else ()
            (bundle / "config.json").write_text(json.dumps(config(_from_bundle(container, volumes))))
            layered = has_overlay(self._cache)
            command = self._run(bundle, place, layered)
            root = (image if is_directory else self._ready(image, bundle, held)) if layered else None
            if root is not None:
                looked_at_as = place.account if is_directory else None
                roots = self._roots(container, place, Root(to="/", fd=root, account=looked_at_as), held)
                find_command(container.command, container.cwd, container.env["PATH"], roots)
                lay_over(root, bundle)
            else:
                command = self._launcher(order.image, container, volumes, place, is_directory, layered, command)
        return Launch(
            command=command,
            env={"PATH": os.environ.get("PATH", DEFAULT_PATH)},
            cwd=str(bundle),
            cgroup=str(place.cgroup or ""),
            announces=root is None,
            exec=self._beside(self._words(bundle), bundle, place.cgroup),
            cleanup=(in_own_view(_removal(self._words(bundle), bundle)), ("rm", "-rf", str(bundle))),
            binds=(*bound, *volumes),
        )

    def _open_image(self, name: str, account: Account | None) -> tuple[int, bool]:
        """Return a descriptor of it, and whether it is a directory; else it is an archive, open for reading."""
        if not os.path.isabs(name):
            raise CannotRun(Reason.BAD_IMAGE, f"image {name!r}: a rootfs task needs an absolute path on the node")
        fd = open_named("image", os.path.normpath(name), self._paths.images, account)
        kind = os.fstat(fd).st_mode
        if stat.S_ISDIR(kind):
            return fd, True
        try:
            if not stat.S_ISREG(kind):
                raise CannotRun(Reason.BAD_IMAGE, f"image {name} is neither a directory nor an archive")
            return open_archive(fd, name, account), False
        finally:
            os.close(fd)

    def _ready(self, archive: int, bundle: Path, held: contextlib.ExitStack) -> int | None:
        """Return a descriptor of what was unpacked from it already; None: nothing was."""
        image = self._images.ready(archive, bundle)
        if image is None:
            return None
        link_lower(image, bundle)
        return held.enter_context(opened(image))

    def _bound(self, image: str, at: Path, account: Account | None) -> tuple[HostBind, ...]:
        host = os.path.normpath(image)
        return (HostBind(what="image", host=host, at=str(at), allowed=self._paths.images, account=account),)

    def _volumes(self, container: Container, bundle: Path, account: Account | None) -> tuple[HostBind, ...]:
        """Return the volumes, bound in the bundle before the runtime binds them from there: it knows only names, which
        may change."""
        if container.binds[1:]:
            (bundle / VOLUMES).mkdir(mode=0o700, exist_ok=True)
        allowed = self._paths.volumes
        return tuple(
            [
                HostBind(
                    what="volume", host=bind.host, at=str(bundle / VOLUMES / str(n)), allowed=allowed, account=account
                )
                for n, bind in enumerate(container.binds[1:])
            ]
        )

    def _roots(self, container: Container, place: Place, image: Root, held: contextlib.ExitStack) -> list[Root]:
        work, *volumes = container.binds
        roots = [image, Root(to=work.to, fd=held.enter_context(opened(work.host)), account=place.account)]
        for bind in volumes:
            fd = open_named("volume", bind.host, self._paths.volumes, place.account)
            held.callback(os.close, fd)
            roots.append(Root(to=bind.to, fd=fd, account=place.account))
        return roots

    def _run(self, bundle: Path, place: Place, layered: bool) -> tuple[str, ...]:
        log = ("--log", str(bundle / LOG)) if self._is_crun else ()  # it says what it says on stderr too
        run = [*self._words(bundle), *log, "run", "--pid-file", str(bundle / STARTED), "--bundle", str(bundle), _ID]
        view = in_own_view(run, *([MOUNT_LAYER] if layered else []), OWN_STDERR)
        return explained(view, bundle, self._runtime, str(place.cgroup or ""), cgroup_of(os.getpid()))

    def _launcher(
        self,
        image: str,
        container: Container,
        volumes: Sequence[HostBind],
        place: Place,
        is_directory: bool,
        layered: bool,
        then: Sequence[str],
    ) -> tuple[str, ...]:
        bundle = place.path / "oci"
        work, *others = container.binds
        spec = {
            "image": os.path.normpath(image),
            "archive": not is_directory,
            "allowed": self._paths.images,
            "account": asdict(place.account) if place.account is not None else None,
            "cache": str(self._cache),
            "layered": layered,
            "command": list(container.command),
            "cwd": container.cwd,
            "path": container.env["PATH"],
            "roots": [[work.host, work.to], *([v.at, bind.to] for v, bind in zip(volumes, others, strict=True))],
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
        """Return the words before a command beside the task. They end with the container's name; --tty and --env may
        stand before that."""
        own = [sys.executable, "-I", "-S", oci_exec.__file__, str(bundle)]
        if self._is_crun:
            return (*own, str(cgroup or ""), *runtime, "--", _ID)
        return in_own_view([*own, "", *runtime, "--", _ID])

    def _container(self, order: TaskOrder, place: Place, env: Mapping[str, str]) -> Container:
        cgroups_path = ""
        if not self._is_crun:
            if place.cgroup is None:
                why = "runc needs a cgroup for the task, and this node has none: install crun"
                raise CannotRun(Reason.NO_CGROUP, why, blames_node=True)
            # A child, since it wants an empty one; the limits of the task's cgroup hold below it.
            cgroups_path = f"/{place.cgroup.relative_to(hierarchy())}/{_ID}"
        return Container(
            command=order.command,
            env=inner_env(order, place, env, path=DEFAULT_PATH),
            cwd=inner_cwd(order),
            hostname=hostname(order.task_id),
            isolation=order.isolation,
            account=place.account,
            binds=binds(order, place, self._paths.volumes),
            devices=_devices(self._device_paths(order.gpus)),
            shm_bytes=order.resources.memory_bytes or SHM_BYTES,
            cgroups_path=cgroups_path,
            cgroup_view=place.cgroup is not None and hierarchy() == CGROUPS,
            architecture=platform.machine(),
            secrets=secrets_bind(place),
        )


def _removal(runtime: Sequence[str], bundle: Path) -> list[str]:
    """Return the command that removes the container. A runtime that still runs may remove it by itself in the same
    moment."""
    gone = f"[ ! -e {shlex.quote(str(bundle / 'state' / _ID))} ]"
    return ["sh", "-c", f'"$@" || {gone}', "sh", *runtime, "delete", "--force", _ID]


def _from_bundle(container: Container, volumes: Sequence[HostBind]) -> Container:
    """Return the container as the OCI runtime gets it: each volume is taken from where the supervisor has bound it."""
    work, *others = container.binds
    bound = [replace(bind, host=volume.at) for bind, volume in zip(others, volumes, strict=True)]
    return replace(container, binds=(work, *bound))


def _devices(paths: Sequence[str]) -> list[Device]:
    numbers = {path: os.stat(path).st_rdev for path in paths}
    return [Device(path=path, major=os.major(n), minor=os.minor(n)) for path, n in numbers.items()]
