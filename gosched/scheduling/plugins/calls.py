"""The plugins of one cycle: which are called, what they may see, and what becomes of their answers.

Invariant: no plugin can fail the cycle. One that raises, overruns or gives an answer of the wrong form is switched off
until the next cycle, and `faults` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.plugins.filters import Filter, filters
from gosched.scheduling.plugins.interface import MAX_SCORE, Nodes, Plugin, PluginFault, Request, Runner, Waiting, frozen
from gosched.scheduling.snapshot.labels import IntArray
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import View

MAX_FAULT_LENGTH = 200
MAX_FILTER_NAME = 64

_KINDS = {"boolean": "b", "integer": "iu"}  # as numpy names them

_Answer = tuple[tuple[Filter, ...], IntArray | None]


class Plugins:
    """The plugins of one cycle, with distinct names."""

    def __init__(self, view: View, plugins: Sequence[Plugin], runner: Runner) -> None:
        #: A line for each plugin that was switched off: its name, and why.
        self.faults: list[str] = []
        self._active = list(plugins)
        if not plugins:
            return
        self._call = runner()
        self._columns = view.nodes
        self._nodes = Nodes(view.nodes)
        self._tracked = {label for plugin in plugins for label in plugin.tracked_labels}
        self._label_counts = view.label_counts
        self._placed: dict[
            tuple[str, str], Counter[str]
        ] = {}  # placed in this cycle: tasks by node, of each tracked label
        self._answers: dict[object, _Answer] = {}

    def key(self, gang: PendingGang, request: TaskRequest) -> object:
        """Return a key; requests with equal keys get equal answers."""
        if not self._active:
            return request.constraints
        return (request.constraints, *[self._shown(plugin, gang, request) for plugin in self._active])

    def shape(self, gang: PendingGang) -> object:
        """Return the gang's shape with all that plugins may decide by."""
        if not self._active:
            return gang.shape
        return (
            gang.shape,
            *[self._shown(plugin, gang, request) for plugin in self._active for request in gang.requests],
        )

    def columns(self, gang: PendingGang, request: TaskRequest) -> tuple[Sequence[Filter], IntArray | None]:
        """Return the plugins' filters, and the sum of their scores; None if no plugin scores."""
        more: list[Filter] = []
        total: IntArray | None = None
        for plugin in tuple(self._active):
            masks, score = self._answer(plugin, gang, request)
            more += masks
            if score is not None:
                total = score if total is None else total + score
        return more, total

    def ordered(self, queue: str, gangs: list[PendingGang]) -> list[PendingGang]:
        """Return the gangs in the order that the plugins want; the first plugin's keys count most."""
        for plugin in [p for p in reversed(self._active) if _has(p, "order")]:
            call = partial(plugin.order, Waiting(queue, gangs))
            keys = self._asked(plugin, "order", call, _Checks(len(gangs)).keys)
            if keys is not None:
                gangs = [gangs[i] for i in np.argsort(keys, kind="stable").tolist()]
        return gangs

    def placed(self, gang: PendingGang, placement: GangPlacement) -> None:
        """Count the tasks of the placement among those of jobs with the same labels."""
        if not self._active or not self._tracked:
            return
        for pair in gang.labels:
            if pair[0] in self._tracked:
                self._placed.setdefault(pair, Counter()).update([task.node_id for task in placement.tasks])

    def _shown(self, plugin: Plugin, gang: PendingGang, request: TaskRequest) -> object:
        """Return a key for all that the plugin's request would show."""
        labels = [pair for pair in gang.labels if pair[0] in plugin.job_labels or pair[0] in plugin.tracked_labels]
        new = [self._placed[pair].total() for pair in labels if pair in self._placed]
        return (plugin.name, tuple(labels), tuple(new), *[_SHOWN[field](gang, request) for field in plugin.reads])

    def _answer(self, plugin: Plugin, gang: PendingGang, request: TaskRequest) -> _Answer:
        key = self._shown(plugin, gang, request)
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self._ask(plugin, gang, request)
        return found

    def _ask(self, plugin: Plugin, gang: PendingGang, task: TaskRequest) -> _Answer:
        request, nodes, checks = self._request(plugin, gang, task), self._nodes, _Checks(len(self._nodes))
        masks, score = None, None
        if _has(plugin, "filter"):
            masks = self._asked(plugin, "filter", partial(plugin.filter, request, nodes), checks.masks)
        if _has(plugin, "score") and plugin in self._active:
            score = self._asked(plugin, "score", partial(plugin.score, request, nodes), checks.score)
        return (masks or (), score) if plugin in self._active else ((), None)

    def _request(self, plugin: Plugin, gang: PendingGang, request: TaskRequest) -> Request:
        shown = {field: _SHOWN[field](gang, request) for field in plugin.reads}
        if "allowed" in shown:
            shown["allowed"] = frozen(
                np.logical_and.reduce([mask for _, mask in filters(self._columns, request.constraints)])
            )
        labels = {key: value for key, value in gang.labels if key in plugin.job_labels}
        alike = {key: self._tasks_by_node((key, value)) for key, value in gang.labels if key in plugin.tracked_labels}
        return Request(labels, alike, shown)

    def _tasks_by_node(self, pair: tuple[str, str]) -> IntArray:
        counts = np.zeros(len(self._nodes), dtype=np.int64)
        for tasks in (self._label_counts.get(pair, {}), self._placed.get(pair, {})):
            for node_id, number in tasks.items():
                counts[self._columns.row(node_id)] += number
        return frozen(counts)

    def _asked(self, plugin: Plugin, method: str, call: Callable[[], Any], checked: Callable[[Any], Any]) -> Any:
        """Return the checked answer; None, and switch the plugin off, if there is none that can be used."""
        try:
            return self._call(plugin, lambda: checked(call()))
        except PluginFault as fault:
            why = str(fault)
        except Exception as error:  # of whatever kind: a plugin is foreign code
            why = f"{method} raised {type(error).__name__}: {error}"
        self._active.remove(plugin)
        self.faults.append(f"{plugin.name}: {' '.join(why.split())[:MAX_FAULT_LENGTH]}")
        return None


class _Checks:
    """Checks of answers. Each returns a copy, or raises PluginFault. `rows` is how many entries there must be."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def masks(self, answer: Any) -> tuple[Filter, ...]:
        return tuple([(_filter_name(name), self._column("filter", mask, "boolean")) for name, mask in answer])

    def score(self, answer: Any) -> IntArray | None:
        if answer is None:
            return None
        score: IntArray = self._column("score", answer, "integer").astype(np.int64)
        if score.size and not 0 <= int(score.min()) <= int(score.max()) <= MAX_SCORE:
            raise PluginFault(f"score gave {score.min()} to {score.max()}, expected 0 to {MAX_SCORE}")
        return score

    def keys(self, answer: Any) -> IntArray | None:
        if answer is None:
            return None
        keys: IntArray = self._column("order", np.asarray(answer), "integer").astype(np.int64)
        return keys

    def _column(self, method: str, found: Any, kind: str) -> Any:
        is_array = isinstance(found, np.ndarray)
        if not is_array or found.dtype.kind not in _KINDS[kind] or found.shape != (self._rows,):
            raise PluginFault(f"{method} gave {_form(found)}, expected an array of {self._rows} {kind}s")
        return np.array(found)


def _filter_name(name: Any) -> str:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_FILTER_NAME:
        raise PluginFault(f"filter named a mask {name!a}, expected a printable text of up to {MAX_FILTER_NAME} letters")
    return name


def _form(found: Any) -> str:
    return f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__


def _has(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)


# The value of each field of a request; for `allowed` a key that is computed faster.
_SHOWN: Mapping[str, Callable[[PendingGang, TaskRequest], Any]] = {
    "job_id": lambda gang, request: gang.job_id,
    "job_name": lambda gang, request: gang.name,
    "queue": lambda gang, request: gang.queue,
    "tenant": lambda gang, request: gang.tenant,
    "group": lambda gang, request: request.group,
    "count": lambda gang, request: request.count,
    "resources": lambda gang, request: request.resources,
    "gpu_model": lambda gang, request: request.constraints.gpu_model,
    "standing": lambda gang, request: tuple([node_id for _, node_id in gang.placed]),
    "allowed": lambda gang, request: request.constraints,
}
