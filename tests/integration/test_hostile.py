"""Bad orders and hostile tasks on a real agent: each ends with a clear reason, and nothing of it stays on the node.

docs/operations/hostile-tasks.md is the table of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from gosched.agent.cgroups import files as cgroup_files
from gosched.core.reasons import Reason
from gosched.wire.v1 import worker_pb2
from tests.agent.conftest import NAMES, Agent, wait_for
from tests.integration.bad_orders import BAD_ORDERS, some_rootfs
from tests.integration.containers import UNIFIED, needs
from tests.integration.hostile import Node, kill_all_below
from tests.integration.support import PATIENCE_S


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """Where every user may pass through."""
    needs("setpriv", "crun", "busybox")
    path = Path(tempfile.mkdtemp(prefix="gosched-hostile-"))
    path.chmod(0o755)
    yield path
    kill_all_below(path)
    subprocess.run(["rm", "-rf", path], check=True)


@pytest.fixture(scope="module")
def as_root(ground: Path) -> Iterator[Node]:
    node = Node(ground, "root").start()
    yield node
    node.close()


@pytest.fixture(scope="module")
def as_person(ground: Path) -> Iterator[Node]:
    node = Node(ground, "laptop", laptop=True).start()
    yield node
    node.close()


@pytest.fixture
def node(as_root: Node) -> Iterator[Node]:
    yield as_root
    as_root.end_test()


@pytest.fixture
def laptop(as_person: Node) -> Iterator[Node]:
    yield as_person
    as_person.end_test()


@pytest.fixture(params=["root", "laptop"])
def each(request: pytest.FixtureRequest) -> Node:
    """First with cgroups and users of their own, then without."""
    found: Node = request.getfixturevalue("node" if request.param == "root" else "laptop")
    return found


LONG_GRACE_MS = 600_000  # of what ends when it is asked to: it is not killed because the machine is slow

# What cannot start


@pytest.fixture(scope="module")
def refusals(as_root: Node, ground: Path) -> dict[str, Any]:
    """How each ended, with nothing of any left."""
    sent = {}
    for case, (make, _, _) in BAD_ORDERS.items():
        command, fields = make(ground)
        sent[case] = as_root.send(as_root.order("bad", *command, **fields))
    ends = {case: as_root.end_of(allocation_id) for case, allocation_id in sent.items()}
    as_root.assert_nothing_left()
    return ends


@pytest.mark.parametrize("case", BAD_ORDERS)
def test_an_order_that_cannot_be_done_is_refused_with_its_reason(refusals: dict[str, Any], case: str) -> None:
    _, expected, words = BAD_ORDERS[case]
    end = refusals[case]
    assert (NAMES[end.state], end.exit_code, end.reason) == expected, end
    assert words in end.detail
    assert "\n" not in end.detail
    assert len(end.detail) < 500


def test_a_person_gets_no_other_user_and_no_containers(laptop: Node, ground: Path) -> None:
    other = laptop.send(laptop.order("other", "id", user="daemon"))
    image = laptop.send(laptop.order("image", "sh", runtime="rootfs", image=some_rootfs(ground)))
    assert laptop.outcome(other) == ("FAILED", 125, "USER_NOT_ALLOWED")
    assert laptop.outcome(image) == ("FAILED", 125, "RUNTIME_NOT_SUPPORTED")
    assert "not root" in laptop.end_of(image).detail


# What does not want to end


def perl(script: str) -> tuple[str, ...]:
    """Which every Debian has, and everybody may use."""
    return ("perl", "-e", script)


STUBBORN = "trap '' TERM HUP INT; while :; do sleep 1; done"
# In a session of its own and nobody's child, one of them without the mark in its environment.
DAEMONS = (
    f'D="{STUBBORN}"; for n in 1 2 3; do (setsid sh -c "$D" $GOSCHED_ALLOCATION_ID &) ; done;'
    ' (cd /; env -i PATH=$PATH setsid sh -c "$D" $GOSCHED_ALLOCATION_ID &);'
)
MARKED_DAEMONS = DAEMONS.replace("env -i PATH=$PATH ", "")


def await_processes(node: Node, allocation_id: str, count: int) -> None:
    def there() -> bool:
        return sum(trace.startswith("process") for trace in node.traces(allocation_id)) >= count

    wait_for(there, why=str(node.traces(allocation_id)))


def test_a_task_that_ignores_sigterm_and_has_daemons_is_killed_whole(each: Node) -> None:
    task = each.run("stubborn", f"{DAEMONS} trap '' TERM; echo so; {STUBBORN}")
    each.said(task, b"so")
    await_processes(each, task, 6)
    each.agent.stop(task, 200)
    assert each.outcome(task) == ("KILLED", 137, "CANCELLED")


def test_a_task_that_closes_its_output_runs_on_and_its_end_is_seen(each: Node) -> None:
    task = each.run("silent", "exec >&- 2>&-; sleep 0.3; exit 3")
    assert each.outcome(task) == ("FAILED", 3, "NONZERO_EXIT")


def test_daemons_that_hold_its_output_open_keep_no_task_from_its_end(each: Node) -> None:
    task = each.run("daemons", f"{DAEMONS} sleep 0.2; exit 3")
    assert each.outcome(task) == ("FAILED", 3, "NONZERO_EXIT"), each.end_of(task)


def test_zombies_go_with_their_task(each: Node) -> None:
    task = each.run("zombies", *perl("$| = 1; for (1..100) { fork or exit } print 'made'; sleep 600"))
    each.said(task, b"made")
    zombies = each.main_process(task).children()
    wait_for(lambda: [zombie.status() for zombie in zombies] == ["zombie"] * 100)
    each.agent.stop(task, LONG_GRACE_MS)
    assert each.outcome(task) == ("KILLED", 143, "CANCELLED")
    assert not any(zombie.is_running() for zombie in zombies)


@pytest.mark.parametrize("killed", ["by order", "with its supervisor"])
def test_a_fork_bomb_ends_when_its_task_does(each: Node, killed: str) -> None:
    """On this host no cgroup bounds it: a limit of its user does."""
    bomb = "while (1) { defined(fork) or select(undef, undef, undef, 0.01) }"
    limit = [{"name": "nproc", "soft": 150, "hard": 150}]
    user = {} if each.laptop else {"user": "games"}
    task = each.run("bomb", *perl(bomb), rlimits=limit, **user)
    await_processes(each, task, 20)
    if killed == "by order":
        each.agent.stop(task, 0)
    else:
        each.supervisor(task).kill()
    end = each.end_of(task)
    assert end.reason == ("CANCELLED" if killed == "by order" else "SUPERVISOR_LOST")
    assert "could not" not in end.detail


@pytest.mark.parametrize("target", ["$$", "0"])
def test_a_task_that_stops_itself_is_ended(each: Node, target: str) -> None:
    task = each.run("still", f"echo so; kill -STOP {target}; sleep 600")
    each.said(task, b"so")
    wait_for(lambda: each.main_process(task).status() == "stopped")
    each.agent.stop(task, 200)
    assert each.outcome(task) == ("KILLED", 137, "CANCELLED")


def test_a_name_that_looks_like_fields_of_proc_fools_nobody(each: Node) -> None:
    """Who is whose child is read there: here, which process to ask to save itself."""
    line = "trap 'echo saving; touch $GOSCHED_CHECKPOINT_FILE' USR1; while :; do sleep 0.05; done"
    task = each.run("name", f"printf ') R 1 (\\n) S 1' > /proc/self/comm; printf ') R 1 (' > /proc/$$/comm; {line}")
    wait_for(lambda: ") R 1" in each.main_process(task).name())
    stop = worker_pb2.StopOrder(
        allocation_id=task,
        grace_ms=200,
        reason="CANCELLED",
        checkpoint_signal=signal.SIGUSR1,
        checkpoint_ms=3_600_000,  # it does not end before it has saved itself
    )
    me = each.agent.identity
    each.agent.call(
        "StopTasks",
        worker_pb2.StopTasksRequest(epoch=1, node_id=me.node_id, incarnation=me.incarnation, orders=[stop]),
    )
    assert each.outcome(task)[::2] == ("KILLED", "CANCELLED")
    assert "saving" in each.stdout(task)


@pytest.mark.parametrize("make", ["mkdir", "mkfifo", "ln -s /etc/passwd"])
def test_a_checkpoint_that_is_no_file_holds_nobody_up(each: Node, make: str) -> None:
    task = each.run("odd", f"{make} $GOSCHED_CHECKPOINT_FILE; echo made; sleep 600")
    each.await_running(task)
    wait_for(lambda: each.master.seen(task).checkpoint_at_ms > 0)
    each.agent.stop(task, LONG_GRACE_MS)
    assert each.outcome(task) == ("KILLED", 143, "CANCELLED")


# What is killed behind the agent's back


def test_a_killed_supervisor_leaves_nothing_of_its_task(each: Node) -> None:
    task = each.run("orphan", f"{MARKED_DAEMONS if each.laptop else DAEMONS} {STUBBORN}")
    await_processes(each, task, 6)
    each.supervisor(task).kill()
    assert each.outcome(task) == ("LOST", None, "SUPERVISOR_LOST")


def test_a_killed_supervisor_and_nursery_leave_nothing_and_the_next_task_runs(each: Node) -> None:
    task = each.run("both", f"{MARKED_DAEMONS if each.laptop else DAEMONS} {STUBBORN}")
    await_processes(each, task, 6)
    for process in (each.nursery(), each.supervisor(task)):
        process.kill()
    assert each.outcome(task) == ("LOST", None, "SUPERVISOR_LOST")
    assert each.outcome(each.run("next", "exit 4")) == ("FAILED", 4, "NONZERO_EXIT")


def test_agent_nursery_and_supervisor_killed_at_once_leave_nothing(each: Node) -> None:
    task = each.run("all", f"{MARKED_DAEMONS if each.laptop else DAEMONS} {STUBBORN}")
    kept = each.run("kept", "sleep 600")
    each.await_running(task)
    each.await_running(kept)
    await_processes(each, task, 6)
    victims = [each.nursery(), each.supervisor(task)]
    each.agent.end(signal.SIGKILL)
    for process in victims:
        with contextlib.suppress(psutil.NoSuchProcess):  # the nursery ends with its agent
            process.kill()
    each.start()
    assert each.outcome(task) == ("LOST", None, "SUPERVISOR_LOST")
    each.await_running(kept)
    each.agent.stop(kept, LONG_GRACE_MS)
    assert each.outcome(kept) == ("KILLED", 143, "CANCELLED")


def test_a_second_agent_on_the_directory_is_refused_and_harms_nothing(node: Node) -> None:
    task = node.run("kept", "until [ -e go ]; do sleep 0.05; done; exit 5")
    node.await_running(task)
    second = Agent(node.agent.data_dir, node.master.address, *node.agent.flags)
    second.launch()
    assert second.exit_code() == 2
    assert "another agent uses the data directory" in second.lines[-1]
    (node.agent.spool(task) / "work" / "go").touch()
    assert node.outcome(task) == ("FAILED", 5, "NONZERO_EXIT")


def test_a_cgroup_that_is_removed_before_the_start_is_the_reason(node: Node) -> None:
    node.outcome(node.run("warm", "true"))
    node.nursery().send_signal(signal.SIGSTOP)
    order = node.order("removed", "/bin/sleep", "600")
    node.ordered.append(order.allocation_id)
    with ThreadPoolExecutor(1) as pool:
        ordering = pool.submit(node.agent.run, order)
        wait_for(lambda: node.record(order.allocation_id, "launch.json"))  # the last before the nursery is asked
        node.cgroup(order.allocation_id).rmdir()
        node.nursery().send_signal(signal.SIGCONT)
        ordering.result(PATIENCE_S)
    assert node.outcome(order.allocation_id) == ("FAILED", 125, "CGROUP_LOST")
    end = node.end_of(order.allocation_id)
    assert "cannot join the cgroup" in end.detail
    assert end.blames_node


def test_a_cgroup_that_is_removed_while_its_task_runs_takes_nothing_from_the_end(node: Node) -> None:
    """As when the task itself, allowed to be root, leaves it."""
    assert UNIFIED is not None, "there is no cgroup v2 here"
    task = node.run("leaving", f"{DAEMONS} trap '' TERM; echo so; {STUBBORN}")
    node.said(task, b"so")
    await_processes(node, task, 6)
    cgroup = node.cgroup(task)
    while pids := (cgroup / "cgroup.procs").read_text().split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (UNIFIED / "cgroup.procs").write_text(pid)
    assert cgroup_files.remove(cgroup, PATIENCE_S)
    node.await_running(task)
    node.agent.set_frozen(task, True)
    wait_for(lambda: node.master.seen(task).frozen)
    wait_for(lambda: node.main_process(task).status() == "stopped")
    node.agent.set_frozen(task, False)
    wait_for(lambda: not node.master.seen(task).frozen)
    node.agent.stop(task, 200)
    assert node.outcome(task) == ("KILLED", 137, "CANCELLED")


def test_the_cgroup_of_all_tasks_is_made_again_when_somebody_has_removed_it(node: Node) -> None:
    (tree,) = node.tree()
    (tree / "tasks").rmdir()
    assert node.outcome(node.run("again", "grep -q gosched /proc/self/cgroup")) == ("SUCCEEDED", 0, "")


def test_a_supervisor_that_its_task_has_stopped_goes_on_when_it_is_needed(laptop: Node) -> None:
    """Same user: the task may signal it."""
    task = laptop.run("stopper", f"trap '' TERM; kill -STOP $PPID; {STUBBORN}")
    wait_for(lambda: laptop.supervisor(task).status() == "stopped")
    laptop.agent.stop(task, 200)
    assert laptop.outcome(task) == ("KILLED", 137, "CANCELLED")


def test_a_task_that_removes_its_own_record_is_lost_and_gone(laptop: Node) -> None:
    """Same user: it may."""
    task = laptop.run("eraser", f"{MARKED_DAEMONS} cd /; rm -rf {laptop.agent.data_dir}/tasks/*; exit 6")
    assert laptop.outcome(task)[0] in ("LOST", "FAILED")


# What fills the node


def heartbeats_during(node: Node, seconds: float) -> int:
    before = len(node.master.heartbeats)
    time.sleep(seconds)
    return len(node.master.heartbeats) - before


def test_binary_at_full_speed_stays_within_the_cap_and_disturbs_nobody(each: Node) -> None:
    task = each.run("flood", "exec dd if=/dev/urandom bs=1M")
    each.await_running(task)
    supervisor = each.supervisor(task)
    # Not in the first three seconds, if the machine stands still just then.
    wait_for(lambda: heartbeats_during(each, 3) >= 9, limit_s=PATIENCE_S)
    assert logged_bytes(each, task, "std*") <= 2 << 20
    assert logged_bytes(each, task, "times-*") <= 1 << 19
    assert supervisor.memory_info().rss < 40 << 20
    assert supervisor.memory_full_info().uss < 8 << 20
    each.agent.stop(task, 0)
    assert each.outcome(task)[0] == "KILLED"


def logged_bytes(node: Node, allocation_id: str, files: str) -> int:
    total = 0
    for path in (node.agent.spool(allocation_id) / "logs").glob(files):
        with contextlib.suppress(FileNotFoundError):  # the oldest goes when a new one comes
            total += path.stat().st_size
    return total


def test_a_million_lines_and_a_line_of_100_mb_pass_through(each: Node) -> None:
    lines = each.run("lines", "seq 1000000")
    line = each.run("line", "head -c 100000000 /dev/zero | tr '\\0' x; echo end")
    assert each.outcome(lines)[0] == "SUCCEEDED"
    assert each.outcome(line)[0] == "SUCCEEDED"
    assert each.stdout(lines).endswith("\n999999\n1000000\n")
    assert each.stdout(line).endswith("xxxend\n")
    assert len(each.stdout(line)) <= 2 << 20


FILL: dict[str, str] = {
    "closed directories": "mkdir -p a/b; touch a/b/c; chmod 0 a/b a; chmod 0 .",
    "links that lead outside": "ln -s {ground}/outside here; ln -s {ground}/outside/file; ln -s / root",
    "odd names": "touch -- -rf '*' 'a\nb' $(printf 'x\\377') ' '; mkdir -- -r",
    "sockets and pipes": "mkfifo pipe; touch file; chmod 000 file",
}


@pytest.mark.parametrize("what", FILL)
def test_whatever_a_task_leaves_in_its_directory_is_removed(each: Node, ground: Path, what: str) -> None:
    outside = ground / "outside"
    outside.mkdir(exist_ok=True, mode=0o777)
    (outside / "file").write_text("precious")
    task = each.run("filler", FILL[what].format(ground=ground))
    assert each.outcome(task)[0] == "SUCCEEDED"
    each.assert_nothing_left()
    assert (outside / "file").read_text() == "precious"


def test_a_deep_and_a_wide_directory_are_removed(each: Node) -> None:
    deep = each.run("deep", *perl("for (1..3000) { mkdir 'd' x 200 and chdir 'd' x 200 or die $! }"))
    wide = each.run("wide", *perl("for (1..50000) { open(my $f, '>', $_) or die $! }"))
    assert each.outcome(deep)[0] == "SUCCEEDED"
    assert each.outcome(wide)[0] == "SUCCEEDED"


# What looks where it should not

SNOOP = """
out() { if "$@" > /dev/null 2>&1; then echo "LEAK: $*"; fi; }
out kill -9 $PPID
out kill -STOP $PPID
out cat ../launch.json
out cat ../order
out ls ..
out ls ../logs
out ls ../..
out ls ../../..
out cat ../../../node_id
out cat ../../../lease
out cat ../../OTHER/launch.json
out cat ../../OTHER/order
out ls ../../OTHER/work
out cat ../../OTHER/work/secret
out cat /proc/$PPID/environ
out cat /proc/OTHER_PID/environ
out ls /proc/OTHER_PID/fd
out kill -9 OTHER_PID
out touch ../here
out mv . ../there
out sh -c 'echo 0 > TREE/cgroup.procs'
out sh -c 'echo 0 > TREE/agent/cgroup.procs'
out sh -c 'echo 0 > TREE/tasks/OTHER/cgroup.procs'
out sh -c 'echo 1 > TREE/tasks/OTHER/cgroup.kill'
out sh -c 'echo max > TREE/tasks/*/cgroup.max.depth'
out mkdir TREE/tasks/mine
out rmdir TREE/tasks/OTHER
out SETUID
kill -9 -1
echo over
"""


def test_a_start_tells_nobody_of_commands_in_directories_that_are_closed_to_them(node: Node, ground: Path) -> None:
    closed = ground / "tools"
    closed.mkdir(mode=0o700)
    shutil.copy("/bin/true", closed / "tool-a")
    ends = [node.end_of(node.send(node.order("look", str(closed / name)))) for name in ("tool-a", "tool-b")]
    assert ends[0].reason == ends[1].reason
    assert ends[0].detail.replace("tool-a", "") == ends[1].detail.replace("tool-b", "")


def _setuid(ground: Path) -> Path:
    path = ground / "setuid-id"
    shutil.copy("/usr/bin/id", path)
    path.chmod(0o4755)
    return path


def test_another_users_task_reaches_neither_supervisor_nor_orders_nor_other_tasks(node: Node, ground: Path) -> None:
    setuid = _setuid(ground)
    other = node.run("other", "echo precious > secret; sleep 600", env={"PASSWORD": "precious"})
    node.await_running(other)
    wait_for((node.agent.spool(other) / "work" / "secret").exists)
    (tree,) = node.tree()
    script = SNOOP.replace("TREE", str(tree)).replace("OTHER_PID", str(node.main_process(other).pid))
    script = script.replace("OTHER", node.agent.spool(other).name)
    script = script.replace("SETUID", f"sh -c 'test $({setuid} -u) = 0'")
    snoop = node.run("snoop", script, user="games")
    assert node.outcome(snoop)[0] == "SUCCEEDED"
    assert node.stdout(snoop) == "over\n"
    assert NAMES[node.master.seen(other).state] == "RUNNING"
    node.agent.stop(other, 0)


def test_a_setuid_program_gives_nothing(each: Node, ground: Path) -> None:
    setuid = _setuid(ground)
    task = each.run("setuid", f"{setuid} -u; grep NoNewPrivs /proc/self/status")
    assert each.outcome(task)[0] == "SUCCEEDED"
    assert each.stdout(task).split() == ["65534", "NoNewPrivs:", "1"]


def test_an_agent_whose_users_cannot_enter_its_data_directory_says_so_and_does_not_start(ground: Path) -> None:
    """Else each of their tasks would fail, with BAD_WORKING_DIR."""
    shut = ground / "shut"
    shut.mkdir(mode=0o700, exist_ok=True)
    node = Node(shut, "agent")
    node.agent.launch()
    assert node.agent.exit_code() == 2
    assert f"user daemon, as whom tasks run here, cannot pass through {shut} (mode 700)" in node.agent.lines[-1]
    assert f"chmod o+x {shut}, or choose another directory with --data-dir" in node.agent.lines[-1]
    shut.chmod(0o711)
    os.chown(shut, 65534, 65534)
    node.agent.launch()
    assert node.agent.exit_code() == 2
    assert f"users other than root can change {shut}" in node.agent.lines[-1]
    os.chown(shut, 0, 0)
    node.start()
    assert node.outcome(node.run("now", "exit 3", user="daemon")) == ("FAILED", 3, "NONZERO_EXIT")
    node.close()


# What finds no room


@contextlib.contextmanager
def disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "hostile", path], check=True)
    try:
        yield path
    finally:
        kill_all_below(path)
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path: Path) -> None:
    with (path / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def await_fitness(node: Node, words: str) -> None:
    """It looks every five seconds. Without words: until it is fit."""

    def is_so() -> bool:
        unfit: str = node.master.heartbeats[-1].unfit
        return unfit.startswith(words) if words else not unfit

    wait_for(is_so, limit_s=PATIENCE_S, why=f"it says {words!r}")


def test_an_agent_on_a_full_disk_says_so_and_does_not_start(ground: Path) -> None:
    with disk(ground / "full", "256k") as path:
        fill(path)
        node = Node(ground, "full")
        node.agent.launch()
        assert node.agent.exit_code() == 2
        node.close()
        assert "No space left on device" in node.agent.lines[-1]
        assert not any("Traceback" in line for line in node.agent.lines)


def test_a_node_with_a_full_disk_refuses_work_loses_no_result_and_works_again(ground: Path) -> None:
    with disk(ground / "small", "8m"):
        node = Node(ground, "small", log_max="16Mi").start()
        by_log = node.run("log", "head -c 30000000 /dev/zero; exit 8")
        assert node.outcome(by_log) == ("FAILED", 8, "NONZERO_EXIT")
        node.assert_nothing_left()

        running = node.run("running", "sleep 600")  # before there is no room for its order
        node.await_running(running)
        by_file = node.run("file", "dd if=/dev/zero of=big bs=4k; echo it says $?; exit 9")
        assert node.outcome(by_file) == ("FAILED", 9, "NONZERO_EXIT")
        await_fitness(node, "disk pressure: 0 % free")
        refused = node.run("refused", "true")
        assert node.outcome(refused) == ("LOST", None, Reason.NODE_FAULT)
        end = node.end_of(refused)
        assert end.blames_node
        assert "No space left on device" in end.detail

        node.ordered.remove(refused)  # there was no room to keep it for the next agent
        node.agent.end(signal.SIGKILL)
        node.start()
        assert node.outcome(by_file) == ("FAILED", 9, "NONZERO_EXIT")
        node.await_running(running)
        node.agent.stop(running, LONG_GRACE_MS)
        assert node.outcome(running) == ("KILLED", 143, "CANCELLED")

        node.assert_nothing_left()
        await_fitness(node, "")
        assert node.outcome(node.run("again", "exit 3")) == ("FAILED", 3, "NONZERO_EXIT")
        node.assert_nothing_left()
        node.close()
