"""Rules of pods about other pods, as what their jobs ask of the masters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from gosched.core.features import FeatureLevel
from gosched.core.rules.jobs import check_job
from gosched.core.spec.placement_rules import Affinity, AntiAffinity, LabelOp, Mode, SpreadRule, TopologyRule
from gosched.integrations.kube_objects.pod_rules import ALWAYS, HOSTNAME, Refused
from gosched.integrations.kube_objects.pods import GroupKind, GroupRef, Pod
from gosched.integrations.kube_objects.translate import translate
from gosched.integrations.kubernetes.jobs import gang_job, kinds, single_job
from gosched.integrations.kubernetes.neighbours import Neighbours
from gosched.integrations.kubernetes.placing import ANYWHERE, MAX_APART, Coming, Places, Placing, Waits
from gosched.integrations.kubernetes.world import World

WEB: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "web"}}}
APART: dict[str, Any] = {"affinity": {"podAntiAffinity": {ALWAYS: [{**WEB, "topologyKey": HOSTNAME}]}}}
NEAR: dict[str, Any] = {"affinity": {"podAffinity": {ALWAYS: [{**WEB, "topologyKey": "zone"}]}}}
EVEN: dict[str, Any] = {"topologySpreadConstraints": [{**WEB, "topologyKey": "zone", "maxSkew": 1}]}
SELF = AntiAffinity(level=HOSTNAME)


class Bench:
    """Nodes a1 and a2 in zone a, b1 in b, c1 in c; and pods. `jobs`: names, by the names of pods."""

    def __init__(self) -> None:
        self.world = World("gosched")
        self.jobs: dict[str, str] = {}
        self.making: dict[str, str] = {}
        for name in ("a1", "a2", "b1", "c1"):
            self.node(name)
        self.pods: dict[str, Pod] = {}

    def node(self, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
        labels = {HOSTNAME: name, "zone": name[0]} if labels is None else labels
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}}
        metadata = {"name": name, "uid": f"u-{name}", "labels": labels}
        self.world.change_node("ADDED", {"metadata": metadata, "spec": spec, "status": ready})

    def pod(
        self, name: str, node: str = "", *, app: str = "web", scheduler: str = "gosched", job: str = "", **spec: Any
    ) -> str:
        metadata = {"name": name, "namespace": spec.pop("namespace", "n"), "uid": name, "labels": {"app": app}}
        metadata |= {"deletionTimestamp": "now"} if spec.pop("deleting", False) else {}
        status = {"phase": spec.pop("phase", "")}
        found = {"schedulerName": scheduler, "containers": [], **spec, **({"nodeName": node} if node else {})}
        self.world.change_pod("ADDED", {"metadata": metadata, "spec": found, "status": status})
        if job:
            self.jobs[name] = job
        return name

    def placing(self) -> Placing:
        def jobs_of(pod: Pod) -> Collection[str]:
            return [self.jobs[pod.name]] if pod.name in self.jobs else []

        neighbours = Neighbours(self.world, lambda pod: pod.node)

        def comes(pod: Pod) -> Coming:
            return Coming.SOON if jobs_of(pod) else Coming.NO

        return Placing(neighbours, jobs_of, comes, lambda pod: None, self.making, waits=True)

    def places(self, *names: str) -> Places:
        """Return the places of the first pod's kind, in the job of all."""
        asked = [(pod, translate(pod, cluster="c", queue="q")) for pod in [self.world.pods[name] for name in names]]
        found = self.placing().places(next(iter(kinds(asked).values())), asked)
        ref = GroupRef(kind=GroupKind.NATIVE, namespace="n", name="g")
        spec = single_job(*asked[0], "c", found) if len(names) == 1 else gang_job(
            ref, asked, "c", dict.fromkeys(kinds(asked), found)
        )  # fmt: skip
        assert check_job(spec, max(FeatureLevel)) is None
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def within(key: str, *values: str) -> tuple[Affinity, ...]:
    return (Affinity(label=key, op=LabelOp.IN, values=values),)


def outside(key: str, *values: str) -> tuple[Affinity, ...]:
    return (Affinity(label=key, op=LabelOp.NOT_IN, values=values),)


