"""The agent's tree of cgroups on this machine's own kernel. Needs root and cgroup v2, with or without controllers."""

import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.cgroups.files import CgroupError, read
from gosched.agent.cgroups.tree import CgroupTree
from gosched.agent.supervisor.control_group import CLONE3
from gosched.core.records.usage import NO_USAGE, Usage
from tests.agent.conftest import LIMIT_S, set_frozen, wait_for

# Forks away twice into sessions of their own and ends: what remains is nobody's child.
DAEMONS = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
"""

# With the number of clone3(2) that it uses; says where its child is before and after `join`, and where it is itself.
PARENT = """
import os, sys
from gosched.agent.supervisor import control_group as module
path, module.CLONE3 = sys.argv[1], int(sys.argv[2])
there = lambda: module.cgroup_of(os.getpid()) == path
group = module.ControlGroup(path)
pid = group.fork()
if pid == 0:
    before = there()
    group.join()
    os._exit(before << 1 | there())
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), there())
"""


@pytest.fixture
def tree(tmp_path):
    found = open_tree(f"test-{secrets.token_hex(4)}", tmp_path)
    yield found
    end(found)


def open_tree(name, data_dir):
    found = CgroupTree.open("", name, data_dir)
    assert found.root is not None, found.isolation
    return found


def end(tree):
    """And nothing is left."""
    for name in tree.names():
        with suppress(CgroupError):
            set_frozen(tree.path(name), False)
        cgroup_files.kill(tree.path(name))
        assert cgroup_files.remove(tree.path(name), LIMIT_S)
    wait_for(lambda: not cgroup_files.is_populated(tree.root))
    tree.close()
    assert not tree.root.exists()


def start_in(path, *command):
    """Born in the cgroup, as a supervisor's child is."""
    enter = f"open({str(path / 'cgroup.procs')!r}, 'w').write('0')"
    line = f"import os, sys; {enter}; os.execvp(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", line, *command])
    wait_for(lambda: cgroup_files.is_populated(path))
    return process


def test_what_the_kernel_does_not_enforce_is_said(tree):
    there = read(tree.root.parent / "cgroup.controllers").split()
    for name in ("cpu", "cpuset", "io", "memory", "pids"):
        assert (name in tree.controllers) == (name in there)
        assert (name in tree.isolation) != (name in tree.controllers)


@pytest.mark.parametrize(
    ("clone3", "in_it"),
    [
        pytest.param(CLONE3, 0b11, id="born in it"),
        pytest.param(0x7FFF, 0b01, id="moved into it, as the kernel does not know the call"),
    ],
)
def test_the_child_of_a_supervisor_is_in_the_cgroup_before_it_is_the_task(tree, clone3, in_it):
    path = tree.create("one", {})
    words = [sys.executable, "-c", PARENT, str(path), str(clone3)]
    child, parent = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout.split()
    assert (int(child), parent) == (in_it, "False")


def test_inner_cgroups_hold_no_process(tree):
    path = tree.create("one", {})
    task = start_in(path, "sleep", "600")
    helper = subprocess.Popen(["sleep", "600"])
    try:
        tree.enter_own_leaf(helper.pid)
        assert read(tree.root / "agent" / "cgroup.procs").split() == [str(helper.pid)]
        assert read(path / "cgroup.procs").split() == [str(task.pid)]
        assert read(tree.root / "cgroup.procs") == read(tree.tasks / "cgroup.procs") == ""
    finally:
        helper.kill()
        helper.wait()
        cgroup_files.kill(path)
        task.wait()


def test_a_frozen_task_stands_still_until_it_is_thawed(tree):
    path = tree.create("busy", {})
    process = start_in(path, sys.executable, "-c", "while True: pass")
    set_frozen(path, True)
    used = cgroup_files.counted(path)["cpu_ms"]
    time.sleep(0.2)
    assert cgroup_files.counted(path)["cpu_ms"] - used <= 1
    set_frozen(path, False)
    wait_for(lambda: cgroup_files.counted(path)["cpu_ms"] >= used + 50)
    cgroup_files.kill(path)
    assert process.wait() == -9


def test_daemons_of_a_frozen_task_are_killed_with_it(tree):
    path = tree.create("daemons", {})
    process = start_in(path, sys.executable, "-c", DAEMONS)
    process.wait()
    wait_for(lambda: len(read(path / "cgroup.procs").split()) == 2)
    set_frozen(path, True)
    assert not cgroup_files.remove(path, 0.05)
    cgroup_files.kill(path)
    assert cgroup_files.remove(path, LIMIT_S)
    assert not path.exists()
    assert tree.names() == []


def test_a_kernel_without_cgroup_kill_is_helped(tree, monkeypatch):
    path = tree.create("old", {})
    inner = path / "inner"
    inner.mkdir()
    processes = [start_in(path, "sleep", "600"), start_in(inner, "sleep", "600")]
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda file: not str(file).endswith("cgroup.kill") and real(file))
    cgroup_files.kill(path)
    assert not cgroup_files.is_populated(path)
    assert [process.wait() for process in processes] == [-9, -9]


def test_what_a_task_made_below_its_cgroup_goes_with_it(tree):
    path = tree.create("nested", {})
    (path / "a" / "b").mkdir(parents=True)
    assert cgroup_files.remove(path, 1)
    assert cgroup_files.remove(path, 1)  # again: nothing to do


def test_a_cgroup_removed_behind_the_agents_back_is_an_empty_one(tree):
    path = tree.create("gone", {})
    path.rmdir()
    assert Usage(**cgroup_files.counted(path)) == NO_USAGE
    assert not cgroup_files.is_populated(path)
    cgroup_files.kill(path)
    assert cgroup_files.remove(path, 1)
    with pytest.raises(CgroupError, match=r"cannot write '1' to .*cgroup\.freeze: No such file or directory"):
        set_frozen(path, True)


def test_a_name_is_taken_only_while_processes_are_in_it(tree):
    path = tree.create("again", {})
    assert tree.create("again", {}) == path
    process = start_in(path, "sleep", "600")
    with pytest.raises(CgroupError, match="is there already, with processes in it"):
        tree.create("again", {})
    cgroup_files.kill(path)
    process.wait()
    wait_for(lambda: not cgroup_files.is_populated(path))
    assert tree.create("again", {}) == path


def test_a_value_that_the_kernel_refuses_leaves_no_cgroup(tree):
    with pytest.raises(CgroupError, match=r"cannot write 'none' to .*cgroup\.max\.depth: Invalid argument"):
        tree.create("bad", {"cgroup.max.depth": "none"})
    assert tree.names() == []


def test_values_are_there_before_anybody_enters(tree):
    path = tree.create("limited", {"cgroup.max.depth": "3", "cgroup.max.descendants": "7"})
    assert read(path / "cgroup.max.depth") == "3\n"
    assert read(path / "cgroup.max.descendants") == "7\n"


def test_a_tree_with_a_task_in_it_outlives_its_agent(tmp_path):
    name = f"test-{secrets.token_hex(4)}"
    tree = open_tree(name, tmp_path)
    path = tree.create("left", {})
    process = start_in(path, "sleep", "600")
    tree.close()
    again = open_tree(name, tmp_path)
    assert again.names() == ["left"]
    cgroup_files.kill(path)
    process.wait()
    end(again)


def test_a_setting_that_still_holds_the_agent_is_emptied_first(tree, tmp_path):
    """As a container or a delegated unit starts it: in the very cgroup that it is to divide."""
    base = tree.create("unit", {})
    process = start_in(base, "sleep", "600")
    inner = CgroupTree.open(str(base), "n-1", tmp_path)
    assert inner.root == base / "gosched-n-1"
    assert read(base / "cgroup.procs") == ""
    assert read(inner.root / "agent" / "cgroup.procs").split() == [str(process.pid)]
    process.kill()
    process.wait()
    inner.close()


def test_an_agent_without_permission_says_so(tmp_path):
    """Tried by a program that gives up root once it has all it needs to import."""
    line = (
        "import os, pathlib; from gosched.agent.cgroups.tree import CgroupTree; os.setgid(65534); os.setuid(65534);"
        f"found = CgroupTree.open('', 'n-1', pathlib.Path({str(tmp_path)!r})); print(found.root, found.isolation)"
    )
    said = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout
    assert said.startswith("None no permission to make cgroups in ")
    assert "limits are not enforced" in said
