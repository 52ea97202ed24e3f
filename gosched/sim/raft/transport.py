"""The transport of a simulated member: the real rules, with frames on simulated links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gosched.replication.peer_messages import Message
from gosched.replication.raft.member_node import MemberNode
from gosched.replication.raft.raft_rules import RuledTransport


class SimTransport(RuledTransport):
    def __init__(self, *args: Any, transmit: Callable[[str, Message], bool], **kwargs: Any) -> None:
        """`transmit` is given the peer and the message; it returns whether the link took it."""
        super().__init__(*args, **kwargs)
        self._send = transmit

    def _transmit(self, node: MemberNode, message: Message) -> bool:
        return self._send(node.id, message)

    def destroy(self) -> None:
        pass
