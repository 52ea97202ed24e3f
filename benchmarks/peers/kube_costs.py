"""What a run costs: processor time of each program that this process has started, and calls to the API server.

With these a figure of a small, busy machine says something: where all cores are busy, pods per second follow from the
processor time of a pod, and no scheduler binds more of them than the cores divided by what the rest of a pod costs.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from tools.kubernetes.pretended import Api

OURS = ("gosched-kube", "gosched-master")
BUILTIN = "kube-scheduler"
_CALLS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LEAST = 0.01  # calls of a pod, and milliseconds, that are not worth a line


@dataclass(frozen=True, slots=True)
class Costs:
    """Of all since the programs began. `seconds`: by program. `calls`: by verb and resource."""

    seconds: dict[str, float]
    calls: Counter[str]

    @classmethod
    def now(cls, api: Api) -> Self:
        return cls(_seconds(), _calls(api))

    def since(self, before: Self) -> Costs:
        spent = {name: seconds - before.seconds.get(name, 0.0) for name, seconds in self.seconds.items()}
        return Costs(spent, self.calls - before.calls)

    def by_pod(self, pods: int) -> Iterator[tuple[str, float, str]]:
        """Return the figures of a pod: name, value, unit."""
        for name, seconds in sorted(self.seconds.items(), key=lambda each: -each[1]):
            if (cost := 1000 * seconds / pods) > _LEAST:
                yield f"cpu_{name}", cost, "ms/pod"
        for call, count in self.calls.most_common():
            if count / pods > _LEAST:
                yield f"calls_{call}", count / pods, "calls/pod"

    def most_pods(self, schedulers: tuple[str, ...], pods: int) -> float:
        """Return how many pods per second all cores could bind if these programs cost nothing."""
        rest = sum(seconds for name, seconds in self.seconds.items() if name not in schedulers)
        return pods * (os.cpu_count() or 1) / rest


def _seconds() -> dict[str, float]:
    found: dict[str, float] = {}
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times, words = process.cpu_times(), process.cmdline()
        except psutil.Error:
            continue  # it has ended
        name = "the_benchmark" if process == me else _program(words)
        found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def _program(words: list[str]) -> str:
    """Return the name of a program; an interpreter's is that of its script. What a master starts is a master's."""
    names = [Path(word).name for word in words[:3]]
    known = [name for name in names if name.startswith(("gosched-", "kube-", "etcd"))]
    return known[0] if known else "gosched-master" if any("gosched" in word for word in words) else "others"


def _calls(api: Api) -> Counter[str]:
    found: Counter[str] = Counter()
    for labels, count in _CALLS.findall(str(api("GET", "/metrics")["message"])):
        of = dict(_LABEL.findall(labels))
        if of["verb"] not in ("WATCH", "LIST"):
            found["_".join(filter(None, (of["verb"], of["resource"], of["subresource"])))] += int(float(count))
    return found
