"""Rules of a gang about its own pods, in job files and in pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gosched.config.errors import ConfigError
from gosched.config.jobs.jobfile import parse_job_file
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import AntiAffinity, SpreadRule, TopologyRule
from gosched.integrations.kube_objects.gang_rules import Member, by_node, within
from gosched.integrations.kube_objects.job_export import export_job
from gosched.integrations.kube_objects.job_import import ImportedJobs, read_jobs
from gosched.integrations.kube_objects.pod_rules import ALWAYS, read_rules
from gosched.integrations.kube_objects.reading import read_objects

Json = dict[str, Any]

ONE_GROUP = """
name: train
image: debian:12
run: work
count: 4
placement:
  affinity: {label: disk, op: in, values: ssd}
  anti_affinity: [{job: self}, {job: self, level: rack}]
  topology: {level: zone}
  spread: [{level: block, max_skew: 2}, {level: node}]
"""
TWO_GROUPS = """
name: ps
tasks:
  server: {image: debian:12, run: serve, placement: {topology: {level: zone}}}
  worker:
    image: debian:12
    run: work
    count: 3
    placement: {topology: {level: zone}, anti_affinity: {job: self}, spread: {level: rack}}
"""
LABEL = {"scheduling.x-k8s.io/pod-group": "g"}
TERM: Json = {"topologyKey": "rack", "labelSelector": {"matchLabels": LABEL}}


def spec_of(text: str) -> JobSpec:
    (spec,) = parse_job_file(text, "job")
    return spec


def imported(*objects: Json) -> ImportedJobs:
    return read_jobs(read_objects(json.dumps({"kind": "List", "items": [*objects]}).encode(), "x"), "x")


def pod(name: str, labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "c", "image": "debian:12", "command": ["true"]}
    metadata = {"name": name, "labels": {**LABEL, **(labels or {})}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], "restartPolicy": "Never", **spec}}


def group_of(*pods: Json) -> tuple[Json, ...]:
    return ({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": len(pods)}}, *pods)


@pytest.mark.parametrize("text", [ONE_GROUP, TWO_GROUPS])
def test_rules_within_a_job_go_there_and_back(text: str) -> None:
    spec = spec_of(text)
    found = export_job(spec)
    assert not found.notes
    back = imported(*found.objects)
    assert back.jobs[0].groups == spec.groups
    assert not back.notes


@pytest.mark.parametrize("text", [ONE_GROUP, TWO_GROUPS])
def test_exported_pods_are_kept_apart_and_spread_by_the_bridge(text: str) -> None:
    spec = spec_of(text)
    pods = [each for each in export_job(spec).objects if each["kind"] == "Pod"]
    members = [
        Member("default", each["metadata"]["labels"], read_rules(each["spec"], "default")) for each in pods
    ]  # in the order of the groups
    first = 0
    for group in spec.groups:
        found = by_node(within(members[first : first + group.count], members))
        assert (found.anti_affinity, found.topology) == (group.anti_affinity, group.topology)
        assert found.spread == group.spread
        first += group.count


@pytest.mark.parametrize(
    ("placement", "named"),
    [
        ("anti_affinity: {job: other}", "placement.anti_affinity of job j"),
        ("topology: {level: numa}", "placement.topology of job j"),
        ("topology: {level: rack, mode: preferred}", "placement.topology of job j"),
        ("topology: [{level: zone}, {level: rack}]", "placement.topology of job j"),
        ("spread: {level: rack, mode: preferred}", "placement.spread of job j"),
    ],
)
def test_what_pods_of_a_gang_cannot_say_is_named(placement: str, named: str) -> None:
    found = export_job(spec_of(f"name: j\nimage: debian:12\nrun: ls\ncount: 2\nplacement: {{{placement}}}\n"))
    assert [note.name for note in found.notes] == [named]


def test_a_rule_of_one_group_alone_about_one_domain_is_named() -> None:
    found = export_job(spec_of(TWO_GROUPS.replace("placement: {topology: {level: zone}}}", "}")))
    assert [note.name for note in found.notes] == ["tasks.worker.placement.topology of job ps"]


def test_rules_of_a_gang_are_imported() -> None:
    rules = {
        "affinity": {"podAntiAffinity": {ALWAYS: [{**TERM, "topologyKey": "kubernetes.io/hostname"}]}},
        "topologySpreadConstraints": [{**TERM, "maxSkew": 2}],
    }
    found = imported(*group_of(pod("a", **rules), pod("b", **rules)))
    (group,) = found.jobs[0].groups
    assert group.anti_affinity == (AntiAffinity(),)
    assert group.spread == (SpreadRule(level="rack", max_skew=2),)
    assert not found.notes
    template = {"metadata": {"labels": LABEL}, "spec": pod("p", **rules)["spec"]}
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, "parallelism": 3, "completions": 3}}
    assert imported(job).jobs[0].groups[0].spread == group.spread
    near = pod("a", affinity={"podAffinity": {ALWAYS: [TERM]}})
    assert imported(*group_of(near)).jobs[0].groups[0].topology == (TopologyRule(level="rack"),)


@pytest.mark.parametrize(
    ("rules", "other", "name", "advice"),
    [
        (
            {"topologySpreadConstraints": [{**TERM, "maxSkew": 1, "minDomains": 2}]},
            {},
            "rules about other pods of PodGroup default/g",
            "minDomains",
        ),
        (
            {"affinity": {"podAntiAffinity": {ALWAYS: [{**TERM, "labelSelector": {"matchLabels": {"x": "y"}}}]}}},
            {"x": "y"},
            "rules about other pods of PodGroup default/g",
            "some pods of its gang",
        ),
        (
            {"affinity": {"podAntiAffinity": {ALWAYS: [{**TERM, "labelSelector": {"matchLabels": {"x": "y"}}}]}}},
            {},
            "required affinity of PodGroup default/g",
            "pods of other jobs",
        ),
        (
            {"topologySpreadConstraints": [{**TERM, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
            {},
            "topologySpreadConstraints of Pod a",
            "placement.spread",
        ),
    ],
)
def test_what_job_files_cannot_say_is_named(rules: Json, other: Json, name: str, advice: str) -> None:
    found = imported(*group_of(pod("a", **rules), pod("b", other)))
    (note,) = [note for note in found.notes if note.name == name]
    assert advice in note.advice
    assert not any(group.anti_affinity or group.spread for group in found.jobs[0].groups)


@pytest.mark.parametrize("wrong", [3, "x", [3], {"podAntiAffinity": 3}, {"podAntiAffinity": {ALWAYS: [3]}}])
def test_rules_of_a_wrong_type_are_one_line(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"\Ax: Pod a: [^\n]+\Z"):
        imported(*group_of(pod("a", affinity=wrong)))
