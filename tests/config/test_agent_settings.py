"""What an agent offers and how its node is built: text -> record, and text -> one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.config import AgentSettings, ConfigError, load_agent_settings
from gosched.core.records.node import UNKNOWN_HARDWARE, Hardware
from gosched.core.resources import Resources
from gosched.core.spec.placement_rules import Taint, TaintEffect

FOUND = Resources(cpu_millis=8000, memory_bytes=7)
FOUND_HARDWARE = Hardware(numa_cpus=("0-3", "4-7"), gpu_numa=(0, 1))


def loaded(tmp_path: Path, text: str) -> AgentSettings:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    return load_agent_settings(str(path), {})


def test_agent_flags_are_those_of_the_contract():
    settings = load_agent_settings(
        None,
        {
            "master": "localhost:9090,h:1",
            "labels": "gpu=true,zone=us-east-1a",
            "resources": "cpu=1.5,gpu=2,fpga=3",
            "taints": "gpu=true:no_schedule, maint:no_execute",
        },
    )
    assert settings.masters == ("localhost:9090", "h:1")
    assert settings.labels == (("gpu", "true"), ("zone", "us-east-1a"))
    assert settings.capacity(FOUND) == Resources(
        cpu_millis=1500, memory_bytes=7, gpu_millis=2000, custom=(("fpga", 3),)
    )
    assert settings.taint_records() == (
        Taint(key="gpu", value="true", effect=TaintEffect.NO_SCHEDULE),
        Taint(key="maint", effect=TaintEffect.NO_EXECUTE),
    )


def test_what_is_not_set_is_what_was_found():
    settings = load_agent_settings(None, {})
    assert settings.capacity(FOUND) == FOUND
    assert settings.hardware(Hardware(numa_cpus=("0-7",)), FOUND) == Hardware(numa_cpus=("0-7",))
    assert settings.taint_records() == ()


def test_a_node_is_described_by_its_settings(tmp_path):
    settings = loaded(
        tmp_path,
        "resources: {cpu: 8, gpu: 4, fpga: 2}\n"
        "taints: [{key: gpu, value: true, effect: prefer_no_schedule}, a/b:no_execute, {key: x}]\n"
        "gpu_memory: 80Gi\nnuma: ['0-1,2-3', 4-7]\ngpu_numa: [0, 0, 1, 1]\ngpu_links: [0, 0, 1, 1]",
    )
    assert settings.capacity(FOUND).custom == (("fpga", 2),)
    assert settings.taint_records() == (
        Taint(key="gpu", value="true", effect=TaintEffect.PREFER_NO_SCHEDULE),
        Taint(key="a/b", effect=TaintEffect.NO_EXECUTE),
        Taint(key="x", effect=TaintEffect.NO_SCHEDULE),
    )
    assert settings.hardware(UNKNOWN_HARDWARE, settings.capacity(FOUND)) == Hardware(
        numa_cpus=("0-3", "4-7"), gpu_numa=(0, 0, 1, 1), gpu_links=(0, 0, 1, 1), gpu_memory_bytes=80 * 2**30
    )


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{cpu: 8, gpu: 2}", FOUND_HARDWARE),
        ("{cpu: 2, gpu: 2}", FOUND_HARDWARE),
        ("{cpu: 8, gpu: 4}", Hardware(numa_cpus=("0-3", "4-7"))),
        ("{cpu: 64, gpu: 2}", UNKNOWN_HARDWARE),
    ],
)
def test_a_node_that_offers_more_than_the_machine_has_names_none_of_it(tmp_path, resources, expected):
    settings = loaded(tmp_path, f"resources: {resources}")
    assert settings.hardware(FOUND_HARDWARE, settings.capacity(FOUND)) == expected


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("resources: {memroy: 5Gi}", 1, 'resources.memroy: unknown key (did you mean "memory"?)'),
        ("resources:\n  cpu: 1\n  fpga: 1.5", 3, "resources.fpga: expected a whole number, got 1.5"),
        ("resources: {gpu: 0.5}", 1, "resources.gpu: expected a whole number of GPUs such as 2, got 0.5"),
        ("resources: {gpu: 2000}", 1, "resources.gpu: 2000 GPUs; at most 1024 are allowed"),
        ("resources: {gpu: h100:8}", 1, "resources.gpu: expected a number of GPUs such as 2 or 0.5, got 'h100:8'"),
        ("taints: [gpu]", 1, "taints[0]: expected key=value:effect, such as gpu=true:no_schedule, got 'gpu'"),
        ("taints: [gpu:noschedule]", 1, "taints[0].effect: expected no_schedule, prefer_no_schedule or no_execute"),
        ("taints:\n- {value: a}", 2, 'taints[0]: needs "key"'),
        ("taints: ['=a:no_schedule']", 1, "taints[0].key: expected the key of a label"),
        ("taints: [{key: a, efect: no_execute}]", 1, 'taints[0].efect: unknown key (did you mean "effect"?)'),
        (
            "taints: [a:no_schedule, a=b:no_schedule]",
            1,
            "taints[1]: there is a taint a with effect no_schedule already",
        ),
        ("gpu_memory: 80", 1, "gpu_memory: needs a unit such as 80Mi or 80Gi"),
        ("numa: [0-x]", 1, "numa[0]: '0-x' is not a list of CPUs such as 0-3,8"),
        ("numa: [3-0]", 1, "numa[0]: '3-0': CPUs are numbered upwards"),
        ("numa: ['']", 1, "numa[0]: expected a list of CPUs such as"),
        ("numa: [0-3, 2-5]", 1, "numa[1]: CPU 2-3 is in another NUMA node already"),
        ("gpu_numa: [a]", 1, "gpu_numa[0]: expected a whole number, got 'a'"),
        ("gpu_links: [-1]", 1, "gpu_links[0]: expected at least 0, got -1"),
    ],
)
def test_mistake_is_one_line_with_its_place(tmp_path, text, line, message):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/agent.yaml:{line}: {message}")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("gpu_numa: [0, 0]", 1, "gpu_numa: 2 entries for 0 GPUs: write one for each"),
        ("resources: {gpu: 4}\ngpu_links: [0, 0]", 2, "gpu_links: 2 entries for 4 GPUs: write one for each"),
        (
            "resources: {gpu: 2}\nnuma: [0-3, 4-7]\ngpu_numa: [0, 2]",
            3,
            "gpu_numa: there is no NUMA node 2: they are 0 to 1",
        ),
        (
            "resources: {gpu: 2, cpu: 64}\ngpu_numa: [0, 1]",
            2,
            "gpu_numa: there is no NUMA node 1: name the CPUs of each one with numa",
        ),
        (
            "numa: [0-2]",
            1,
            "numa: names 3 CPUs, and the node offers 8: name them all, or set resources.cpu",
        ),
    ],
)
def test_settings_that_do_not_fit_the_node_are_one_line_with_their_place(tmp_path, text, line, message):
    settings = loaded(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        settings.hardware(FOUND_HARDWARE, settings.capacity(FOUND))
    assert str(caught.value) == f"{tmp_path}/agent.yaml:{line}: {message}"


def test_mistake_in_a_taint_flag_names_it():
    with pytest.raises(ConfigError, match=r"^--taints: expected key=value:effect"):
        load_agent_settings(None, {"taints": "gpu"})


@pytest.mark.parametrize("users", ['{default: "*"}', '{allowed: [alice, "a b"]}'])
def test_tasks_run_as_users_with_a_name(tmp_path, users):
    with pytest.raises(ConfigError, match=r"agent.yaml:1: users\.\S+: expected the name of a user, got '(\*|a b)'$"):
        loaded(tmp_path, f"users: {users}")
    assert loaded(tmp_path, 'users: {allowed: ["*"], default: alice}').users.allowed == ("*",)
