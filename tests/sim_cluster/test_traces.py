"""Each format is read into the jobs and nodes that it means, and what cannot be read says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.config import ConfigError
from gosched.core.resources import Resources
from gosched.sim.cluster.traces import Processors, read_nodes, read_trace
from tests.sim_cluster.support import SHARED

SWF_LINE = "{n} {submit} -1 {run} {procs} -1 -1 {asked} {time} -1 1 {user} -1 -1 0 -1 -1 -1"


def swf(n: int = 1, submit: int = 0, run: int = 100, procs: int = 4, asked: int = -1, time: int = -1, user: int = -1):
    return SWF_LINE.format(n=n, submit=submit, run=run, procs=procs, asked=asked, time=time, user=user)


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_swf_alone_brings_one_node_and_jobs_of_one_task(tmp_path: Path) -> None:
    trace = read_trace(
        write(tmp_path, "a.swf", "; MaxProcs: 8", "", swf(submit=5, user=7), swf(n=2, asked=2, time=300))
    )
    assert [node.capacity.cpu_millis for node in trace.nodes] == [8000]
    second, first = trace.jobs
    assert (first.at_ms, first.duration_ms, first.spec.tenant) == (5000, 100_000, "u7")
    assert [group.resources.cpu_millis for group in first.spec.groups] == [4000]
    assert (second.spec.demand.cpu_millis, second.spec.timeout_ms) == (2000, 300_000)
    assert first.spec.timeout_ms == 100_000, "without a requested time it is the run time"


def test_swf_with_nodes_is_gangs_of_tasks_of_one_cpu(tmp_path: Path) -> None:
    path = write(tmp_path, "a.swf", swf())
    trace = read_trace(path, processors=Processors(nodes=2, cpus_per_node=3))
    assert [node.capacity.cpu_millis for node in trace.nodes] == [3000, 3000]
    assert trace.jobs[0].spec.task_count == 4


def test_swf_jobs_that_never_ran_are_counted(tmp_path: Path) -> None:
    lines = ["; MaxProcs: 8", swf(run=-1), swf(procs=-1), swf(run=-1), swf()]
    trace = read_trace(write(tmp_path, "a.swf", *lines))
    assert len(trace.jobs) == 1
    assert trace.left_out == (("no processors", 1), ("no run time", 2))


def test_openb_pods_choose_models_and_share_gpus(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        "a,1000,1024,1,460,V100M16|T4,LS,Running,10,50,20",
        "b,1000,1024,2,1000,,LS,Running,30,,",
    )
    shared, endless = read_trace(path).jobs
    group = shared.spec.groups[0]
    assert group.resources == Resources(cpu_millis=1000, memory_bytes=1 << 30, gpu_millis=460)
    assert group.affinity[0].values == ("T4", "V100M16")
    assert (shared.at_ms, shared.duration_ms) == (10_000, 30_000)
    assert endless.duration_ms is None


def test_an_openb_list_without_times_never_leaves(tmp_path: Path) -> None:
    path = write(tmp_path, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli", "a,1,1,0,0", "b,1,1,0,0")
    assert [(job.at_ms, job.duration_ms) for job in read_trace(path).jobs] == [(0, None), (1000, None)]


def test_swim_jobs_are_gangs_of_maps_and_reducers(tmp_path: Path) -> None:
    read, shuffled, written = 3 * (128 << 20), 1 << 30, 0
    path = write(tmp_path, "a.tsv", f"job0\t49\t49\t{read}\t{shuffled}\t{written}", "job1\t60\t11\t0\t0\t5")
    big, small = read_trace(path).jobs
    assert [(group.name, group.count) for group in big.spec.groups] == [("map", 3), ("reduce", 1)]
    assert big.duration_ms == 10_000 + (read + shuffled) * 1000 // (4 * (20 << 20))
    assert [(group.name, group.count) for group in small.spec.groups] == [("map", 1)]


def test_a_yaml_trace_holds_job_files(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.yaml",
        "- {at: 10s, duration: 5m, checkpoint: 20s, job: {name: train, count: 8, resources: {gpu: 1}}}",
        "- {duration: never, job: {name: service, run: serve}}",
    )
    service, train = read_trace(path).jobs
    assert (train.at_ms, train.duration_ms, train.checkpoint_ms, train.spec.task_count) == (10_000, 300_000, 20_000, 8)
    assert (service.at_ms, service.duration_ms) == (0, None)


def test_nodes_of_a_count_are_numbered_and_have_models() -> None:
    first, second, alone = read_nodes(
        "- {count: 2, name: gpu, cpu: 8, memory: 64Gi, gpu: h100:2, labels: {rack: r1}, fpga: 3}\n"
        "- {name: one, cpu: 4, memory: 1Gi}",
        "n.yaml",
    )
    assert [first.node_id, second.node_id, alone.node_id] == ["gpu-0", "gpu-1", "one"]
    assert (first.gpu_model, first.capacity.gpu_millis, first.labels) == ("h100", 2000, (("rack", "r1"),))
    assert first.capacity.custom == (("fpga", 3),)


@pytest.mark.parametrize(
    ("name", "lines", "says"),
    [
        ("a.swf", ["; MaxProcs: 8", "1 2 3"], "a.swf:2: 3 fields; a job of this format has 18"),
        ("a.swf", [swf()], "neither MaxProcs nor MaxNodes"),
        ("a.swf", ["; MaxProcs: 8", swf().replace("100", "soon")], "a.swf:2: expected a whole number for field 4"),
        ("a.csv", ["name,cpu_milli"], "a.csv:1: the first line names no column memory_mib"),
        ("a.csv", ["name,cpu_milli,memory_mib,num_gpu,gpu_milli", "a,x,1,1,1"], "a.csv:2: expected a whole number"),
        ("a.tsv", ["job0 1 2"], "a.tsv:1: 1 fields between tabs"),
        ("a.tsv", ["job0\t1\t2\t3\t4\t-5"], "a.tsv:1: expected a whole number in field 6, got '-5'"),
        ("a.yaml", ["- {at: 1s, duratoin: 5m, job: {name: a}}"], 'a.yaml:1: duratoin: unknown key (did you mean "dura'),
        ("a.yaml", ["- {at: 1s, job: {name: a}}"], 'a.yaml:1: needs "duration"'),
        ("a.yaml", ["-", "  duration: 1m", "  job:", "    name: a", "    cout: 2"], "a.yaml:5: cout: unknown key"),
        ("a.yaml", ["- {at: 10, duration: 5m, job: {name: a}}"], "a.yaml:1: at: expected a duration with a unit"),
        ("a.txt", ["x"], "Say so with --format"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, name: str, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_trace(write(tmp_path, name, *lines))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- {name: a}", 'n.yaml:1: needs "cpu"'),
        ("- {name: a, cpu: 1, gpu: 0.5}", "n.yaml:1: gpu: a node has whole GPUs"),
        ("- {name: a, cpu: 1}\n- {name: a, cpu: 1}", "two nodes have the name a"),
        ("- {name: a, cpu: 1, count: 0}", "n.yaml:1: count: expected 1 to"),
        ("name: a", "expected one YAML list"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,one,T4", "n.yaml:2: expected a whole number for gpu"),
    ],
)
def test_a_bad_node_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_nodes(text, "n.yaml")
    assert says in str(error.value)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real traces are not here")
@pytest.mark.parametrize(
    ("path", "jobs"),
    [
        ("swf/lublin_256.swf", 10_000),
        ("swim/FB-2009_samples_24_times_1hr_0.tsv", 5894),
        ("openb/openb_pod_list_default.csv", 8152),
    ],
)
def test_the_real_traces_are_read_whole(path: str, jobs: int) -> None:
    assert len(read_trace(SHARED / path).jobs) == jobs
