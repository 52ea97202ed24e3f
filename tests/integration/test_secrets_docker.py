"""Secrets of tasks in Docker containers: files that they read, and credentials by which their image is fetched.

Needs root, dockerd and busybox.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient, GoSchedError
from gosched.core.records.job import JobState
from gosched.wire.secret_keys import new_key_line

from .containers import make_rootfs
from .daemons import docker_daemon, import_image
from .image_registry import refusing
from .support import PATIENCE_S, PATIENT
from .test_secrets import MARKER, files_below, found_in


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gosched-docker-", ignore_cleanup_errors=True) as base:
        yield Path(base)


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    keys = folder / "keys"
    keys.touch(mode=0o600)
    keys.write_text(new_key_line("k1") + "\n")
    with docker_daemon(folder) as address:
        import_image(address, make_rootfs(folder / "rootfs"), "busy")
        shape = AgentShape(settings={"docker_host": address, "users": {"own": False, "default": "nobody"}})
        settings = {**PATIENT, "secrets": {"key_file": str(keys)}}
        with LocalCluster(masters=1, agents=[shape], settings=settings) as running:
            yield running


def end_of(client: GoSchedClient, name: str, more: str) -> tuple[JobState, str, str]:
    """Return how a job ends, why, and what it printed."""
    job = client.submit(f"name: {name}\ntenant: ml\nresources: {{cpu: 100m}}\n{more}").job_id
    state = client.wait(job, timeout=PATIENCE_S).state
    (task,) = client.get_job(job).tasks
    log = b"".join(chunk.data for chunk in client.logs(job)) if state is JobState.SUCCEEDED else b""
    return state, task.reason, log.decode()


@pytest.mark.timeout(300)
def test_a_container_reads_its_secrets_and_none_is_on_a_disk_that_of_the_daemon_included(
    cluster: LocalCluster, folder: Path
) -> None:
    lines = "cat /run/secrets/deep/db; echo; echo at $GOSCHED_SECRETS_DIR; touch /run/secrets/new || echo closed"
    more = f"image: busy\npull: never\nsecrets: [{{name: db, file: deep/db}}]\nrun: '{lines}'\n"
    with cluster.client() as client:
        client.set_secret("ml", "db", MARKER)
        state, _, log = end_of(client, "inside", more)
        assert state is JobState.SUCCEEDED
        assert log.splitlines()[:2] == [MARKER.decode(), "at /run/secrets"]
        assert "closed" in log
        with pytest.raises(GoSchedError, match="take a file instead"):
            client.submit("name: x\ntenant: ml\nimage: busy\nsecrets: [{name: db, env: DB}]\nrun: env\n")
    disks = [*files_below(folder), *files_below(cluster.data_dir)]
    assert found_in([file for file in disks if "/logs/" not in str(file)]) == []


@pytest.mark.timeout(300)
def test_a_registry_gets_the_credentials_that_a_secret_of_the_tenant_holds(cluster: LocalCluster) -> None:
    with refusing(404, "MANIFEST_UNKNOWN", login="robot:sesame") as address, cluster.client() as client:
        more = f"image: {address}/team/tool:1\nrun: 'true'\n"
        assert end_of(client, "nobody", more)[:2] == (JobState.FAILED, "REGISTRY_REFUSED")
        client.set_secret("ml", "hub", "robot:wrong")
        named = f"{more}registry: secret:hub\n"
        assert end_of(client, "wrong", named)[:2] == (JobState.FAILED, "REGISTRY_REFUSED")
        client.set_secret("ml", "hub", '{"username": "robot", "password": "sesame"}')
        assert end_of(client, "let-in", named)[:2] == (JobState.FAILED, "IMAGE_NOT_FOUND")  # it has no images
        client.set_secret("ml", "hub", "no credentials")
        assert end_of(client, "none", named)[:2] == (JobState.FAILED, "SECRET_NOT_AVAILABLE")
    assert [str(file) for file in files_below(cluster.data_dir) if b"sesame" in file.read_bytes()] == []
