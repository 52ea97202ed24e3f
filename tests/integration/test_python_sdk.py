"""The Python SDK on a real cluster: the examples of its pages, waits for many jobs, and GoSchedExecutor."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from gosched import AsyncGoSchedClient, GoSchedClient, GoSchedExecutor, Job, as_completed, wait
from gosched.cli.local_cluster import LocalCluster
from gosched.client import TimedOut
from tests.integration.support import PATIENCE_S, until

PAGES = [page for page in sorted((Path(__file__).parents[2] / "docs/python").glob("*.md")) if page.stem != "index"]
BLOCK = re.compile(r"(?P<unrun><!-- not run[^\n]*\n)?^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
SAYS = re.compile(r"# -> (.*)$", re.MULTILINE)
URL = "http://localhost:8080"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        # Tasks find the interpreter of this environment as python3.X, as its users would.
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        with LocalCluster(masters=1, agents=2) as running:
            yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    with cluster.client() as client:
        yield client


def url(cluster: LocalCluster) -> str:
    return f"http://{next(iter(cluster.masters.values())).http}"


def examples(page: str) -> str:
    return "\n".join(found["code"] for found in BLOCK.finditer(page) if not found["unrun"])


def promised(code: str) -> list[str]:
    """Return patterns of what the lines say that they print; `...` stands for anything."""
    return [".*?".join(map(re.escape, said.split("..."))) for said in SAYS.findall(code)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_and_print_what_they_say(page: Path, cluster: LocalCluster, tmp_path: Path) -> None:
    code = examples(page.read_text())
    assert code.count(URL) >= 1
    script = tmp_path / "example.py"
    script.write_text(code.replace(URL, url(cluster)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=3 * PATIENCE_S, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    for pattern in promised(code):
        assert re.search(f"^{pattern}$", done.stdout, re.DOTALL | re.MULTILINE), (pattern, done.stdout)


def test_every_page_has_examples_and_says_what_they_print() -> None:
    assert [page.stem for page in PAGES] == ["async-client", "client", "errors", "executor", "job"]
    assert all(promised(examples(page.read_text())) for page in PAGES)


def test_many_jobs_are_waited_for_each_is_told_once(client: GoSchedClient) -> None:
    jobs = [client.submit(Job(name=f"many-{n}", run=f"exit {n % 2}", resources={"cpu": "100m"})) for n in range(12)]
    slow = client.submit(Job(name="slow", run="sleep 600", resources={"cpu": "100m"}))
    told = list(as_completed(jobs, timeout=PATIENCE_S))
    assert sorted(job.name for job in told) == sorted(job.name for job in jobs)
    assert wait([*jobs, slow], timeout=0) == (set(jobs), {slow})
    assert slow not in wait([slow, *jobs], return_when="FIRST_COMPLETED").done
    with pytest.raises(TimedOut):
        list(as_completed([slow], timeout=0.5))
    slow.cancel()
    assert wait([slow], timeout=PATIENCE_S).done == {slow}


def test_jobs_are_waited_for_with_asyncio(cluster: LocalCluster) -> None:
    async def run() -> list[str]:
        async with asyncio.timeout(PATIENCE_S), AsyncGoSchedClient(url(cluster)) as client:
            jobs = await client.submit_all([Job(name=f"async-{n}", run=f"sleep 0.{n}") for n in range(4)])
            command = ["sh", "-c", "cat; exit 3"]
            keeper = await client.submit(Job(name="keeper", run="sleep 600"))
            async for detail in keeper.watch():
                if detail.job.running:
                    break
            async with await keeper.exec(command) as running:
                await running.send(b"over there")
                await running.end_input()
                assert [part async for part in running] == [("stdout", b"over there")]
                assert running.exit_code == 3
            await keeper.cancel()
            info, content = await client.take_backup()
            assert info.revision
            assert sum([len(part) async for part in content]) > 0
            return [job.name async for job in client.as_completed(jobs)]

    assert sorted(asyncio.run(run())) == [f"async-{n}" for n in range(4)]


def test_an_executor_maps_raises_cancels_retries_and_brings_large_results(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    once, gate = str(tmp_path / "once"), str(tmp_path / "gate")

    def dies_once(file: str) -> str:
        if not os.path.exists(file):
            with open(file, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return os.environ["GOSCHED_JOB_NAME"]

    def until_open(file: str) -> None:
        while not os.path.exists(file):
            time.sleep(0.05)

    def fails() -> None:
        raise LookupError("nothing there")

    with GoSchedExecutor(url(cluster), max_workers=3, resources={"cpu": "250m", "memory": "64Mi"}) as pool:
        assert list(pool.map(lambda n: n * n, range(100))) == [n * n for n in range(100)]
        assert len(pool.submit(lambda: b"x" * 8_000_000).result(PATIENCE_S)) == 8_000_000
        with pytest.raises(LookupError, match="nothing there") as caught:
            pool.submit(fails).result(PATIENCE_S)
        assert "in fails" in str(caught.value.__cause__)
        assert pool.submit(dies_once, once).result(2 * PATIENCE_S).startswith("executor-")
        blocked = [pool.submit(until_open, gate) for _ in range(4)]
        until(lambda: sum(future.running() for future in blocked) == 3, "three calls run")
        assert blocked[3].cancel()
        Path(gate).touch()
        with pytest.raises(CancelledError):
            blocked[3].result(PATIENCE_S)
        said = pool.submit(print, "in the log of the worker")
        said.result(PATIENCE_S)
        jobs = [client.job(job.id) for job in pool.jobs]
    assert wait(jobs, timeout=PATIENCE_S).not_done == set()
    assert client.list_jobs(states=["PENDING", "RUNNING"], queue="default") == []
