"""What a cycle knows of the nodes that does not change while it places: which nodes may run a request, which are
preferred, and the tree of domains.

Invariant: everything is made when it is first asked for, and kept for the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.spec.placement_rules import Mode, Strategy
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.score_columns import ScoreColumns
from gosched.scheduling.placement.topology import ANYWHERE, NOWHERE, Topology
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.plugins.filters import FIXED_LEVELS, Choice, Filter, choice_of, filters
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.task_requests import Constraints, PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import NO_VALUE, BoolArray, IntArray, View

# Strategies by which every placement changes which node is best for the next.
SCORED_BY_WORKLOAD = (Strategy.FRAGMENTATION, Strategy.EXPECTED_WASTE)

Bounds = tuple[int, int]  # levels of the topology: the required one, and the preferred one (or the required one again)


class Feasibility:
    """The nodes of one cycle, as requests see them."""

    def __init__(self, view: View, policy: Policy, capacity: FreeCapacity, plugins: Plugins) -> None:
        self.nodes = view.nodes
        self.policy = policy
        #: Rows where jobs hold a place that other jobs keep away from, by TENANT/NAME.
        self.avoided_rows: dict[str, IntArray] = {n: view.nodes.rows(ids) for n, ids in view.avoided.items()}
        self.plugins = plugins
        self._capacity = capacity
        self._view = view
        self._levels: tuple[str, ...] = policy.topology
        self._topology: Topology | None = None
        self._choices: dict[object, Choice] = {}
        self._models: dict[tuple[str, ...], BoolArray] = {}
        self._score_columns: dict[Strategy, ScoreColumns] = {}

    def with_capacity(self, capacity: FreeCapacity) -> Feasibility:
        """Return the same for another capacity of these nodes; all that does not depend on the capacity is shared."""
        other = copy(self)
        other._capacity = capacity
        other._score_columns = {}
        return other

    def placed(self, gang: PendingGang, placement: GangPlacement) -> None:
        """Note where the gang is: jobs that keep away from it do so from now on."""
        if self.avoided_rows and (name := f"{gang.tenant}/{gang.name}") in self.avoided_rows:
            rows = self.nodes.rows([task.node_id for task in placement.tasks])
            self.avoided_rows[name] = np.concatenate([self.avoided_rows[name], rows])

    @property
    def topology(self) -> Topology:
        if self._topology is None:
            levels = self._levels
            self._topology = self.nodes.derive(("topology", levels), lambda: Topology(self.nodes, levels))
        return self._topology

    def choice(self, gang: PendingGang, request: TaskRequest) -> Choice:
        """Return the nodes that the request may use and prefers, with the plugins' filters and scores."""
        key: object = self.plugins.key(gang, request)
        found = self._choices.get(key)
        if found is None:
            found = self._choices[key] = self._choice(gang, request, key)
        return found

    def _choice(self, gang: PendingGang, request: TaskRequest, key: object) -> Choice:
        constraints = request.constraints
        if key is constraints:  # no plugin has a say
            return self.nodes.derive(constraints, lambda: choice_of(self.nodes, constraints))
        more, scores = self.plugins.columns(gang, request)
        return choice_of(self.nodes, constraints, more, scores)

    def filters(self, gang: PendingGang, request: TaskRequest) -> Sequence[Filter]:
        """Return all filters of the request, those of plugins last."""
        more, _ = self.plugins.columns(gang, request)
        return [*filters(self.nodes, request.constraints), *more]

    def without_models(self, models: tuple[str, ...]) -> BoolArray:
        """Return the nodes whose GPUs are of none of these models."""
        mask = self._models.get(models)
        if mask is None:
            mask = np.ones(len(self.nodes), dtype=np.bool_)
            for model in models:
                mask &= ~self.nodes.with_model(model)
            self._models[models] = mask
        return mask

    def keys(self, request: TaskRequest, choice: Choice, strategy: Strategy) -> IntArray:
        """Return a key for each row: lower is better, no two are equal. Preference counts before the strategy."""
        keys = (
            self.score_columns(strategy).keys(request)
            if strategy in SCORED_BY_WORKLOAD
            else self._capacity.keys(strategy)
        )
        if choice.preference is None:
            return keys
        span = int(keys.max()) - int(keys.min()) + 1
        preferred_first: IntArray = keys - choice.preference * span
        return preferred_first

    def is_scored(self, request: TaskRequest) -> bool:
        """Return whether every placement changes which node is best for the next task."""
        return (request.strategy or self.policy.strategy) in SCORED_BY_WORKLOAD

    def score_columns(self, strategy: Strategy) -> ScoreColumns:
        if strategy not in self._score_columns:
            self._score_columns[strategy] = ScoreColumns(strategy, self._view, self._capacity)
        return self._score_columns[strategy]

    # Domains

    def bounds(self, gang: PendingGang, constraints: Constraints) -> Bounds:
        """Return the levels that the topology rules name; levels within a node are left out."""
        known = [
            (self._level(rule.level), rule.mode) for rule in constraints.topology if rule.level not in FIXED_LEVELS[1:]
        ]
        required = max((level for level, mode in known if mode is Mode.REQUIRED), default=ANYWHERE)
        preferred = max((level for level, mode in known if mode is Mode.PREFERRED), default=required)
        if not known and self.policy.compact and gang.tasks > 1 and self.policy.topology:
            preferred = len(self.policy.topology) - 1
        return required, max(required, preferred)

    def codes(self, level: str) -> IntArray:
        """Return the domain of each node at a level, which may be any label; NOWHERE for none."""
        if level in self.topology.levels:
            return self.topology.codes[self._level(level)]
        column = self.nodes.label(level)
        return np.where(column == NO_VALUE, NOWHERE, column)

    def _level(self, level: str) -> int:
        """Return the index of a level. A label that the config's topology does not name is a level below all that it
        names."""
        index = self.topology.index(level)
        if index is None:
            self._levels = (*self._levels, level)
            self._topology = None
            index = self.topology.index(level)
            assert index is not None
        return index
