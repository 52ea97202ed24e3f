"""The interface that plugins of the planner are written against: version 1. `docs/guides/plugins.md` is its guide.

Invariant: a plugin gets copies that cannot be written to, and only of what it said it would read. Within a version
nothing here is removed or changes its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gosched.core.resources import Resources
from gosched.scheduling.snapshot.labels import NO_VALUE, BoolArray, IntArray
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import NodeColumns

_Scalar = TypeVar("_Scalar", bound=np.generic)

API_VERSION = 1
MAX_SCORE = 100

# What `Plugin.reads` may name.
REQUEST_FIELDS = (
    "job_id",
    "job_name",
    "queue",
    "tenant",
    "group",
    "count",
    "resources",
    "gpu_model",
    "standing",
    "allowed",
)


class PluginFault(Exception):
    """Raised when a call gives no answer that can be used. The text says why, in one line."""


class Plugin:
    """The base class of all plugins. A method that is not overridden is not called.

    The constructor takes the options of the config, a mapping of text to text, and raises ValueError for an option that
    it does not know. Within a cycle an answer serves all requests that show the same, so a plugin names what it reads.
    The less it reads, the less often it is called.
    """

    name: str = ""
    #: The version of the interface that the plugin was made for. Each plugin sets it itself.
    api_version: int = 0
    #: Keys of the job's labels that the plugin reads.
    job_labels: tuple[str, ...] = ()
    #: Keys of labels for which the plugin asks where tasks of jobs with the same value are.
    tracked_labels: tuple[str, ...] = ()
    #: Other fields of Request that the plugin reads.
    reads: tuple[str, ...] = ()

    def __init__(self, options: Mapping[str, str]) -> None:
        with_defaults(options, {})

    def filter(self, request: Request, nodes: Nodes) -> Sequence[tuple[str, BoolArray]]:
        """Return masks by node: a task of the request does not run where one is False. Each has a name that completes
        "3 nodes are ..."."""
        raise NotImplementedError

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        """Return a score by node, 0 to MAX_SCORE, higher is better; None for no opinion. Up to 16 distinct scores cost
        least."""
        raise NotImplementedError

    def order(self, waiting: Waiting) -> Sequence[int] | None:
        """Return a key for each gang: the lowest goes first, equal ones keep their order. None for no opinion."""
        raise NotImplementedError


class Request:
    """Equal tasks of one group that ask to be placed. A field that the plugin does not name in `reads` is missing."""

    #: Those of `job_labels` that the job has.
    labels: Mapping[str, str]
    #: For each tracked label that the job has: by node, how many tasks of jobs with the same value hold a place there,
    #: those placed in this cycle included.
    alike: Mapping[str, IntArray]
    job_id: str
    job_name: str
    queue: str
    tenant: str
    group: str
    #: Number of tasks.
    count: int
    #: Of each task.
    resources: Resources
    #: Empty: any model.
    gpu_model: str
    #: Ids of the nodes where tasks of the job hold a place, one for each task.
    standing: tuple[str, ...]
    #: By node, whether the rules of the job file allow it.
    allowed: BoolArray

    def __init__(self, labels: Mapping[str, str], alike: Mapping[str, IntArray], shown: Mapping[str, Any]) -> None:
        self.__dict__.update(shown, labels=MappingProxyType(labels), alike=MappingProxyType(alike))

    def __getattr__(self, name: str) -> Any:
        if name in REQUEST_FIELDS:
            raise AttributeError(f'{name} is not shown: name it in "reads"')
        raise AttributeError(f"a request has no {name}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a request cannot be changed")


class Nodes:
    """All nodes as columns, as they were when the cycle began. A row is the same node in all columns."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._labels: dict[str, tuple[IntArray, tuple[str, ...]]] = {}
        self._amounts: dict[str, tuple[IntArray, IntArray]] = {}
        self.ids: tuple[str, ...] = tuple(columns.ids)
        #: Host names, as the agents report them.
        self.names: tuple[str, ...] = tuple(columns.names)
        self.ready: BoolArray = frozen(columns.ready)

    def __len__(self) -> int:
        return len(self.ids)

    def capacity(self, resource: str) -> IntArray:
        """Return what the nodes offer of a resource; zeros for one that no node has.

        It is `cpu` (thousandths), `memory`, `storage` (bytes), `gpu` (thousandths) or one of the cluster's own.
        """
        return self._of(resource)[0]

    def free(self, resource: str) -> IntArray:
        """Return what is free of a resource; below zero where a node came back smaller than what runs on it."""
        return self._of(resource)[1]

    def label(self, key: str) -> tuple[IntArray, tuple[str, ...]]:
        """Return a code for each node, and the values: `values[code]` is the node's value, -1 means none."""
        found = self._labels.get(key)
        if found is None:
            values, codes = np.unique(self._columns.label(key), return_inverse=True)
            missing = int(len(values) > 0 and values[0] == NO_VALUE)
            texts = tuple([self._texts[value] for value in values[missing:].tolist()])
            found = self._labels[key] = frozen(codes.reshape(-1) - missing), texts
        return found

    def having(self, key: str, values: Collection[str]) -> BoolArray:
        """Return a mask of the nodes whose label has one of the values."""
        codes, texts = self.label(key)
        return np.isin(codes, [code for code, text in enumerate(texts) if text in values])

    def rows(self, hosts: Sequence[str]) -> IntArray:
        """Return the rows of the nodes with these ids or host names; unknown ones are left out."""
        return np.array([row for host in hosts for row in self._by_host.get(host, ())], dtype=np.int64)

    @cached_property
    def _by_host(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for row, name in enumerate(self.names):
            found[name] = (*found.get(name, ()), row)  # agents may share a host
        return found | {node_id: (row,) for row, node_id in enumerate(self.ids)}

    @cached_property
    def _texts(self) -> list[str]:
        return list(self._columns.labels.codes)  # codes count from 0 in the order of this dict

    def _of(self, resource: str) -> tuple[IntArray, IntArray]:
        """Return the capacity and what is free of a resource."""
        found = self._amounts.get(resource)
        if found is None:
            columns = self._columns
            column = columns.column_of(resource)
            if column is None:
                nothing = frozen(np.zeros(len(self), dtype=np.int64))
                return nothing, nothing
            found = self._amounts[resource] = frozen(columns.capacity[:, column]), frozen(columns.free[:, column])
        return found


class Waiting:
    """The gangs of one queue (or of one tenant in it) that wait, the next one first. Each column has an entry for each
    gang."""

    def __init__(self, queue: str, gangs: Sequence[PendingGang]) -> None:
        self._gangs = tuple(gangs)
        self.queue = queue

    def __len__(self) -> int:
        return len(self._gangs)

    @property
    def job_ids(self) -> list[str]:
        return [gang.job_id for gang in self._gangs]

    @property
    def job_names(self) -> list[str]:
        return [gang.name for gang in self._gangs]

    @property
    def tenants(self) -> list[str]:
        return [gang.tenant for gang in self._gangs]

    @property
    def priorities(self) -> IntArray:
        return np.array([gang.priority for gang in self._gangs], dtype=np.int64)

    @property
    def tasks(self) -> IntArray:
        """Return the number of tasks that start together."""
        return np.array([gang.tasks for gang in self._gangs], dtype=np.int64)

    @property
    def deadlines_ms(self) -> IntArray:
        """Return the deadlines; 0 for none."""
        return np.array([gang.deadline_ms for gang in self._gangs], dtype=np.int64)

    def label(self, key: str) -> list[str]:
        """Return the value of the label for each job; empty if it has no such label."""
        return [dict(gang.labels).get(key, "") for gang in self._gangs]


Call = Callable[[Plugin, Callable[[], Any]], Any]  # gives the answer of one call, or raises PluginFault
Runner = Callable[[], Call]  # begins a cycle


def with_defaults(options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the options, with defaults for those that are missing; raise ValueError for an unknown option."""
    for name in sorted(options):
        if name not in defaults:
            raise ValueError(f"it has no option {name!a}; there are {', '.join(sorted(defaults)) or 'none'}")
    return {**defaults, **options}


def unbounded() -> Call:
    """Return a call that runs at once and takes as long as it takes."""
    return lambda plugin, call: call()


def frozen(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return a copy that cannot be written to."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy
