"""The examples of docs/guides/rest.md, run by curl against a master."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.master.harness import agent, one_master

PAGE = Path(__file__).parents[2] / "docs/guides/rest.md"
QUEUES = "queues: [{name: production, weight: 2}]\n"


def examples() -> list[str]:
    """Return the indented blocks of the page that call a master by curl."""
    blocks = re.findall(r"(?:^    .*\n)+", PAGE.read_text(), flags=re.M)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in blocks if re.match(r"    (curl|tag=)", block)]


@pytest.mark.parametrize("example", examples(), ids=lambda text: text.split("\n")[0][:40])
def test_the_pages_examples_work(example: str, tmp_path: Path) -> None:
    assert shutil.which("curl"), "needs curl: apt-get install curl"
    (tmp_path / "queues.yaml").write_text(QUEUES)

    async def story() -> None:
        async with one_master() as master, agent(master):
            script = example.replace("localhost:8080", master.server.record.http_address)
            script = f"set -e\nuuidgen() {{ echo key-1; }}\n{script.replace('curl ', 'curl --fail-with-body ')}"
            run = await asyncio.create_subprocess_exec(
                "bash", "-c", script, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            async with asyncio.timeout(30):
                said, _ = await run.communicate()
            assert run.returncode == 0, said.decode()

    assert len(examples()) == 2
    asyncio.run(story())