def test_a_gang_whose_rule_selects_itself_keeps_apart(bench: Bench) -> None:
    names = [bench.pod(f"p{i}", **APART) for i in range(3)]
    assert bench.places(*names) == Places(anti_affinity=(SELF,))
    assert bench.places("p0") == ANYWHERE


def test_a_gang_whose_rule_selects_some_of_it_is_refused(bench: Bench) -> None:
    names = [bench.pod("p0", **APART), bench.pod("p1", **APART), bench.pod("launcher", app="other")]
    with pytest.raises(Refused, match=f"podAntiAffinity over {HOSTNAME} names some pods of its gang"):
        bench.places(*names)
    names = [bench.pod("q0", **NEAR), bench.pod("q1")]
    with pytest.raises(Refused, match="podAffinity over zone names some"):
        bench.places(*names)


def test_a_pod_keeps_apart_from_jobs_by_their_names_and_from_other_pods_by_their_nodes(bench: Bench) -> None:
    bench.pod("own", "a1", job="job-1")
    bench.pod("waits", job="job-2")
    bench.pod("theirs", "b1", scheduler="default-scheduler")
    bench.pod("their-waiting", scheduler="default-scheduler")
    bench.pod("ended", "c1", phase="Succeeded")
    bench.pod("elsewhere", "c1", namespace="other")
    bench.pod("unlike", "c1", app="other")
    bench.pod("p", **APART)
    apart = tuple([AntiAffinity(job=name, level=HOSTNAME) for name in ("job-1", "job-2")])
    assert bench.places("p") == Places(anti_affinity=apart, affinity=outside(HOSTNAME, "b1"))


def test_a_pod_without_rules_keeps_away_from_pods_whose_rule_names_it(bench: Bench) -> None:
    bench.pod("own", "a1", job="job-1", app="lonely", **APART)
    bench.pod("theirs", "b1", scheduler="default-scheduler", app="lonely", **APART)
    bench.pod("p")
    apart = (AntiAffinity(job="job-1", level=HOSTNAME),)
    assert bench.places("p") == Places(anti_affinity=apart, affinity=outside(HOSTNAME, "b1"))
    bench.pod("q", app="other")
    assert bench.places("q") == ANYWHERE


def test_pods_that_are_submitted_together_keep_apart(bench: Bench) -> None:
    bench.pod("p", **APART)
    bench.pod("q", **APART)
    bench.making = {"p": "job-p", "q": "job-q"}
    assert bench.places("p").anti_affinity == (AntiAffinity(job="job-q", level=HOSTNAME),)
    assert bench.places("q").anti_affinity == (AntiAffinity(job="job-p", level=HOSTNAME),)


def test_more_jobs_than_a_rule_may_name_are_refused(bench: Bench) -> None:
    for i in range(MAX_APART):
        bench.pod(f"p{i}", job=f"job-{i}")
    bench.pod("p", **APART)
    assert len(bench.places("p").anti_affinity) == MAX_APART
    bench.pod("one-more", job="one-more")
    with pytest.raises(Refused, match=f"{MAX_APART + 1} other jobs, more than {MAX_APART}: make its pods one gang"):
        bench.places("p")


def test_affinity_to_the_own_gang_is_one_domain_and_later_pods_follow(bench: Bench) -> None:
    names = [bench.pod(f"p{i}", **NEAR) for i in range(3)]
    there = (Affinity(label="zone", op=LabelOp.EXISTS),)
    assert bench.places(*names) == Places(topology=(TopologyRule(level="zone"),), affinity=there)
    bench.pod("q", "b1", job="job-q")
    assert bench.places("p0") == Places(affinity=within("zone", "b"))


def test_a_gang_may_be_in_all_domains_with_a_pod_that_its_affinity_names(bench: Bench) -> None:
    names = [bench.pod(f"p{i}", **NEAR) for i in range(3)]
    bench.pod("q", "b1", job="job-q")
    bench.pod("r", "c1", job="job-r")
    better = TopologyRule(level="zone", mode=Mode.PREFERRED)
    assert bench.places(*names) == Places(topology=(better,), affinity=within("zone", "b", "c"))


