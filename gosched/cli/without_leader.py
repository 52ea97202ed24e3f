"""What is known of a cluster while no master leads: what each master that answers says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gosched.api.status import MasterHealth
from gosched.cli.output import Column, Json, counted, table
from gosched.client.errors import GoSchedError
from gosched.client.transport import known_masters

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

_AT_ONCE = 16
_COLUMNS: list[Column] = [
    ("MASTER", lambda m: m["id"]),
    ("GRPC", lambda m: m["grpc_address"]),
    ("ROLE", lambda m: m["role"]),
    ("TERM", lambda m: m["term"]),
    ("LOG-END", lambda m: m["last_index"]),
    ("COMMITTED", lambda m: m["commit_index"]),
    ("PROBLEM", lambda m: m["problem"]),
]


def masters_known(client: GoSchedClient) -> list[Json]:
    """Return a line for each endpoint, and for each master that one of them knows, by id: those that are missing, too.
    None of them answers: an empty list."""
    asked = _ask(client, known_masters(client))
    told = {address: id for found in asked.values() if found is not None for id, address in found.masters}
    asked |= _ask(client, [address for address in told if address not in asked])
    if not any(asked.values()):
        return []
    lines = {}
    for address, found in asked.items():
        line = _line(address, found, told.get(address, ""))
        if found is not None or line["id"] not in lines:  # one master may have several addresses
            lines[line["id"] or address] = line
    return sorted(lines.values(), key=lambda line: line["id"] or line["grpc_address"])


def known_text(masters: list[Json]) -> str:
    answering = [master for master in masters if not master["problem"]]
    missing = [master["id"] or master["grpc_address"] for master in masters if master["problem"]]
    ends = [master["last_index"] for master in answering]
    lines = ["Leader     none", f"Masters    {counted(len(answering), 'master')} of {len(masters)} answers"]
    lines[1] = lines[1] if len(answering) == 1 else lines[1].replace("answers", "answer")
    if missing:
        lines.append(f"Missing    {', '.join(missing)}")
    if len(set(ends)) > 1:
        longest = max(answering, key=lambda master: (master["term"], master["last_index"]))
        lines.append(f"Log        {longest['id']} has the longest, up to entry {longest['last_index']}")
    return "\n".join([*lines, "", table(masters, _COLUMNS)])


def _ask(client: GoSchedClient, addresses: Iterable[str]) -> dict[str, MasterHealth | None]:
    """Return what each master says of itself; None: nothing."""

    def ask(address: str) -> MasterHealth | None:
        try:
            return client.master_health(address)
        except GoSchedError:
            return None

    asked = list(addresses)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(asked, pool.map(ask, asked), strict=True))


def _line(address: str, found: MasterHealth | None, id: str) -> Json:
    if found is None:
        return {"id": id, "grpc_address": address, "problem": "does not answer"} | dict.fromkeys(
            ("role", "term", "last_index", "commit_index")
        )
    return {
        "id": found.id,
        "grpc_address": address,
        "problem": "",
        "role": found.role or None,  # a master of the release before does not say
        "term": found.term,
        "last_index": found.last_index,
        "commit_index": found.commit_index,
    }
