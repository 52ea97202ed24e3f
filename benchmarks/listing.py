"""What `goschedctl job list` costs with 10,000 jobs that wait: the time until all is printed, its processor time, and
the time until the first page is there."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace

from benchmarks.report import Report
from gosched.api.job_query import JobQuery
from gosched.cli.local_cluster import LocalCluster
from gosched.client import GoSchedClient
from gosched.config import parse_job_file

BATCH = 500
JOB = "name: a\nlabels: {team: nlp}\nenv: {A: b, C: d}\nresources: {cpu: 2, memory: 1Gi}\nrun: sleep 600\n"


def fill(client: GoSchedClient, count: int) -> None:
    """Submit jobs of which all but a few wait."""
    (spec,) = parse_job_file(JOB, "job")
    for start in range(0, count, BATCH):
        client.submit_all([replace(spec, name=f"job-{number}") for number in range(start, min(count, start + BATCH))])


def printed(report: Report, cluster: LocalCluster, name: str, *words: str) -> None:
    """Measure a whole run of the program."""
    times = 1 if report.smoke else 5
    took, used = [], []
    command = [sys.executable, "-m", "gosched.cli.main", "--endpoints", cluster.endpoints, "job", "list", *words]
    for _ in range(times):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=300, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(time.perf_counter() - began)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    report.add(f"job_list_{name}_p50", statistics.median(took), "s", times)
    report.add(f"job_list_{name}_cpu_p50", statistics.median(used), "s", times)


def first_page(report: Report, client: GoSchedClient) -> None:
    """Measure how long the first rows take, and how long whole jobs take in place of all rows."""
    times = 1 if report.smoke else 5
    first, rows, jobs = [], [], []
    for _ in range(times):
        began = time.perf_counter()
        pages = client.job_rows(JobQuery())
        next(pages)
        first.append(time.perf_counter() - began)
        list(pages)
        rows.append(time.perf_counter() - began)
        began = time.perf_counter()
        client.list_jobs()
        jobs.append(time.perf_counter() - began)
    report.add("job_rows_first_page_p50", 1000 * statistics.median(first), "ms", times)
    report.add("job_rows_all_p50", statistics.median(rows), "s", times)
    report.add("jobs_whole_p50", statistics.median(jobs), "s", times)


def main() -> None:
    report = Report()
    with LocalCluster(masters=1, agents=1) as cluster, cluster.client(timeout_s=120) as client:
        fill(client, 200 if report.smoke else 10_000)
        first_page(report, client)
        for name, words in (("table", ()), ("json", ("-o", "json")), ("yaml", ("-o", "yaml"))):
            printed(report, cluster, name, *words)


if __name__ == "__main__":
    main()
