"""Volumes and images of the node: below what its agent allows, with the rights of the task's user, and what was looked
at is what the task gets. Needs root, crun and busybox."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.agent.runtimes import docker_volumes
from gosched.agent.runtimes.inside import AllowedPaths
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.runtimes.rootfs import Rootfs
from gosched.core.spec.isolation import Isolation, Volume
from gosched.core.spec.task_group import Runtime
from tests.integration.containers import NOBODY, Node, make_rootfs, needs, tar_of
from tests.integration.test_hostile_files import attacker, users_directory

ROUNDS = 40
LIMIT_S = 60  # of further rounds, until one start has succeeded


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """Where every user may pass through: `rootfs`, `open` with a link out of it, and `closed`, which is root's."""
    needs("crun", "busybox")
    with tempfile.TemporaryDirectory(prefix="gosched-paths-") as name:
        base = Path(name)
        base.chmod(0o755)
        make_rootfs(base / "rootfs")
        (base / "openly").mkdir()
        for path in ("open/in", "closed/in"):
            (base / path).mkdir(parents=True)
            (base / path / "file").write_text("precious" if path == "closed/in" else "data")
        (base / "closed").chmod(0o700)
        (base / "open" / "out").symlink_to(base / "closed" / "in")
        (base / "open" / "around").symlink_to(base / "open" / "in")
        (base / "open" / "aside").symlink_to("../rootfs")
        tar_of(base / "rootfs", base / "closed" / "image.tar").chmod(0o644)
        tar_of(base / "rootfs", base / "open" / "secret.tar").chmod(0o600)
        yield base


def node_on(tmp_path: Path, ground: Path, *volumes: Path, images: tuple[Path, ...] = ()) -> Node:
    paths = AllowedPaths(volumes=tuple(map(str, volumes)), images=tuple(map(str, images or (ground,))))
    return Node(tmp_path, Rootfs("crun", tmp_path / "images", paths), Runtime.ROOTFS, ground / "rootfs")


def shown(node: Node, volume: Path) -> tuple[int, str]:
    """What a task of nobody's finds there."""
    isolation = Isolation(volumes=(Volume(host=str(volume), to="/mnt"),))
    code, out, err = node.run("sh", "-c", "cat /mnt/file || cat /mnt", account=NOBODY, isolation=isolation)
    return code, out + err


def refusal(node: Node, volume: Path) -> str:
    with pytest.raises(CannotRun) as caught:
        shown(node, volume)
    assert not caught.value.blames_node
    return caught.value.reason


def test_a_volume_is_bound_where_the_agent_allows_it(tmp_path: Path, ground: Path) -> None:
    with contextlib.closing(node_on(tmp_path, ground, ground / "open")) as node:
        assert shown(node, ground / "open" / "in") == (0, "data")
        assert shown(node, ground / "open" / "around") == (0, "data")
        assert refusal(node, ground / "rootfs") == "VOLUME_NOT_ALLOWED"
        assert refusal(node, ground / "open" / "aside") == "VOLUME_NOT_ALLOWED"
        assert refusal(node, ground / "openly") == "VOLUME_NOT_ALLOWED"
        assert refusal(node, Path("/proc/self/root/etc")) == "VOLUME_NOT_FOUND"
        assert refusal(node, ground / "open" / "none") == "VOLUME_NOT_FOUND"


def test_no_volume_is_allowed_unless_the_agent_says_so(tmp_path: Path, ground: Path) -> None:
    with contextlib.closing(node_on(tmp_path, ground)) as node:
        assert refusal(node, ground / "open" / "in") == "VOLUME_NOT_ALLOWED"


@pytest.mark.parametrize("allowed", ["", "open"])
def test_a_link_leads_no_task_to_what_is_closed_to_its_user_or_not_allowed(
    tmp_path: Path, ground: Path, allowed: str
) -> None:
    with contextlib.closing(node_on(tmp_path, ground, ground / allowed)) as node:
        assert refusal(node, ground / "open" / "out") == "VOLUME_NOT_ALLOWED"


