"""`make demo`: a gang runs on three masters and four agents, and the death of the leader does not stop it.

Rule kept: it exits 0 only if the job succeeded and no line of its logs was lost or doubled, and leaves nothing behind.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from gosched.api.json.jobs import job_detail_json
from gosched.api.json.status import status_json
from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import LocalClusterError
from gosched.cli.logs_command import print_logs
from gosched.cli.output import table
from gosched.cli.progress import ending
from gosched.cli.status_command import status_text
from gosched.client import GoSchedClient, GoSchedError, JobDetail, LogChunk
from gosched.config import parse_job_file
from gosched.core.records.job import JobState

JOB_FILE = Path(__file__).resolve().parent.parent / "examples" / "gang.yaml"
KILL_AT_ROUND = 6
LIMIT_S = 90.0


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    try:
        with LocalCluster(masters=3, agents=4, protected=True) as cluster, cluster.client() as client:
            step(f"3 masters and 4 agents are up after {time.monotonic() - began:.1f} s; {cluster.leader().id} leads")
            mistakes = story(cluster, client)
            step("tearing down")
    except (LocalClusterError, GoSchedError) as error:
        mistakes = [str(error)]
    except KeyboardInterrupt:
        return 130
    for mistake in mistakes:
        click.secho(f"demo: {mistake}", fg="red", err=True)
    if not mistakes:
        step(f"the gang outlived its leader; {time.monotonic() - began:.0f} s in all")
    return 1 if mistakes else 0


def story(cluster: LocalCluster, client: GoSchedClient) -> list[str]:
    """What went wrong, or an empty list."""
    (spec,) = parse_job_file(JOB_FILE.read_bytes(), str(JOB_FILE))
    job = client.submit(spec).job_id
    step(f"submitted {JOB_FILE.name}: {spec.task_count} tasks that start together, as {job}")
    seen: list[LogChunk] = []
    assassin = Assassin(cluster)
    print_logs(assassin.watch(recorded(client.logs(job, follow=True, timeout_s=LIMIT_S), seen)), prefixed=True)
    detail = client.wait(job, timeout=LIMIT_S)
    mistakes = [*assassin.mistakes(), *outcome_mistakes(detail), *log_mistakes(seen, spec.task_count)]
    step(f"{spec.name}: {ending(detail)}")
    click.echo(status_text(status_json(client.get_status())))
    columns = [(title, lambda task, key=key: task[key]) for title, key in TASK_COLUMNS]
    click.echo("\n" + table(job_detail_json(detail)["tasks"], columns))
    return mistakes


TASK_COLUMNS = (("RANK", "rank"), ("STATE", "state"), ("NODE", "node"), ("ATTEMPT", "attempt"), ("EXIT", "exit_code"))


class Assassin:
    """Kills the leader, in a thread of its own so that the logs go on, once the job has come to a certain round."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._thread = threading.Thread(target=self._kill, daemon=True)
        self._error = ""
        self._text = b""

    def watch(self, chunks: Iterable[LogChunk]) -> Iterator[LogChunk]:
        for chunk in chunks:
            yield chunk
            if chunk.task_id.endswith("/0") and chunk.stream == "stdout":
                self._text += chunk.data
                if f"round {KILL_AT_ROUND:2}/".encode() in self._text and not self._thread.ident:
                    self._thread.start()

    def mistakes(self) -> list[str]:
        if not self._thread.ident:
            return [f"the job never came to round {KILL_AT_ROUND}, so no leader was killed"]
        self._thread.join(LIMIT_S)
        if self._thread.is_alive():
            return ["no new leader was seen after the kill"]
        return [self._error] if self._error else []

    def _kill(self) -> None:
        try:
            leader = self._cluster.leader()
            epoch = self._epoch()
            began = time.monotonic()
            leader.kill()
            step(f"killed {leader.id}, the leader (kill -9 {leader.pid})")
            while self._epoch() == epoch:
                time.sleep(0.02)
            step(f"{self._cluster.leader().id} leads, {time.monotonic() - began:.2f} s after the kill")
        except (LocalClusterError, GoSchedError) as error:
            self._error = f"after the leader's death: {error}"

    def _epoch(self) -> int:
        with self._cluster.client() as client:
            return client.get_status().epoch


def recorded(chunks: Iterable[LogChunk], seen: list[LogChunk]) -> Iterator[LogChunk]:
    for chunk in chunks:
        seen.append(chunk)
        yield chunk


def outcome_mistakes(detail: JobDetail) -> list[str]:
    mistakes = []
    if detail.state is not JobState.SUCCEEDED:
        mistakes.append(f"the job did not succeed: {ending(detail)}")
    if detail.job.attempt != 1:
        mistakes.append(f"the gang was started {detail.job.attempt} times; the leader's death should not disturb it")
    return mistakes


def log_mistakes(seen: list[LogChunk], tasks: int) -> list[str]:
    """Every task says once that it joined and once that it agrees; rank 0 says each round once, in order."""
    texts: dict[str, bytes] = {}
    for chunk in seen:
        if chunk.stream == "stdout":
            texts[chunk.allocation_id] = texts.get(chunk.allocation_id, b"") + chunk.data
    lines = b"".join(texts.values()).decode().splitlines()
    said = Counter(re.sub(r"^rank (\d+) (of \d+ joined|agrees).*", r"\2", line) for line in lines)
    rounds = [int(found[1]) for line in lines if (found := re.match(r"round +(\d+)/", line))]
    mistakes = []
    if said[f"of {tasks} joined"] != tasks or said["agrees"] != tasks:
        mistakes.append(f"the logs are not complete: of {tasks} tasks {said['agrees']} agree in them")
    if not rounds or rounds != list(range(1, len(rounds) + 1)) or len(lines) != 2 * tasks + len(rounds):
        mistakes.append(f"lines of the logs were lost or doubled: {len(lines)} lines, rounds {rounds}")
    return mistakes


def step(text: str) -> None:
    click.secho(f"==> {text}", bold=True)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