def test_affinity_waits_for_the_pods_that_it_names(bench: Bench) -> None:
    bench.pod("p", app="other", **NEAR)
    with pytest.raises(Waits, match="no pod that it names has been placed yet"):
        bench.places("p")
    bench.pod("q", job="job-q")
    with pytest.raises(Waits, match="waits for pods that it names"):
        bench.places("p")
    bench.pod("q", "c1", job="job-q")
    assert bench.places("p").affinity == within("zone", "c")


def test_a_gang_is_spread_where_it_alone_is_counted(bench: Bench) -> None:
    names = [bench.pod(f"p{i}", **EVEN) for i in range(3)]
    assert bench.places(*names) == Places(spread=(SpreadRule(level="zone", max_skew=1),))
    bench.pod("goes", "a1", deleting=True)
    assert bench.places(*names).spread
    bench.pod("other", "a1")
    with pytest.raises(Refused, match=r"topologySpreadConstraints over zone .* counts pod n/other, too"):
        bench.places(*names)


def test_a_gang_that_its_spread_does_not_count_is_refused(bench: Bench) -> None:
    names = [bench.pod(f"p{i}", app="other", **EVEN) for i in range(2)]
    with pytest.raises(Refused, match="does not select the pod itself"):
        bench.places(*names)
    names = [bench.pod("q0", **EVEN), bench.pod("q1")]
    with pytest.raises(Refused, match="ask for other than it does"):
        bench.places(*names)


def test_a_domain_that_counts_and_takes_no_pod_is_named(bench: Bench) -> None:
    names = [bench.pod(f"p{i}", **EVEN) for i in range(3)]
    bench.node("b1", taints=[{"key": "t", "effect": "NoSchedule"}])
    with pytest.raises(Refused, match="counts b, where no node takes the pod now"):
        bench.places(*names)
    honors: dict[str, Any] = {
        "topologySpreadConstraints": [{**EVEN["topologySpreadConstraints"][0], "nodeTaintsPolicy": "Honor"}]
    }
    names = [bench.pod(f"p{i}", **honors) for i in range(3)]
    assert bench.places(*names).spread


def test_a_spread_pod_by_itself_gets_the_emptiest_domains(bench: Bench) -> None:
    bench.pod("p", **EVEN)
    assert bench.places("p").affinity == within("zone", "a", "b", "c")
    bench.pod("goes", "b1", deleting=True)
    assert bench.places("p").affinity == within("zone", "a", "b", "c")
    bench.pod("q", "a1", job="job-q", **EVEN)
    assert bench.places("p").affinity == within("zone", "b", "c")
    bench.pod("r", job="job-r", **EVEN)
    with pytest.raises(Waits, match="waits until the pods that are counted are placed"):
        bench.places("p")


def test_spread_counts_the_domains_that_the_pod_may_use(bench: Bench) -> None:
    bench.pod("q", "a1", job="job-q")
    bench.pod("r", "c1", job="job-r")
    bench.pod("p", nodeSelector={"zone": "a"}, **EVEN)
    assert bench.places("p").affinity == within("zone", "a")


def test_a_node_without_one_of_the_keys_is_in_no_domain_of_any(bench: Bench) -> None:
    by_rack = {**EVEN["topologySpreadConstraints"][0], "topologyKey": "rack"}
    bench.node("a1", {"zone": "a", "rack": "r"})
    bench.pod("q", "a1", job="job-q")
    bench.pod("p", topologySpreadConstraints=[*EVEN["topologySpreadConstraints"], by_rack])
    assert bench.places("p").affinity == (*within("zone", "a"), *within("rack", "r"))
    bench.pod("q", "a1", app="other")
    bench.pod("p2", topologySpreadConstraints=[*EVEN["topologySpreadConstraints"], by_rack])
    there = tuple([Affinity(label=key, op=LabelOp.EXISTS) for key in ("zone", "rack")])
    assert bench.places("p", "p2").affinity == there


