"""Every RPC and every route, with every role, on its own job, a colleague's and another tenant's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.access.record import PAGE, found
from tests.access.stage import USERS, staged
from tests.access.walk import OF_MACHINES, RPCS, SERVICES, Walked, counts, routes, walk_routes, walk_rpcs

#: What each role may do, in words of its own: on which objects. "" is what belongs to no tenant.
EXPECTED = {
    "nobody": {},
    "viewer": {"view": "", "view-job": "own mates", "read-logs": "own mates"},
    "submitter": {
        "view": "", "view-job": "own mates", "submit": "own", "read-logs": "own", "exec": "own", "change-job": "own",
        "use-secret": "own", "list-secrets": "",
    },
    "tenant-admin": {
        "view": "", "view-job": "own mates", "submit": "own", "read-logs": "own mates", "exec": "own mates",
        "change-job": "own mates", "set-queue": "own", "set-quota": "own",
        "set-secret": "own", "use-secret": "own", "list-secrets": "",
    },
    "operator": {"view": "", "view-job": "own mates foreign", "operate": ""},
    "admin": {
        "view": "", "view-job": "own mates foreign", "submit": "own foreign", "read-logs": "own mates foreign",
        "exec": "own mates foreign", "change-job": "own mates foreign", "set-queue": "own foreign",
        "set-quota": "own foreign", "set-secret": "own foreign", "drop-quota": "own foreign", "operate": "",
        "use-secret": "own foreign", "list-secrets": "", "administer": "", "grant": "",
    },
}  # fmt: skip


def wrong(walked: list[Walked]) -> list[Walked]:
    return [one for one in walked if one.allowed != is_expected(one)]


def is_expected(one: Walked) -> bool:
    objects = "" if one.permission == "-" else EXPECTED[one.role].get(one.permission)
    return objects is not None and one.on in (objects.split() or [""])


def test_every_rpc_has_its_line_and_no_line_is_of_another() -> None:
    known = [m.name for s, module in SERVICES.items() for m in module.DESCRIPTOR.services_by_name[s].methods]
    assert sorted(known) == sorted([*RPCS, *OF_MACHINES])


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_each_role_makes_the_calls_that_it_was_given_and_no_others(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            walked = await walk_rpcs(stage, master)
            assert wrong(walked) == [], "\n".join(map(str, wrong(walked)))
            assert counts(walked)["calls"] == len(RPCS) + len(OF_MACHINES)
            assert {one.role for one in walked} == set(USERS)

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_each_role_uses_the_routes_that_it_was_given_and_no_others(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            unexpected = wrong(await walk_routes(stage, master, routes()))
            assert unexpected == [], "\n".join(map(str, unexpected))

    asyncio.run(story())


def test_the_reference_says_what_the_walk_finds(tmp_path: Path) -> None:
    assert PAGE.read_text() == asyncio.run(found(tmp_path)), "run: python -m tests.access.record"
