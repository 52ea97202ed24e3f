"""Random trials: pods with rules about other pods, judged by where kube-scheduler would place them.

A trial makes nodes and pods, lets some run, end, be deleted, and nodes be cordoned, and then lets time pass. Judged is
each placement at the moment of its binding, and each pod that waits in the end.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.integrations.kubernetes.reference import ALWAYS, legal_nodes
from tests.integrations.kubernetes.simulated import Simulation

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
SETTLES = 25  # steps without events, by the end of which all is placed that can be
MAX_ORDERS = 6  # pods of one step whose order is looked for
_EVENTS = ("pod", "pod", "pod", "pod", "gang", "other", "end", "delete", "deleting", "cordon", "node", "gate", "cancel")


class Trial:
    """`kinds`: the rules that pods have, of `spread`, `podAntiAffinity` and `podAffinity`."""

    def __init__(self, seed: int, simulation: Simulation, kinds: Collection[str]) -> None:
        self._random = random.Random(seed)
        self._simulation = simulation
        self._server = simulation.server
        self._kinds = kinds
        self._count = 0
        self._said: dict[str, str] = {}  # reason, by the name of a pod that waits, at the last look
        simulation.say = lambda pod, reason, message: self._said.update({pod.name: reason})
        #: Placements that kube-scheduler would not have made.
        self.illegal: list[str] = []
        #: Pods that wait although kube-scheduler would place them.
        self.stuck: list[str] = []
        self.bound = 0

    async def run(self) -> None:
        for _ in range(self._random.randint(2, 5)):
            self._server.put_node(self._node())
        for _ in range(self._random.randint(4, 12)):
            self._happen(self._random.choice(_EVENTS))
            for _ in range(self._random.choice([0, 1, 1, 2])):
                await self._step()
        for _ in range(SETTLES):
            await self._step()
        self._judge_waiting()

    async def _step(self) -> None:
        self._said.clear()
        before, done = dict(self._server.pods), len(self._server.bindings)
        await self._simulation.step()
        placed = self._server.bindings[done:]
        self.bound += len(placed)
        if len(placed) <= MAX_ORDERS and not self._is_in_order(before, placed):
            self.illegal.append(str(placed))

    def _is_in_order(self, pods: Mapping[str, Json], placed: Sequence[tuple[str, str]]) -> bool:
        """Return whether the pods could have been placed one after the other, each legally, in some order."""
        for i, (name, node) in enumerate(placed):
            if node in legal_nodes(pods[name], self._server.nodes, pods.values()):
                after = {**pods, name: _on(pods[name], node)}
                if self._is_in_order(after, [*placed[:i], *placed[i + 1 :]]):
                    return True
        return not placed

    def _judge_waiting(self) -> None:
        pods = self._server.pods
        for name, pod in pods.items():
            if not self._waits(pod) or self._said.get(name) == "NotSupported":
                continue
            group = _group(pod)
            members = [each for each in pods.values() if group and _group(each) == group]
            running = [each for each in members if each["spec"].get("nodeName") and each["status"]["phase"] != "Failed"]
            needed = self._server.groups.get(group, 1) - len(running)
            free = [each for each in members if self._waits(each)][:needed] if needed > 1 else [pod]
            refused = any(self._said.get(each["metadata"]["name"]) == "NotSupported" for each in members)
            if len(free) >= needed and not refused and self._fit(pods, free):
                self.stuck.append(name)

    def _waits(self, pod: Json) -> bool:
        spec, metadata = pod["spec"], pod["metadata"]
        mine = spec["schedulerName"] == "gosched" and not self._simulation.is_parked(metadata["uid"])
        return mine and not (spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp"))

    def _fit(self, pods: Mapping[str, Json], wanted: Sequence[Json]) -> bool:
        """Return whether the pods can be placed one after the other. gosched uses no cordoned node."""
        for i, pod in enumerate(wanted):
            for node in legal_nodes(pod, self._server.nodes, pods.values()):
                if not self._server.nodes[node]["spec"].get("unschedulable"):
                    after = {**pods, pod["metadata"]["name"]: _on(pod, node)}
                    if self._fit(after, [*wanted[:i], *wanted[i + 1 :]]):
                        return True
        return not wanted

    def _happen(self, event: str) -> None:
        server, choice = self._server, self._random.choice
        name = choice(sorted(server.pods)) if server.pods else ""
        pod = server.pods.get(name, {"spec": {}, "metadata": {}})
        match event:
            case "pod":
                server.put_pod(self._pod())
            case "gang":
                self._make_gang()
            case "other":
                server.put_pod(self._pod(scheduler="other", node=choice([*server.nodes, ""])))
            case "end" if pod["spec"].get("nodeName"):
                server.put_pod({**pod, "status": {"phase": choice(["Succeeded", "Failed"])}})
            case "delete" if name:
                server.remove(name)
            case "deleting" if name:
                server.put_pod({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "now"}})
            case "gate" if pod["spec"].get("schedulingGates"):
                server.put_pod({**pod, "spec": {**pod["spec"], "schedulingGates": []}})
            case "cordon":
                node = server.nodes[choice(sorted(server.nodes))]
                is_open = not node["spec"].get("unschedulable")
                server.put_node({**node, "spec": {**node["spec"], "unschedulable": is_open}})
            case "node":
                server.put_node(self._node())
            case "cancel":
                self._simulation.masters.cancel_one(choice)

    def _make_gang(self) -> None:
        first, size = self._pod(), self._random.choice([2, 2, 3])
        for term in (first["spec"]["affinity"].get("podAntiAffinity") or {}).get(ALWAYS, []):
            term["topologyKey"] = HOSTNAME  # of a gang that keeps apart, gosched uses no node without the label
        group = first["metadata"]["name"]
        # Pods that ask for the same take each other's place, so anti-affinity that names some of them is kept by all.
        is_mixed = "podAntiAffinity" not in self._kinds and self._chance(0.3)
        self._server.groups[group] = self._random.choice([size, size, size - 1])
        for i in range(size):
            pod = copy.deepcopy(first)
            pod["metadata"] |= {"name": f"{group}-{i}", "uid": f"u-{group}-{i}"}
            pod["metadata"] |= {"labels": {"app": self._random.choice("xy")}} if is_mixed else {}
            pod["spec"] |= {"schedulingGroup": {"podGroupName": group}, "schedulingGates": self._gates()}
            self._server.put_pod(pod)

    def _node(self) -> Json:
        name = f"n{len(self._server.nodes)}"
        labels = {HOSTNAME: name}
        labels |= {"zone": self._random.choice("abc")} if self._chance(0.85) else {}
        labels |= {"rack": self._random.choice("rs")} if self._chance(0.6) else {}
        return {
            "metadata": {"name": name, "uid": f"u-{name}", "labels": labels},
            "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}] if self._chance(0.15) else []},
            "status": {
                "allocatable": {"cpu": str(self._random.randint(1, 4)), "pods": "20"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def _pod(self, scheduler: str = "gosched", node: str = "") -> Json:
        self._count += 1
        name, choice = f"p{self._count}", self._random.choice
        spec: Json = {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": choice(["1", "1", "1", "2", "4"])}}}],
            "nodeSelector": {"zone": choice("abc")} if self._chance(0.15) else {},
            "tolerations": [
                {"key": key, "operator": "Exists"}
                for key in ("t", "node.kubernetes.io/unschedulable")
                if self._chance(0.12)
            ],
            "schedulingGates": self._gates(),
            "affinity": {
                kind: {ALWAYS: [{"topologyKey": choice(["zone", "rack", HOSTNAME]), **self._selector()}]}
                for kind in ("podAntiAffinity", "podAffinity")
                if kind in self._kinds and self._chance(0.35)
            },
        }
        if "spread" in self._kinds and self._chance(0.7):
            spreads = [self._spread() for _ in range(choice([1, 1, 2]))]
            spec["topologySpreadConstraints"] = list({each["topologyKey"]: each for each in spreads}.values())
        spec |= {"nodeName": node} if node else {}
        labels = {"app": choice("xy")}
        metadata = {"name": name, "namespace": choice("nnnm"), "uid": f"u-{name}", "labels": labels}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}

    def _spread(self) -> Json:
        return {
            "topologyKey": self._random.choice(["zone", "zone", "rack", HOSTNAME]),
            "maxSkew": self._random.choice([1, 1, 2]),
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor" if self._chance(0.3) else "Ignore",
            **({"nodeAffinityPolicy": "Ignore"} if self._chance(0.15) else {}),
            **({"minDomains": self._random.choice([2, 3, 4])} if self._chance(0.15) else {}),
            **self._selector(),
        }

    def _selector(self) -> Json:
        chance = self._random.random()
        if chance < 0.75:
            return {"labelSelector": {"matchLabels": {"app": self._random.choice("xy")}}}
        return {"labelSelector": {}} if chance < 0.9 else {}

    def _gates(self) -> list[Json]:
        return [{"name": "g"}] if self._chance(0.1) else []

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _on(pod: Json, node: str) -> Json:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _lives(pod: Json) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


def _group(pod: Json) -> str:
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or "")
