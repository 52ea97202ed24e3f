"""A master whose certificate is revoked, with real processes' members, TLS and connections."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from gosched.core.commands.command import Command
from gosched.core.commands.revocation import RevokeCertificate
from gosched.core.records.revocation import Revocation
from gosched.wire.serials import serial_of_pem

from .certificates import Authority
from .conftest import Cluster, a_node, until


def test_a_revoked_master_is_cut_off_and_not_let_in_again_until_it_has_another_certificate(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path / "ca")
        c = Cluster(tmp_path)
        c.configs = {m: replace(config, tls=authority.files(m)) for m, config in c.configs.items()}
        try:
            await c.start()
            await c.commit(a_node("n0"))
            await c.converged()
            shown = Path(c.configs["m3"].tls.cert).read_bytes()  # type: ignore[union-attr]
            revoked = Revocation(certificate=serial_of_pem(shown), role="master", at_ms=1)
            await c.commit(Command(body=RevokeCertificate(revocation=revoked)))
            await until(lambda: not c.members["m3"].role.connected, what="m3 is cut off")
            await c.commit(a_node("n1"))
            await asyncio.sleep(1.0)  # time enough to dial again, several times
            assert "n1" not in c.members["m3"].state.nodes
            await c.kill("m3")
            c.configs["m3"] = replace(c.configs["m3"], tls=authority.files("m3"))  # another one of the same name
            await c.start("m3")
            await until(lambda: "n1" in c.members["m3"].state.nodes, what="m3 is let in again")
        finally:
            await c.close()

    asyncio.run(story())
