"""A window as people describe it: nodes, or enough of them for some resources, from one moment to another."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown
from gosched.config.tree import Document, Path
from gosched.config.validation import Model, Name, Text, problem_at, validate
from gosched.config.vector import Vector
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_NAME_LENGTH, MAX_NODES, MAX_TENANTS_PER_QUEUE
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap
from gosched.core.rules.values import check_vector

Names = Annotated[tuple[Name, ...], Field(max_length=MAX_TENANTS_PER_QUEUE)]


def _node(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME_LENGTH:
        raise ValueError(f"expected the id of a node, got {shown(value)}")
    return value.strip()


class WindowConfig(Model):
    """`end_ms` 0: open."""

    name: Name
    start_ms: int = Field(ge=1)
    end_ms: int = Field(default=0, ge=0)
    nodes: Annotated[tuple[Annotated[str, BeforeValidator(_node)], ...], Field(max_length=MAX_NODES)] = ()
    resources: Vector = ()
    queues: Names = ()
    tenants: Names = ()
    reason: Annotated[Text, Field(max_length=MAX_DETAIL_LENGTH)] = ""

    @model_validator(mode="after")
    def _is_sound(self) -> WindowConfig:
        if bool(self.nodes) == bool(self.resources):
            raise ValueError("give either nodes or resources")
        found = check_vector("resources", self.resources, "resources")
        if found:
            raise problem_at(found.path, found.words)
        if self.end_ms and self.end_ms <= self.start_ms:
            raise problem_at(("end_ms",), "is not after the start")
        return self

    def record(self) -> Window:
        return Window(
            name=self.name,
            start_ms=self.start_ms,
            end_ms=self.end_ms,
            nodes=tuple(sorted(set(self.nodes))),
            queues=tuple(sorted(set(self.queues))),
            tenants=tuple(sorted(set(self.tenants))),
            reason=self.reason,
        )


def window_from_flags(value: dict[str, object], origins: dict[Path, str]) -> tuple[Window, AmountMap]:
    """Return the window, and the resources for which nodes are to be chosen. `origins`: the flag of each key. Raises
    ConfigError."""
    found = validate(WindowConfig, Document(value=value, source="command line", origins=origins))
    return found.record(), found.resources
