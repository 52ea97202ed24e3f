"""The masters of the cluster: which they are, how far behind each is, and their changes.

The log says which they are once it names them, the config before that.

Invariant: what is asked for twice is done once, so a client asks again until it is done, whichever master leads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import structlog

from gosched.api.status import MasterMember
from gosched.config import MasterSettings
from gosched.config.address import split_address
from gosched.core.records.master import Configuration, Member
from gosched.core.rules.values import check_name
from gosched.master.base.channels import Channels
from gosched.master.base.errors import ApiError, invalid, unavailable, unmet
from gosched.master.base.leadership import Leadership
from gosched.replication.interface import ChangeRefused, Replication
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc

WAIT_S = 2.0  # for a change to be committed; then the client is told how far it is
_LOOK_S = 0.05
_ADMIT_EVERY_S = 0.5
_CALL_S = 5.0

log = structlog.get_logger()


class MemberList:
    """The masters of the cluster."""

    def __init__(self, replication: Replication, settings: MasterSettings) -> None:
        self._replication = replication
        raft = settings.raft
        self._listed = {peer.id: peer.address for peer in raft.others} if raft.enabled else {}
        self._own_address = settings.raft_advertised() if raft.enabled else ""

    def others(self) -> dict[str, str]:
        """Return the address of the replica of each other master, by its id."""
        configuration = self._replication.state.configuration
        if configuration is None:
            return self._listed
        return {m.id: m.address for m in configuration.members if m.id != self._replication.member_id}

    def listed(self) -> tuple[Member, ...]:
        """Return the masters that the config lists."""
        own = {self._replication.member_id: self._own_address}
        return tuple(Member(id=m, address=a) for m, a in sorted({**self._listed, **own}.items()))

    def count(self) -> int:
        """Return how many members vote."""
        configuration = self._replication.state.configuration
        if configuration is None:
            return 1 + len(self._listed)
        return sum(member.voter for member in configuration.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberControl:
    """Changes of the members, as operators ask the leader for them."""

    replication: Replication
    leadership: Leadership
    masters: Channels
    members: MemberList

    async def add(self, member: str, address: str) -> MasterMember:
        """Add a master, at first without a vote; the answer says whether it votes yet. Raises ApiError."""
        if wrong := check_name("master id", member):
            raise invalid(str(wrong))
        try:
            host, port = split_address(address)
        except ValueError as error:
            raise invalid(f"{address[:100]!r} is no address of a master's replica: {error}") from None
        if not host or not port or host in ("0.0.0.0", "::"):
            raise invalid(f"{address[:100]!r} must name the host by which the other masters reach {member}, and a port")
        await self._change(member, address)
        await self._until(lambda now: any(m.id == member and m.voter for m in now.members))
        found = next((m for m in self.list() if m.id == member), None)
        if found is None:
            raise unavailable(f"{member} is not added yet: ask again")
        return found

    async def remove(self, member: str) -> bool:
        """Remove a master; return whether it was a member. Raises ApiError."""
        configuration = self.replication.state.configuration
        known = configuration is None or any(m.id == member for m in configuration.members)
        await self._change(member, "")
        if not await self._until(lambda now: all(m.id != member for m in now.members)):
            raise unavailable(f"{member} is not removed yet: ask again")
        return known

    def list(self) -> list[MasterMember]:
        """List the members. Only the leader knows how far the others are."""
        role, state, me = self.replication.role, self.replication.state, self.replication.member_id
        members = state.configuration.members if state.configuration is not None else self.members.listed()
        found = []
        for member in members:
            record = state.masters.get(member.id)
            part = "leader" if member.id == role.leader else "voter" if member.voter else "learner"
            behind = max(role.last_index - role.acknowledged[member.id], 0) if member.id in role.acknowledged else None
            found.append(
                MasterMember(
                    id=member.id,
                    address=member.address,
                    role=part,
                    healthy=member.id == me or member.id in role.connected,
                    behind=0 if member.id == me else behind,
                    grpc_address=record.grpc_address if record else "",
                )
            )
        return found

    async def admit(self) -> None:
        """Pass on the requests of masters that ask to be added; on each master, until it is cancelled."""
        said: dict[str, str] = {}
        while True:
            await asyncio.sleep(_ADMIT_EVERY_S)
            applicants = self.replication.role.applicants
            said = {member: why for member, why in said.items() if member in applicants}
            for member, address in sorted(applicants.items()):
                why = await self._pass_on(member, address)
                if why != said.get(member):
                    said[member] = why
                    log.info("a master asks to be added", peer=member, address=address, not_yet=why or None)

    async def _pass_on(self, member: str, address: str) -> str:
        try:
            leader = await self.leadership.find(WAIT_S)
            if leader is None:
                await self.add(member, address)
            else:
                stub = cluster_pb2_grpc.ClusterServiceStub(self.masters.to(leader.grpc_address))
                request = cluster_pb2.AddMasterRequest(id=member, address=address)
                await stub.AddMaster(request, timeout=_CALL_S)
        except ApiError as error:
            return error.detail
        except grpc.aio.AioRpcError as error:
            return str(error.details() or error.code().name)
        return ""

    async def _change(self, member: str, address: str) -> None:
        try:
            await self.replication.change_members(member, address)
        except ChangeRefused as refused:
            raise (unavailable if refused.again else unmet)(str(refused)) from None

    async def _until(self, done: Callable[[Configuration], bool]) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while (now := self.replication.state.configuration) is None or not done(now):
                    await asyncio.sleep(_LOOK_S)
                return True
        return False
