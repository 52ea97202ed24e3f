"""What the files of a cgroup say, read from files in a directory; the kernel's own are in tests/integration and
tests/vm."""

from pathlib import Path

import pytest

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.cgroups import tree as cgroup_tree
from gosched.agent.cgroups.files import CgroupError, read
from gosched.agent.cgroups.tree import CgroupTree, write_values
from gosched.config.load import load_agent_settings
from gosched.core.records.usage import NO_USAGE, Usage

UNITS = Path(__file__).parents[2] / "deploy/systemd"


def files(path, **contents):
    for name, text in contents.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def test_usage_is_what_the_kernel_counted(tmp_path):
    path = files(
        tmp_path,
        cpu__stat="usage_usec 2500999\nuser_usec 1\nnr_throttled 3\nthrottled_usec 42000\n",
        memory__current="4096\n",
        memory__peak="8192\n",
        memory__events="low 0\nmax 9\noom 1\noom_kill 5\noom_group_kill 1\n",
        io__stat="8:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=0\n259:1 rbytes=11 wbytes=0 rios=1 wios=0\n7:0 \n",
    )
    assert Usage(**cgroup_files.counted(path)) == Usage(
        cpu_ms=2500,
        throttled_ms=42,
        memory_bytes=4096,
        memory_peak_bytes=8192,
        read_bytes=111,
        written_bytes=7,
        oom_kills=5,
    )


def test_what_the_kernel_does_not_count_is_nothing(tmp_path):
    assert Usage(**cgroup_files.counted(files(tmp_path, cpu__stat="usage_usec 1000\n"))) == Usage(cpu_ms=1)
    assert Usage(**cgroup_files.counted(tmp_path / "gone")) == NO_USAGE


def test_pressure_is_what_somebody_waited_for(tmp_path):
    some = "some avg10=12.50 avg60=1.00 avg300=0.20 total=2500000\n"
    full = "full avg10=3.00 avg60=0.00 avg300=0.00 total=1\n"
    path = files(tmp_path, memory__pressure=some + full, io__pressure="some avg10=0.00 avg60=0 avg300=0 total=0\n")
    assert Usage(**cgroup_files.counted(path)) == Usage(memory_stalled_ms=2500)


def test_a_value_that_is_taken_but_not_kept_is_an_error(tmp_path, monkeypatch):
    path = files(tmp_path, memory__max="")
    write_values(path, {"memory.max": "4096"})
    assert read(path / "memory.max").startswith("4096")
    monkeypatch.setattr(cgroup_tree, "write", lambda file, value: None)
    with pytest.raises(CgroupError, match=r"memory\.max says '4096.*' after '900000' was written to it"):
        write_values(path, {"memory.max": "900000"})


def test_without_cgroups_tasks_have_none():
    tree = CgroupTree(root=None, isolation="cgroup v2 is not mounted: no cgroups, so limits are not enforced")
    assert tree.create("a", {"memory.max": "1"}) is None
    assert tree.names() == []
    tree.enter_own_leaf()
    tree.close()
    with pytest.raises(CgroupError, match="cgroup v2 is not mounted"):
        tree.path("a")


def test_a_setting_outside_of_the_hierarchy_is_named(tmp_path):
    tree = CgroupTree.open(str(tmp_path), "n-1", tmp_path)
    assert tree.root is None
    assert tree.isolation.endswith("no cgroups, so limits are not enforced")


def test_the_units_name_the_cgroup_that_the_settings_use():
    settings = load_agent_settings(str(UNITS / "agent.yaml"), {})
    assert settings.cgroup_root == "/sys/fs/cgroup/gosched-tasks.service"
    assert settings.isolation == "required"
    tasks, agent = read(UNITS / "gosched-tasks.service"), read(UNITS / "gosched-agent.service")
    assert {"Slice=-.slice", "Delegate=yes", "OOMPolicy=continue", "ExitType=cgroup"} <= set(tasks.splitlines())
    assert {"Requires=gosched-tasks.service", "KillMode=process"} <= set(agent.splitlines())
