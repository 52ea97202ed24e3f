"""The rules of pods about other pods, as what their job asks of the masters.

Invariant: what the masters are asked for follows from where the pods are now, and may be outdated when they answer; so
each placement is looked at once more before it is bound (`neighbours.broken`), and a job that asked for too much or too
little is submitted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import blake2b
from itertools import chain

from gosched.core.limits import MAX_RULES, MAX_VALUES
from gosched.core.spec.placement_rules import Affinity, AntiAffinity, LabelOp, Mode, SpreadRule, TopologyRule
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.gang_rules import NOTHING, Member, within
from gosched.integrations.kube_objects.pod_rules import Refused, Rules, Spread, Term
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.translate import Wanted
from gosched.integrations.kubernetes.neighbours import Neighbours

MAX_APART = MAX_RULES - 8  # jobs that one keeps apart from; the rest of the rules are within its own

Asking = tuple[Pod, Wanted]


class Coming(IntEnum):
    """Whether a live job may find a pod a node."""

    NO = 0
    #: The masters could not start it, the pod's alone, when they looked last.
    WAITS = 1
    SOON = 2


class Waits(Exception):
    """One line: what must be there before it is known where the pod may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What is added to a task group."""

    #: Which nodes, by where other pods are now.
    affinity: tuple[Affinity, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
    topology: tuple[TopologyRule, ...] = ()
    spread: tuple[SpreadRule, ...] = ()

    @property
    def mark(self) -> str:
        """Return what changes with the nodes that other pods leave; empty: these leave all."""
        terms = "".join(sorted(map(repr, self.affinity)))  # in whatever order the others were found
        return blake2b(terms.encode(), digest_size=8).hexdigest() if terms else ""

    def add_to(self, group: TaskGroup) -> TaskGroup:
        return replace(
            group,
            affinity=(*group.affinity, *self.affinity),
            anti_affinity=self.anti_affinity,
            topology=self.topology,
            spread=self.spread,
        )


ANYWHERE = Places()


class Placing:
    """The places of the jobs that are made together. `jobs_of` returns the names of the live jobs that a pod is of, or
    may be of; empty: of none. `comes` returns whether one of these may place the pod, and `wanted_of` what the pod asks
    for; None: it is not known. `making` has the names of the jobs that are made now, by the uids of their pods.
    `waits`: whether a pod waits for those that are to be placed before it."""

    def __init__(
        self,
        neighbours: Neighbours,
        jobs_of: Callable[[Pod], Collection[str]],
        comes: Callable[[Pod], Coming],
        wanted_of: Callable[[Pod], Wanted | None],
        making: Mapping[str, str],
        *,
        waits: bool,
    ) -> None:
        self._neighbours = neighbours
        self._live_jobs_of = jobs_of
        self._comes = comes
        self._wanted_of = wanted_of
        self._making = making
        self._waits = waits
        self._made: set[str] = set()  # uids of pods
        self._coming: dict[Term, dict[str, None]] = {}  # uids of pods with a job that is to find them a node soon
        self._waiting: dict[Term, dict[object, list[str]]] = {}  # of those whose job waits, by what they ask for

    def made(self, pods: Iterable[Pod]) -> None:
        """Note that the job of these pods is to be submitted: those that are made after it may wait for it."""
        for pod in pods:
            self._made.add(pod.uid)
            for term, coming in self._coming.items():
                if term.selects(pod.namespace, pod.labels):
                    coming[pod.uid] = None

    def places(self, kind: Sequence[Asking], job: Sequence[Asking]) -> Places:
        """Return where the pods of a task group may be, which ask for the same. `job`: all pods of their job. Raises
        Refused, Waits."""
        rules = kind[0][1].rules
        members = [pod for pod, _ in job]
        own = within(_members(kind), _members(job)) if len(job) > 1 else NOTHING
        affinity: list[Affinity] = []
        away: dict[AntiAffinity, None] = dict.fromkeys(own.anti_affinity)
        for term in rules.apart:
            self._keep_off(term, self._neighbours.selected(term), members, away, affinity)
        terms = {term: None for pod, _ in kind for term in self._neighbours.towards(pod)}
        for term in terms:
            self._keep_off(term, self._neighbours.keepers(term), members, away, affinity)
        topology = own.topology
        if rules.together is not None:
            near = self._near(rules.together, job)
            affinity.append(near)
            if near.op is LabelOp.IN:  # each of these has such a pod: the gang may be in several, better in one
                topology = tuple([replace(rule, mode=Mode.PREFERRED) for rule in topology])
        for each in rules.spread:
            if each.counts_none or (len(job) > 1 and len(each.keys) > 1):  # no rule of a gang leaves such a node out
                affinity.append(Affinity(label=each.pods.key, op=LabelOp.EXISTS))
            if each.counts_none:
                continue
            if len(job) > 1:
                self._check_counted(each, kind, job)
            else:
                affinity.append(self._emptiest(each, job))
        if len(away) > MAX_APART:
            raise Refused(
                f"podAntiAffinity keeps it apart from {len(away)} other jobs, more than {MAX_APART}: make its pods one "
                "gang by a PodGroup, make the rule preferred, or leave the pod to another scheduler"
            )
        return Places(
            affinity=tuple(dict.fromkeys(affinity)),
            anti_affinity=tuple(sorted(away, key=lambda rule: (rule.job, rule.level))),
            topology=topology,
            spread=own.spread,
        )

    def _jobs_of(self, pod: Pod) -> Collection[str]:
        making = self._making.get(pod.uid)
        return [making] if making else self._live_jobs_of(pod)

    def _are_coming(self, term: Term, job: Sequence[Asking]) -> bool:
        """Return whether a term selects pods beside those of the job that come first: they have no node yet, and a job
        that may find one soon; or one that waits, if they ask for the same as the job's single pod."""
        if term not in self._coming:
            self._find_coming(term)
        own = {pod.uid for pod, _ in job}
        alike = self._waiting[term].get(_likeness(*job[0]), []) if len(job) == 1 else []
        return self._waits and any(uid not in own for uid in chain(self._coming[term], alike))

    def _find_coming(self, term: Term) -> None:
        soon, waiting = self._coming.setdefault(term, {}), self._waiting.setdefault(term, {})
        for pod in self._neighbours.selected(term):
            if self._neighbours.node_of(pod):
                continue
            comes = Coming.NO if pod.uid in self._making else self._comes(pod)
            if pod.uid in self._made or comes is Coming.SOON:
                soon[pod.uid] = None
            elif comes is Coming.WAITS and (wanted := self._wanted_of(pod)) is not None:
                waiting.setdefault(_likeness(pod, wanted), []).append(pod.uid)

    def _keep_off(
        self,
        term: Term,
        pods: Iterable[Pod],
        members: Collection[Pod],
        away: dict[AntiAffinity, None],
        affinity: list[Affinity],
    ) -> None:
        """Keep off these pods: by the names of their jobs, or off the nodes of those that are of none."""
        own = {pod.uid for pod in members}
        tenant = next(iter(members)).namespace
        taken: dict[str, None] = {}
        for pod in pods:
            if pod.uid in own:
                continue
            names = self._jobs_of(pod)
            if pod.namespace != tenant:  # a plain name is the job's own tenant's
                names = [f"{pod.namespace}/{name}" for name in names]
            away.update({AntiAffinity(job=name, level=term.key): None for name in names})
            value = "" if names else self._neighbours.domain(self._neighbours.node_of(pod), term.key)
            if value:
                taken[value] = None
        affinity += _none_of(term.key, taken, "podAntiAffinity")

    def _near(self, term: Term, job: Sequence[Asking]) -> Affinity:
        """Return the domains that have a pod that a term selects; all, if the job's own are the first."""
        members = [pod for pod, _ in job]
        own = {pod.uid for pod in members}
        others = [pod for pod in self._neighbours.selected(term) if pod.uid not in own]
        values = {self._neighbours.domain(self._neighbours.node_of(pod), term.key) for pod in others} - {""}
        if values:
            return _one_of(term.key, values, "podAffinity")
        if self._are_coming(term, job):
            raise Waits(f"required podAffinity over {term.key}: it waits for pods that it names, which come first")
        if not term.selects(members[0].namespace, members[0].labels):
            raise Waits(f"required podAffinity over {term.key}: no pod that it names has been placed yet")
        return Affinity(label=term.key, op=LabelOp.EXISTS)

    def _check_counted(self, rule: Spread, kind: Sequence[Asking], job: Sequence[Asking]) -> None:
        """Raise Refused or Waits unless a spread counts the pods of a gang's task group alone, in domains that take
        them."""
        name = f"topologySpreadConstraints over {rule.pods.key} with DoNotSchedule"
        own = {pod.uid for pod, _ in kind}
        if self._are_coming(rule.pods, job):
            raise Waits(f"{name}: it waits until the pods that are counted are placed, which come first")
        for pod in self._neighbours.selected(rule.pods):
            if pod.uid not in own and self._neighbours.node_of(pod) and not pod.deleting:
                raise Refused(f"{name} counts pod {pod.path}, too, which does not start with its gang: select it alone")
        if closed := self._neighbours.closed_domain(rule, kind[0][0]):
            raise Refused(
                f"{name} counts {closed}, where no node takes the pod now (taints, cordoned, not ready): write "
                "nodeTaintsPolicy: Honor, or open a node there"
            )

    def _emptiest(self, rule: Spread, job: Sequence[Asking]) -> Affinity:
        """Return the domains that may take one more pod. It is known once all that are counted have their places."""
        name = f"topologySpreadConstraints over {rule.pods.key}"
        ((pod, _),) = job
        if self._are_coming(rule.pods, job):
            raise Waits(f"{name}: it waits until the pods that are counted are placed, which come first")
        counts = self._neighbours.domains(rule, pod)
        if not counts:
            raise Waits(f"{name}: no node that it may use has this label")
        most = self._neighbours.fewest(rule, pod) + rule.max_skew - rule.pods.selects(pod.namespace, pod.labels)
        open_domains = {value for value, count in counts.items() if count <= most}
        if not open_domains:
            raise Waits(f"{name}: with fewer domains than minDomains each would have more than maxSkew")
        return _one_of(rule.pods.key, open_domains, name)


def _members(asking: Sequence[Asking]) -> list[Member]:
    return [Member(pod.namespace, pod.labels, _counted(wanted.rules)) for pod, wanted in asking]


def _likeness(pod: Pod, wanted: Wanted) -> object:
    """Return what is equal of pods of which one can be placed if the other can."""
    return wanted, tuple(sorted(pod.labels.items()))


def _counted(rules: Rules) -> Rules:
    """Return the rules without spreads that count no pods."""
    return replace(rules, spread=tuple([each for each in rules.spread if not each.counts_none]))


def _one_of(key: str, values: Collection[str], rule: str) -> Affinity:
    return Affinity(label=key, op=LabelOp.IN, values=_bounded(values, rule, key))


def _none_of(key: str, values: Collection[str], rule: str) -> list[Affinity]:
    return [Affinity(label=key, op=LabelOp.NOT_IN, values=_bounded(values, rule, key))] if values else []


def _bounded(values: Collection[str], rule: str, key: str) -> tuple[str, ...]:
    if len(values) > MAX_VALUES:
        raise Refused(
            f"{rule} over {key} leaves {len(values)} values to name, more than {MAX_VALUES}: make it preferred"
        )
    return tuple(sorted(values))
