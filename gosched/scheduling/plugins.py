"""Plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gosched.scheduling.asks import Ask, PendingGang
from gosched.scheduling.filters import Filter
from gosched.scheduling.labels import IntArray


class Plugin(Protocol):
    name: str


class Plugins:
    """Those of one cycle. `faults`: what was switched off, and why."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self.plugins = plugins
        self.faults: list[str] = []

    def key(self, gang: PendingGang, ask: Ask) -> object:
        return ask.rules

    def shape(self, gang: PendingGang) -> object:
        return gang.shape

    def columns(self, gang: PendingGang, ask: Ask) -> tuple[Sequence[Filter], IntArray | None]:
        return (), None