def test_a_volume_that_is_closed_to_the_tasks_user_is_not_opened_by_root_for_it(tmp_path: Path, ground: Path) -> None:
    with contextlib.closing(node_on(tmp_path, ground, Path("/"))) as node:
        assert refusal(node, ground / "closed" / "in") == "VOLUME_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("closed/image.tar", "IMAGE_NOT_ALLOWED"),
        ("open/secret.tar", "IMAGE_NOT_ALLOWED"),
        ("closed/in", "IMAGE_NOT_ALLOWED"),
        ("open/out", "IMAGE_NOT_ALLOWED"),
        ("open/none", "IMAGE_NOT_FOUND"),
    ],
)
def test_an_image_is_read_with_the_rights_of_the_tasks_user(
    tmp_path: Path, ground: Path, image: str, reason: str
) -> None:
    with contextlib.closing(node_on(tmp_path, ground)) as node:
        with pytest.raises(CannotRun) as caught:
            node.run("true", account=NOBODY, image=ground / image)
        assert caught.value.reason == reason
    other = tmp_path / "other"
    other.mkdir()
    with (
        contextlib.closing(node_on(other, ground, images=(ground / "open",))) as node,
        pytest.raises(CannotRun) as caught,
    ):
        node.run("true", account=NOBODY)
    assert caught.value.reason == "IMAGE_NOT_ALLOWED"


# A directory of its user's own for a while, and for a while a link to what is closed: mostly short, now and then long
# enough for a whole start on a busy node.
FLIP = """
import os, random, sys, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    time.sleep(random.uniform(0, random.choice((0.02, 0.02, 0.02, 1))))
    os.rename("volume", "other")
    os.symlink(sys.argv[2], "volume")
    time.sleep(random.uniform(0, 0.02))
    os.unlink("volume")
    os.rename("other", "volume")
"""


def test_what_a_user_swaps_after_the_look_is_not_what_a_task_gets(tmp_path: Path, ground: Path) -> None:
    home = users_directory(ground / "home", "volume")
    (home / "volume" / "file").write_text("data")
    seen: set[str] = set()
    rounds, ends = 0, time.monotonic() + LIMIT_S
    node = node_on(tmp_path, ground, Path("/"))
    with contextlib.closing(node), attacker(FLIP, home, ground / "closed" / "in"):
        while rounds < ROUNDS or ("data" not in seen and time.monotonic() < ends):
            rounds += 1
            with contextlib.suppress(CannotRun):
                seen.add(shown(node, home / "volume")[1])
    assert not [text for text in seen if "precious" in text]
    assert "data" in seen, f"none of {rounds} starts succeeded: this shows nothing"


def held(directory: Path, source: Path | str, *allowed: str) -> str:
    """What Docker's daemon is told of a volume of nobody's."""
    mounts = [{"Source": str(source)}]
    docker_volumes.hold(mounts, directory, allowed, NOBODY)
    return mounts[0]["Source"]


def test_docker_is_told_a_path_that_only_root_can_change_or_one_where_the_volume_is_held(
    tmp_path: Path, ground: Path
) -> None:
    assert held(tmp_path, "/usr/share", "/usr") == "/usr/share"
    try:
        for source in (ground / "open" / "around", ground / "open" / "in" / "file"):  # in /tmp, where others make names
            told = held(tmp_path, source, str(ground))
            assert told == str(tmp_path / "volumes" / "0")
            assert os.path.samefile(told, source)
            docker_volumes.release(tmp_path)
    finally:
        docker_volumes.release(tmp_path)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert (ground / "open" / "in" / "file").read_text() == "data"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["closed/in", "open/out", "none", "rootfs"])
def test_docker_is_told_nothing_of_what_the_tasks_user_may_not_have(tmp_path: Path, ground: Path, path: str) -> None:
    with pytest.raises(CannotRun) as caught:
        held(tmp_path, ground / path, str(ground / "open"), str(ground / "closed"))
    assert caught.value.reason == ("VOLUME_NOT_FOUND" if path == "none" else "VOLUME_NOT_ALLOWED")
