"""schemathesis over a running master: the OpenAPI document is true, and no request is answered with 500."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.master.harness import agent, one_master, spec

CONFIG = Path(__file__).with_name("schemathesis.toml")
LIMIT_S = 240.0
#: Streams, which go on until their reader leaves, and lines of JSON, which schemathesis does not write.
OTHERS = ("/api/v1/events", "/api/v1/jobs/{job}/logs", "/api/v1/jobs:batch")


@pytest.mark.timeout(300)
def test_the_document_is_true_and_nothing_is_answered_with_500(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            await master.submit(spec("a"))
            document = f"http://{master.server.record.http_address}/openapi.json"
            program = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIG)]
            options = ["--max-examples", "1", "--phases", "examples,coverage,fuzzing", "--generation-deterministic"]
            run = await asyncio.create_subprocess_exec(
                *program,
                "run",
                document,
                *options,
                *[word for path in OTHERS for word in ("--exclude-path", path)],
                "--no-color",
                "--suppress-health-check",
                "all",
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                async with asyncio.timeout(LIMIT_S):
                    said, _ = await run.communicate()
            finally:
                if run.returncode is None:
                    run.kill()
                    await run.wait()
            assert run.returncode == 0, said.decode()[-20_000:]

    asyncio.run(story())
