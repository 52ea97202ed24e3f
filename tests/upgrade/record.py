"""Records the data directory of a master for `data/`: a log and a snapshot, as a release writes them.

    python -m tests.upgrade.record previous tests/upgrade/data/48dd9c3.tar.xz     by the code in the archive
    python -m tests.upgrade.record this tests/upgrade/data/level-5.tar.xz         by this checkout

An archive that a release has left stays; a new one is added before a release that writes anything else.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.replication.applier import Applier
from gosched.wire.batch import encode_batch, encode_command
from tests.state_machine import chaos, test_relations
from tests.upgrade import previous

COMMANDS = 400

# Proposes the commands of a log to a replica of one member, which compacts its log on the way.
WRITE = """
import asyncio, json, sys
from pathlib import Path
from gosched.replication.interface import Part
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import ReplicaConfig
from gosched.wire.batch import decode_batch
log, folder = map(Path, sys.argv[1:])

async def write():
    member = ProcessReplication(ReplicaConfig(member="m1", data_dir=str(folder), compact_entries=150))
    await member.start()
    while member.role.part is not Part.LEADER:
        await asyncio.sleep(0.01)
    data, at = log.read_bytes(), 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        for command in decode_batch(data[at + 4 : at + 4 + length]).commands:
            await member.propose([command])
        at += 4 + length
    seen = {"revision": member.state.revision, "digest": member.state.digest(), "jobs": len(member.state.jobs)}
    await member.close()
    (folder / "seen.json").write_text(json.dumps(seen) + "\\n")

asyncio.run(write())
"""


def record(whose: str, archive: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        log, folder = Path(scratch, "log"), Path(scratch, "m1")
        folder.mkdir()
        log.write_bytes(_log(FeatureLevel.FIRST if whose == "previous" else NEWEST_LEVEL))
        words = [str(log), str(folder)]
        if whose == "previous":
            previous.run(previous.unpack(Path(scratch, "source")), WRITE, words, timeout_s=300)
        else:
            subprocess.run([sys.executable, "-c", WRITE, *words], check=True, timeout=300)
        (folder / "raft" / "lock").unlink(missing_ok=True)
        with tarfile.open(archive, "w:xz") as made:
            made.add(folder, arcname="m1")


def _log(level: int) -> bytes:
    applier, log, r = Applier(), bytearray(), Random(20261122)
    first = [] if level == FeatureLevel.FIRST else [Command(body=SetFeatureLevel(level=level, cluster_id="c"), at_ms=1)]

    def related() -> Iterator[Command]:
        for n in range(60):
            body = r.choice(test_relations.KINDS)(r, applier.state, n)
            yield Command(body=body, at_ms=applier.state.clock_ms + 1)

    for command in chain(first, chaos.opening(), chaos.commands(r, applier.state, COMMANDS), related()):
        entry = encode_batch("p", 1, [encode_command(command)], level=applier.state.feature_level)
        log += len(entry).to_bytes(4, "big") + entry
        applier.apply(entry)
    return bytes(log)


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
