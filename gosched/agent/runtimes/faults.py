"""Says what is at fault when a container did not start, by the words of an OCI runtime, of a daemon or of a registry.

Pure, and on its own: what imports it starts fast.

Invariant: of the runtime's words, what is not known to be the order's or the image's fault is the node's; of a
registry's, nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from gosched.core.reasons import Reason

MAX_TEXT = 500

# A daemon could not start its own runtime: what follows is about that, not about the task's command.
_NO_RUNTIME = re.compile(r"unable to retrieve oci runtime error|start(ing)? shim|fork/exec")
_NO_COMMAND = re.compile(
    r"executable file .*not found|exec: \S+: (stat \S+: )?no such file|open executable: no such file"
)
_NO_PROGRAM = re.compile(r"open executable:|exec: \S+: .*(permission denied|is a directory|exec format error)")
# What crun and runc say of a path that is there, but is no directory, or is one.
_BAD_PATH = re.compile(
    r"not a directory|is a directory|file exists|symbolic links|file name too long"
    r"|the target .* is invalid|must be mounted on ordinary directory"
)
_NO_ROOM = "no space left on device"

_UNREACHABLE = re.compile(
    r"connection (refused|reset)|no such host|server misbehaving|i/o timeout|timeout|deadline exceeded|tls|x509"
    r"|http response to https|no route to host|network is unreachable|broken pipe|\beof\b|status:? 5\d\d"
)
_REFUSED = re.compile(
    r"denied|unauthorized|authentication required|no basic auth|forbidden|toomanyrequests|status:? (401|403|429)"
)
_UNKNOWN = re.compile(r"not found|manifest unknown|name unknown|no such image|did not resolve|status:? 404")
_ADDRESS = re.compile(r"https?://\S+|\"[^\"]*\"|\S+:\d+\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a container did not start."""

    reason: Reason
    #: One line for people.
    detail: str
    exit_code: int = 125
    #: Whether another task would meet the same.
    blames_node: bool = False


def of_runtime(text: str, *, cwd: str, volumes: Collection[str]) -> Fault:
    """Return the fault of crun or runc that did not start a task. `volumes`: their paths, on the host and as tasks see
    them."""
    said = text.lower()
    if _NO_ROOM in said:
        return Fault(reason=Reason.CANNOT_STORE, detail=f"this node has no room to start it: {text}", blames_node=True)
    if not _NO_RUNTIME.search(said):
        if _NO_COMMAND.search(said):
            return Fault(reason=Reason.COMMAND_NOT_FOUND, detail=text, exit_code=127)
        if _NO_PROGRAM.search(said):
            return Fault(reason=Reason.NOT_EXECUTABLE, detail=text, exit_code=126)
        if "chdir" in said or "workdir" in said or re.search(rf"mkdir:? {re.escape(cwd.lower())}[: ]", said):
            return Fault(reason=Reason.BAD_WORKING_DIR, detail=f"working directory {cwd}: {text}")
        if "rlimit" in said:
            return Fault(reason=Reason.BAD_LIMIT, detail=f"the node cannot set its rlimits: {text}")
        if any(_quotes(text, path) for path in volumes):
            return Fault(reason=Reason.BAD_VOLUME, detail=f"a volume cannot be bound: {text}")
        if _BAD_PATH.search(said):
            return Fault(reason=Reason.BAD_IMAGE, detail=f"the image cannot be the root of a task: {text}")
    return Fault(reason=Reason.START_FAILED, detail=f"the node's runtime did not start it: {text}", blames_node=True)


def of_registry(image: str, text: str) -> Fault:
    """Return the fault of a daemon that did not get an image. Nothing of it blames the node: whether the registry is
    down, its name is wrong or this node alone has no way to it cannot be told from here, and a node that is closed for
    a registry that is down would be one of many."""
    said = _without_names(image, text.lower())
    # A registry that does not want to say whether it has the image lets both be read: it is refused first.
    if _REFUSED.search(said):
        hint = "check the image's name, and the credentials that the job names with `registry`"
        return Fault(reason=Reason.REGISTRY_REFUSED, detail=f"image {image}: {text}: {hint}")
    if _UNREACHABLE.search(said):
        hint = "check the registry's name, that it is up, and the node's way to it"
        return Fault(
            reason=Reason.REGISTRY_UNREACHABLE, detail=f"image {image}: its registry does not answer: {text}: {hint}"
        )
    if "invalid reference format" in said:
        return Fault(reason=Reason.BAD_IMAGE, detail=f"image {image}: {text}")
    if _UNKNOWN.search(said):
        return Fault(reason=Reason.IMAGE_NOT_FOUND, detail=f"image {image}: {text}")
    if _NO_ROOM in said:
        detail = f"this node cannot store the image {image}: {text}"
        return Fault(reason=Reason.CANNOT_STORE, detail=detail, blames_node=True)
    return Fault(reason=Reason.PULL_FAILED, detail=f"image {image} was not fetched: {text}")


def _without_names(image: str, said: str) -> str:
    """Return the text without names: an image may be called `timeout`, and a port 401."""
    repository = re.sub(r"(:[^:/]*|@.*)$", "", image)
    for name in (image, repository):
        said = re.sub(rf"(?<![\w./-]){re.escape(name.lower())}(?![\w/-])", "", said)
    return _ADDRESS.sub("", said)


def one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_TEXT]


def _quotes(text: str, path: str) -> bool:
    """Return whether the text quotes a path, from the root or without that, as crun and runc do."""
    return any(f"{mark}{name}{mark}" in text for mark in "`\"'" for name in (path, path.lstrip("/")))
