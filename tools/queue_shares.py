"""Three masters, a hundred CPUs and the contract's three capacity queues: what each queue holds while demand comes and
goes and a leader dies. Draws it as an SVG.

Rule kept: the figures are what the masters report, and the exit code is 0 only if every phase came to its shares.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient, GoSchedError
from gosched.core.records.job import JobState

PLOT = Path(__file__).resolve().parent.parent / "docs/guides/queue-shares.svg"
QUEUES = [
    {"name": "production", "type": "capacity", "capacity_pct": 60, "max_pct": 80},
    {"name": "development", "type": "capacity", "capacity_pct": 30, "max_pct": 50},
    {"name": "testing", "type": "capacity", "capacity_pct": 10, "max_pct": 100},
]
NAMES = ("production", "development", "testing")
AGENTS = [AgentShape(resources={"cpu": 25, "memory": "64Gi"})] * 4  # 100 CPUs: a CPU is a percent
BACKLOG_CPUS = 100  # that wait in a queue which has demand
SAMPLE_S = 0.2
STEADY = 0.4  # the part of a phase, at its end, that must hold its shares
TOLERANCE = 5.0  # CPUs: the largest task of the short form


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """`shares`: the CPUs that production, development and testing come to; those with 0 have no demand."""

    title: str  # two lines in the plot, split at the colon
    shares: tuple[int, int, int]
    kills_leader: bool = False


PHASES = (
    Phase(title="only testing: borrows all", shares=(0, 0, 100)),
    Phase(title="development joins: up to its max", shares=(0, 50, 50)),
    Phase(title="production joins: guarantees", shares=(60, 30, 10)),
    Phase(title="leader killed: no change", shares=(60, 30, 10), kills_leader=True),
    Phase(title="development leaves: its 30 are lent", shares=(75, 0, 25)),
    Phase(title="only production: stops at its max", shares=(80, 0, 0)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Tasks of `cpus` that take `task_s`; phases of `phase_s`, and of up to `patience_s` more until their shares are
    come to, for machines that start tasks slowly."""

    cpus: tuple[int, ...] = (2, 3)
    task_s: tuple[float, ...] = (2.0, 2.5, 3.0)
    phase_s: float = 12.0
    patience_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """CPUs that production, development and testing held, `at_s` after the start of the first phase."""

    at_s: float
    used: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`ends`: of the phases, in seconds after the start; `steady`: the median of what each queue held at the end of
    each phase."""

    phases: tuple[Phase, ...]
    ends: tuple[float, ...]
    samples: tuple[Sample, ...]
    steady: tuple[tuple[float, ...], ...]

    def mistakes(self) -> list[str]:
        found = []
        for phase, medians in zip(self.phases, self.steady, strict=True):
            found += _misses(phase, medians)
        for queue, most in zip(QUEUES, map(max, zip(*[s.used for s in self.samples], strict=True)), strict=True):
            if most > float(str(queue["max_pct"])):
                found.append(f"{queue['name']} held {most:g} CPUs, above its max")
        return found


def run(phases: Sequence[Phase], load: Load) -> Run:
    """Takes a little longer than its phases together."""
    with LocalCluster(masters=3, agents=AGENTS, settings={"queues": QUEUES}, protected=True) as cluster:
        streams = [Stream(cluster.client(), name, load) for name in NAMES]
        with futures.ThreadPoolExecutor(len(streams)) as pool, cluster.client() as client:
            feeding = [pool.submit(stream.run) for stream in streams]
            try:
                samples, ends = _phases(cluster, client, phases, load, streams)
            finally:
                for stream in streams:
                    stream.ends.set()
            for future in feeding:
                future.result()
    steady = tuple([_median(samples, end, load) for end in ends])
    return Run(phases=tuple(phases), ends=tuple(ends), samples=tuple(samples), steady=steady)


class Stream:
    """The demand of one queue: while it is on, there are always tasks that wait; once off, none."""

    def __init__(self, client: GoSchedClient, queue: str, load: Load) -> None:
        self.is_on = threading.Event()
        self.ends = threading.Event()
        self._client = client
        self._queue = queue
        self._load = load
        self._submitted = 0

    def run(self) -> None:
        with self._client as client:
            while not self.ends.wait(SAMPLE_S):
                if self.is_on.is_set():
                    self._top_up(client)
                elif self._submitted:
                    self._withdraw(client)

    def _top_up(self, client: GoSchedClient) -> None:
        waiting = next(queue.pending for queue in client.get_status().queues if queue.path == self._queue)
        wanted = BACKLOG_CPUS // min(self._load.cpus)
        for _ in range(waiting, wanted):
            cpus = self._load.cpus[self._submitted % len(self._load.cpus)]
            seconds = self._load.task_s[self._submitted % len(self._load.task_s)]
            resources = f"resources: {{cpu: {cpus}, memory: 16Mi}}"
            name = f"{self._queue}-{self._submitted}"
            client.submit(f"name: {name}\nqueue: {self._queue}\n{resources}\nrun: sleep {seconds}\n")
            self._submitted += 1

    def _withdraw(self, client: GoSchedClient) -> None:
        for job in client.list_jobs(states=[JobState.PENDING], queue=self._queue):
            with suppress(GoSchedError):  # it started and ended meanwhile
                client.cancel(job.id, reason="its queue's demand ends")


def _phases(
    cluster: LocalCluster, client: GoSchedClient, phases: Sequence[Phase], load: Load, streams: Sequence[Stream]
) -> tuple[list[Sample], list[float]]:
    samples: list[Sample] = []
    ends: list[float] = []
    began = time.monotonic()
    for phase in phases:
        due_s = (ends[-1] if ends else 0.0) + load.phase_s
        print(f"{time.monotonic() - began:5.1f} s  {phase.title}", flush=True)
        for stream, share in zip(streams, phase.shares, strict=True):
            (stream.is_on.set if share else stream.is_on.clear)()
        killed = cluster.leader() if phase.kills_leader else None
        if killed:
            killed.kill()
        while (at_s := time.monotonic() - began) < due_s or (
            at_s < due_s + load.patience_s and _misses(phase, _median(samples, at_s, load))
        ):
            samples.append(_sample(client, at_s))
            time.sleep(SAMPLE_S)
        ends.append(at_s)
        if killed:
            cluster.restart(killed)
    return samples, ends


def _sample(client: GoSchedClient, at_s: float) -> Sample:
    queues = {queue.path: queue for queue in client.get_status().queues}
    return Sample(at_s=at_s, used=tuple([dict(queues[name].used).get("cpu", 0) / 1000 for name in NAMES]))


def _median(samples: Sequence[Sample], end_s: float, load: Load) -> tuple[float, ...]:
    """Of what each queue held before that moment, for the time that must be steady."""
    last = [sample.used for sample in samples if end_s - STEADY * load.phase_s <= sample.at_s < end_s]
    return tuple([statistics.median(held) for held in zip(*last, strict=True)]) or (0.0,) * len(NAMES)


def _misses(phase: Phase, medians: Sequence[float]) -> list[str]:
    return [
        f"{phase.title}: {name} held {held:g} CPUs in the median, not {wanted}"
        for name, wanted, held in zip(NAMES, phase.shares, medians, strict=True)
        if abs(held - wanted) > TOLERANCE
    ]


WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 1040, 62, 132, 84, 150, 26
COLOURS = ("#2563a8", "#3a7d34", "#b25d12")
SURFACE, INK, FAINT, GRID = "#ffffff", "#222222", "#666666", "#dddddd"


def svg(result: Run) -> str:
    """One panel for each queue, one under the other, over the same time."""
    height = TOP + len(NAMES) * (PANEL + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        f' font-size="12" fill="{INK}">',
        "<title>What three capacity queues hold of 100 CPUs while demand comes and goes</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{SURFACE}"/>',
        _text(LEFT, 22, "CPUs held by three capacity queues on a cluster of 100", size=16, weight="bold"),
        *_phase_marks(result),
    ]
    for index in range(len(NAMES)):
        parts += _panel(result, index)
    for second in range(0, int(result.ends[-1]) + 1, 10):
        parts.append(_text(_x(result, second), height - 26, f"{second} s", anchor="middle", fill=FAINT))
    return "\n".join([*parts, *_legend(height - 8), "</svg>\n"])


def _phase_marks(result: Run) -> list[str]:
    """A line where a phase begins, red and dashed where the leader was killed, and its title above."""
    parts = []
    bottom = TOP + len(NAMES) * (PANEL + GAP) - GAP
    for phase, start_s, end_s in zip(result.phases, (0.0, *result.ends), result.ends, strict=False):
        x, width = _x(result, start_s), _x(result, end_s) - _x(result, start_s)
        style = (
            'stroke="#c02020" stroke-width="2" stroke-dasharray="5 3"' if phase.kills_leader else f'stroke="{FAINT}"'
        )
        parts.append(f'<path d="M{x:.1f} {TOP - 32}V{bottom}" {style}/>')
        for line, words in enumerate(phase.title.split(": ")):
            parts.append(
                _text(
                    x + width / 2,
                    TOP - 24 + 15 * line,
                    words,
                    anchor="middle",
                    weight="normal" if line else "bold",
                    fill="#c02020" if phase.kills_leader else INK,
                )
            )
    return parts


def _panel(result: Run, index: int) -> list[str]:
    colour, queue, base = COLOURS[index], QUEUES[index], TOP + index * (PANEL + GAP) + PANEL
    end = _x(result, result.ends[-1])
    parts = [_text(18, base - PANEL / 2, NAMES[index], anchor="middle", weight="bold", fill=colour, turned=True)]
    for cpus in (0, 50, 100):
        parts.append(f'<path d="M{LEFT} {_y(base, cpus)}H{end:.1f}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 6, _y(base, cpus) + 4, str(cpus), anchor="end", fill=FAINT))
    for word, key, dashes in (("guaranteed", "capacity_pct", ""), ("max", "max_pct", ' stroke-dasharray="7 4"')):
        y = _y(base, float(str(queue[key])))
        parts.append(f'<path d="M{LEFT} {y}H{end:.1f}" stroke="{colour}" stroke-width="1.2"{dashes}/>')
        parts.append(_text(end + 8, y + 4, f"{word} {queue[key]}", fill=colour))
    used = _steps(result, base, [(sample.at_s, sample.used[index]) for sample in result.samples])
    parts.append(f'<path d="{used}V{base}H{LEFT}Z" fill="{colour}" fill-opacity="0.22"/>')
    parts.append(f'<path d="{used}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>')
    for start_s, end_s, medians in zip((0.0, *result.ends), result.ends, result.steady, strict=False):
        x = _x(result, end_s - (end_s - start_s) * STEADY / 2)
        label = _text(x, _y(base, medians[index]) + (18 if medians[index] > 20 else -7), f"{medians[index]:g}",
                      anchor="middle", weight="bold")  # fmt: skip
        parts.append(label)
    return parts


def _steps(result: Run, base: float, values: Sequence[tuple[float, float]]) -> str:
    """A value holds until the next one is read."""
    path = f"M{LEFT} {base}"
    for at_s, cpus in values:
        path += f"H{_x(result, at_s):.1f}V{_y(base, cpus):.1f}"
    return path + f"H{_x(result, result.ends[-1]):.1f}"


def _legend(y: float) -> list[str]:
    words = [
        ("area: CPUs that the queue's tasks hold", LEFT),
        ("thin line: guaranteed (capacity_pct)", LEFT + 250),
        ("dashed: max_pct", LEFT + 480),
        ("number: median of the last 40 % of the phase", LEFT + 600),
    ]
    return [_text(x, y, text, fill=FAINT) for text, x in words]


def _x(result: Run, at_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at_s / result.ends[-1]


def _y(base: float, cpus: float) -> float:
    return base - PANEL * cpus / 100


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", fill: str = INK,
    size: int = 12, turned: bool = False,
) -> str:  # fmt: skip
    turn = f' transform="rotate(-90 {x:g} {y:g})"' if turned else ""
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{turn}>{escape(words)}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=PLOT, help="the SVG to write (default: %(default)s)")
    to = parser.parse_args().to
    result = run(PHASES, Load())
    to.write_text(svg(result))
    print(f"\n{'median CPUs at the end of each phase':<42}" + "".join(f"{name:>13}" for name in NAMES))
    for phase, medians in zip(result.phases, result.steady, strict=True):
        held = [f"{median:g} of {share}" for median, share in zip(medians, phase.shares, strict=True)]
        print(f"{phase.title:<42}" + "".join(f"{text:>13}" for text in held))
    mistakes = result.mistakes()
    for mistake in mistakes:
        print(f"queue_shares: {mistake}", file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
