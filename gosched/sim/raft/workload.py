"""Clients that submit, cancel and register, and ask again with the same request id until they have an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gosched.core.commands.cluster import Noop, SetFeatureLevel, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.commands.nodes import RegisterNode
from gosched.core.features import NEWEST_LEVEL
from gosched.core.outcome import Accepted, Outcome, Rejected
from gosched.core.records.queue import Queue
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.sim.raft.clock import Clock
from gosched.sim.raft.history import History, Violation
from gosched.sim.raft.member import Member
from gosched.wire.batch import encode_batch, encode_command

_CLIENTS = 4
_PATIENCE_S = 1.5
_NODES = 5


@dataclass(slots=True)
class Request:
    command: Command
    tries: int = 0
    answered: bool = False


@dataclass
class Workload:
    """The clients. `acked` are the requests whose clients have an answer: they may never be lost."""

    clock: Clock
    history: History
    rng: Random
    leaders: Callable[[], list[Member]]
    acked: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    asked: int = 0
    names_the_cluster: bool = False  # by its level, at which the log names the members
    _waiting: dict[tuple[str, int], Request] = field(default_factory=dict)
    _proposals: int = 0

    def ask(self) -> Request:
        self.asked += 1
        body: Body = SetQueues(queues=(Queue(path="default"),)) if self.asked == 1 else self._body()
        if self.names_the_cluster and self.asked == 2:
            body = SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c-1")
        client, request = f"client-{self.asked % _CLIENTS}", f"r{self.asked}"
        made = Request(Command(body=body, client_id=client, request_id=request, at_ms=int(self.clock.now * 1000)))
        self._try(made)
        return made

    def answered(self, proposal: tuple[str, int], outcomes: list[Outcome]) -> None:
        request = self._waiting.pop(proposal, None)
        if request is None:
            return
        request.answered = True
        command = request.command
        self.history.answers_request(command.client_id, command.request_id, outcomes[0])
        self.acked[command.client_id, command.request_id] = outcomes[0]

    def check(self, state: ClusterState) -> None:
        """Check that in the end the state remembers each answer that a client was given."""
        for (client, request), outcome in self.acked.items():
            answer = state.answer_to(client, request)
            if answer is None:
                raise Violation(f"request {request} of {client} was acknowledged and is lost")
            detail = outcome.detail if isinstance(outcome, Rejected) else ""
            subject = outcome.subject if isinstance(outcome, Accepted) else ""
            if (answer.detail, answer.subject) != (detail, subject):
                raise Violation(f"request {request} of {client} got {outcome}, the state remembers {answer}")

    def _try(self, request: Request) -> None:
        if request.answered:
            return
        request.tries += 1
        leaders = self.leaders()
        if leaders:
            member = self.rng.choice(leaders)
            self._proposals += 1
            key = member.proposer, self._proposals
            self._waiting[key] = request
            data = encode_batch(key[0], key[1], [encode_command(request.command)])
            member.propose(data, lambda definite, _why: self.history.fails(key) if definite else None)
        patience = _PATIENCE_S if leaders else self.rng.uniform(0.2, 1.0)
        self.clock.after(patience, lambda: self._try(request))

    def _body(self) -> Body:
        kind = self.rng.random()
        n = self.asked
        if kind < 0.55:
            return SubmitJob(job_id=f"j{n}", spec=_spec(f"name-{self.rng.randint(0, n)}"))
        if kind < 0.75:
            return CancelJob(job_id=f"j{self.rng.randint(0, n)}")
        if kind < 0.95:
            return _registration(self.rng.randint(1, _NODES), n)
        return Noop()


def _spec(name: str) -> JobSpec:
    group = TaskGroup(name="main", count=1, resources=Resources(cpu_millis=1000), command=("true",))
    return JobSpec(name=name, queue="default", gang=GangPolicy(min_tasks=1), groups=(group,))


def _registration(node: int, incarnation: int) -> RegisterNode:
    return RegisterNode(
        node_id=f"n{node}",
        name=f"n{node}",
        address="127.0.0.1:1",
        incarnation=f"i{incarnation}",
        capacity=Resources(cpu_millis=4000),
    )