def test_with_fewer_domains_than_wanted_the_emptiest_counts_as_empty(bench: Bench) -> None:
    rule = EVEN["topologySpreadConstraints"][0]
    for name in ("a1", "b1", "c1"):
        bench.pod(f"on-{name}", name, job=f"job-{name}")
    bench.pod("p", topologySpreadConstraints=[{**rule, "minDomains": 3}])
    assert bench.places("p").affinity == within("zone", "a", "b", "c")
    bench.pod("q", topologySpreadConstraints=[{**rule, "minDomains": 4}])
    with pytest.raises(Waits, match="fewer domains than minDomains"):
        bench.places("q")
    bench.pod("on-c1", "c1", job="job-c1", deleting=True)
    assert bench.places("q").affinity == within("zone", "c")
    with pytest.raises(Refused, match="of a gang with minDomains"):
        bench.places("p", "q")


def test_a_policy_that_ignores_affinity_counts_domains_that_the_pod_cannot_use(bench: Bench) -> None:
    rule = EVEN["topologySpreadConstraints"][0]
    bench.pod("q", "a1", job="job-q")
    bench.pod("p", nodeSelector={"zone": "a"}, topologySpreadConstraints=[{**rule, "nodeAffinityPolicy": "Ignore"}])
    assert bench.places("p").affinity == within("zone", "b", "c")


def test_an_empty_selector_counts_no_pod_and_asks_for_the_label(bench: Bench) -> None:
    empty: dict[str, Any] = {"labelSelector": {}, "topologyKey": "zone", "maxSkew": 1}
    bench.pod("q", "a1", job="job-q")
    names = [bench.pod(f"p{i}", topologySpreadConstraints=[empty]) for i in range(2)]
    there = Places(affinity=(Affinity(label="zone", op=LabelOp.EXISTS),))
    assert bench.places("p0") == there
    assert bench.places(*names) == there


def test_a_cordoned_node_counts_for_pods_that_tolerate_it(bench: Bench) -> None:
    honors = {**EVEN["topologySpreadConstraints"][0], "nodeTaintsPolicy": "Honor"}
    bench.node("b1", unschedulable=True)
    for name in ("a1", "c1"):
        bench.pod(f"on-{name}", name, job=f"job-{name}")
    bench.pod("p", topologySpreadConstraints=[honors])
    assert bench.places("p").affinity == within("zone", "a", "c")
    tolerated = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    bench.pod("q", topologySpreadConstraints=[honors], tolerations=tolerated)
    assert bench.places("q").affinity == within("zone", "b")


def test_pods_outside_of_all_domains_are_no_reason_to_follow(bench: Bench) -> None:
    bench.node("bare", {})
    bench.pod("q", "bare", job="job-q")
    bench.pod("p", **NEAR)
    assert bench.places("p").affinity == (Affinity(label="zone", op=LabelOp.EXISTS),)
    neighbours = Neighbours(bench.world, lambda pod: pod.node)
    assert neighbours.broken(bench.world.pods["p"], "a1") == ""
    assert "no pod that it names" in neighbours.broken(bench.world.pods["p"], "bare")


def test_of_pods_made_together_a_later_one_waits_for_those_that_it_counts(bench: Bench) -> None:
    for name in ("p", "q"):
        bench.pod(name, **EVEN)
    bench.making = {"p": "job-p", "q": "job-q"}
    placing = bench.placing()
    asked = [[(pod, translate(pod, cluster="c", queue="q"))] for pod in bench.world.pods.values()]
    assert placing.places(asked[0], asked[0]).affinity
    placing.made([bench.world.pods["p"]])
    with pytest.raises(Waits, match="waits until the pods that are counted are placed"):
        placing.places(asked[1], asked[1])


def test_the_mark_changes_with_the_nodes_and_is_empty_where_other_pods_leave_all(bench: Bench) -> None:
    bench.pod("p", **APART)
    assert bench.places("p").mark == ""
    bench.pod("theirs", "b1", scheduler="default-scheduler")
    one = bench.places("p").mark
    bench.pod("more", "c1", scheduler="default-scheduler")
    assert "" != one != bench.places("p").mark
