"""Pages of the documentation whose commands are run as they stand, against a cluster of `goschedctl local up`.

A fenced block of a shell with the mark `run` is run; all of a page are one script, in which the first failure ends it.
A block of YAML with a file's name beside its language is written to that file before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from tests.docs.pages import ROOT, blocks
from tests.integration.support import PATIENCE_S

PAGES = {"getting-started/first-job.md": 3, "operations/procedures.md": 2}
PROGRAMS = Path(sys.executable).parent


def environment(endpoints: str) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("GOSCHED_")}
    return {**own, "PATH": f"{PROGRAMS}:{own['PATH']}", "GOSCHED_ENDPOINTS": endpoints}


@contextmanager
def local_up(folder: Path, agents: int) -> Iterator[str]:
    """Run what `goschedctl local up` runs, with more patience; yield the endpoints."""
    cluster = LocalCluster(folder, masters=3, agents=agents)
    ended = threading.Event()

    def reap() -> None:
        """Reap the programs that a page ends, as `goschedctl local up` does: a zombie looks as if it ran."""
        while not ended.wait(0.1):
            _ = [program.is_alive for program in cluster.programs]

    reaper = threading.Thread(target=reap)
    try:
        cluster.start(timeout_s=3 * PATIENCE_S)
        reaper.start()
        yield cluster.endpoints
    finally:
        ended.set()
        if reaper.is_alive():
            reaper.join()
        cluster.stop()


def script(page: Path) -> str:
    """Return the page's commands, each shown before it runs."""
    parts = [block.text for block in blocks(page) if block.language == "sh" and "run" in block.marks]
    assert len(parts) >= 3
    return "set -e\n" + "\n".join(f"echo '# {page.name}, part {n}' >&2\n{part}" for n, part in enumerate(parts))


@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_work_in_their_order(name: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / name
    for block in blocks(page):
        if block.language == "yaml" and block.marks:
            (tmp_path / block.marks[0]).write_text(block.text)
    with local_up(tmp_path / "rehearsal", PAGES[name]) as endpoints:
        run = subprocess.Popen(
            ["bash", "-c", script(page)],
            cwd=tmp_path,
            env=environment(endpoints),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = run.communicate(timeout=400)
            assert run.returncode == 0, said[-4000:]
        finally:
            # also the masters that the page has started
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(run.pid, number)
                except ProcessLookupError:
                    break
