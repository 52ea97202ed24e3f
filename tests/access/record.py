"""`python -m tests.access.record`: walk all calls with all roles, and write what was found to the reference."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.access.stage import staged
from tests.access.walk import page, routes, walk_routes, walk_rpcs

PAGE = Path(__file__).parents[2] / "docs/reference/roles.md"


async def found(folder: Path) -> str:
    """Return the page, as a cluster answers now."""
    async with staged(folder / "rpcs") as stage:
        rpcs = await walk_rpcs(stage, 0)
    async with staged(folder / "routes") as stage:
        return page(rpcs, await walk_routes(stage, 0, routes()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(asyncio.run(found(Path(scratch))))
