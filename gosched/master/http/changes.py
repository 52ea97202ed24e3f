"""What REST answers to a change, as records and JSON."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.api.json.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a change."""

    #: It was so already, or this was a try that would change nothing.
    unchanged: bool
    #: Of the state that has it.
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange(Change):
    """A node that was closed, opened, labelled or removed."""

    node_id: str
    #: Of a drain: jobs that cannot start again elsewhere, and may end by themselves.
    staying: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterChange:
    """A master that did what it was asked to."""

    master: str


change_json = Document(Change)
node_change_json = Document(NodeChange, "node=node_id", "unchanged", "revision", "staying")
