"""The members as PySyncObj knows them: one object for each id, so that dictionaries find it without a comparison."""

from __future__ import annotations

import zlib
from weakref import WeakValueDictionary

from pysyncobj.node import Node

_made: WeakValueDictionary[str, MemberNode] = WeakValueDictionary()


class MemberNode(Node):
    """Made by `member_node` alone; two of one id are one object.

    It hashes alike in every process: the library walks over sets of these.
    """

    def __init__(self, member: str) -> None:
        super().__init__(member)
        self._hash = zlib.crc32(member.encode())

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return self._hash


def member_node(member: str) -> MemberNode:
    """Return the node of the member with this id."""
    node = _made.get(member)
    if node is None:
        node = _made[member] = MemberNode(member)
    return node
