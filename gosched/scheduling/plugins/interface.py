"""What a plugin of the planner is written against: version 1. `docs/plugins.md` is its guide.

Rule: a plugin gets copies that cannot be written to, of what it said it would read; within a version nothing here is
taken away or changes its meaning.
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
    """A call did not give an answer that can be used; the text says why, in one line."""


class Plugin:
    """The base of all plugins. What is not overridden is not called.

    Its constructor takes the options of the config, a mapping of text to text, and raises ValueError for one that it
    does not know. Within a cycle an answer serves all requests that show the same, so a plugin names what it reads:
    `job_labels`, keys of the job's labels; `tracked_labels`, those for which it asks where alike jobs stand; `reads`,
    other fields of Request. The fewer these are, the seldomer it is called.
    """

    name: str = ""
    api_version: int = 0  # each plugin says for itself which version it was made for
    job_labels: tuple[str, ...] = ()
    tracked_labels: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def __init__(self, options: Mapping[str, str]) -> None:
        with_defaults(options, {})

    def filter(self, request: Request, nodes: Nodes) -> Sequence[tuple[str, BoolArray]]:
        """Masks by node, False: not there. Each has a name that completes "3 nodes are ..."."""
        raise NotImplementedError

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        """0 to MAX_SCORE by node, more is better; None: no opinion. Up to 16 different ones cost least."""
        raise NotImplementedError

    def order(self, waiting: Waiting) -> Sequence[int] | None:
        """A key for each gang, the lowest goes first, equal ones stay as they are; None: no opinion."""
        raise NotImplementedError


class Request:
    """Equal tasks of one group that look for nodes. A field that the plugin does not name in `reads` is not there.

    `labels`: those of `job_labels` that the job has. `alike[label]`: by node, how many tasks hold a place there of jobs
    whose value of that tracked label is this job's, what was placed in this cycle included; only for labels that the
    job has. `resources`: of each task. `standing`: ids of the nodes where tasks of the job hold a place, one for each.
    `allowed`: by node, whether the rules of the job file allow it.
    """

    labels: Mapping[str, str]
    alike: Mapping[str, IntArray]
    job_id: str
    job_name: str
    queue: str
    tenant: str
    group: str
    count: int
    resources: Resources
    gpu_model: str
    standing: tuple[str, ...]
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
    """All nodes as columns, as they were when the cycle began. Rows are the same in all of them."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._labels: dict[str, tuple[IntArray, tuple[str, ...]]] = {}
        self._amounts: dict[str, tuple[IntArray, IntArray]] = {}
        self.ids: tuple[str, ...] = tuple(columns.ids)
        self.names: tuple[str, ...] = tuple(columns.names)  # host names, as the agents tell them
        self.ready: BoolArray = frozen(columns.ready)

    def __len__(self) -> int:
        return len(self.ids)

    def capacity(self, resource: str) -> IntArray:
        """Of `cpu` (thousandths), `memory`, `storage` (bytes), `gpu` (thousandths) or a resource of the cluster's own;
        zeros for one that no node has."""
        return self._of(resource)[0]

    def free(self, resource: str) -> IntArray:
        """Below zero where a node came back smaller than what runs on it."""
        return self._of(resource)[1]

    def label(self, key: str) -> tuple[IntArray, tuple[str, ...]]:
        """A code for each node, and the values: `values[code]` is the node's, a code of -1 says that it has none."""
        found = self._labels.get(key)
        if found is None:
            values, codes = np.unique(self._columns.label(key), return_inverse=True)
            missing = int(len(values) > 0 and values[0] == NO_VALUE)
            texts = tuple([self._texts[value] for value in values[missing:].tolist()])
            found = self._labels[key] = frozen(codes.reshape(-1) - missing), texts
        return found

    def having(self, key: str, values: Collection[str]) -> BoolArray:
        """Nodes whose label has one of the values."""
        codes, texts = self.label(key)
        return np.isin(codes, [code for code, text in enumerate(texts) if text in values])

    def rows(self, hosts: Sequence[str]) -> IntArray:
        """Of the nodes with these ids or names; what is unknown is left out."""
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
        """Capacity and what is free."""
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
    """The gangs of one queue (or of one tenant in it) that wait, first the one whose turn is next. Each column has an
    entry for each gang."""

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
        """How many start together."""
        return np.array([gang.tasks for gang in self._gangs], dtype=np.int64)

    @property
    def deadlines_ms(self) -> IntArray:
        """0: none."""
        return np.array([gang.deadline_ms for gang in self._gangs], dtype=np.int64)

    def label(self, key: str) -> list[str]:
        """Of the jobs; empty where one has no such label."""
        return [dict(gang.labels).get(key, "") for gang in self._gangs]


Call = Callable[[Plugin, Callable[[], Any]], Any]  # gives the answer of one call, or raises PluginFault
Runner = Callable[[], Call]  # begins a cycle


def with_defaults(options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Raises ValueError for an option that is not among the defaults."""
    for name in sorted(options):
        if name not in defaults:
            raise ValueError(f"it has no option {name!a}; there are {', '.join(sorted(defaults)) or 'none'}")
    return {**defaults, **options}


def unbounded() -> Call:
    """The runner that calls at once and waits for as long as it takes."""
    return lambda plugin, call: call()


def frozen(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """A copy that cannot be written to."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy
