"""Users, limits, images and volumes of a job file: text -> records, and text -> one line."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, parse_job_file
from gosched.core.spec.isolation import PLAIN, Isolation, Network, Pull, Rlimit, Volume
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.core.spec.task_group import Runtime, TaskGroup


def group_of(text: str) -> TaskGroup:
    (spec,) = parse_job_file(f"name: a\nrun: x\n{text}", "f")
    return spec.groups[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", PLAIN),
        ("user: nobody", Isolation(user="nobody")),
        ("user: alice@example.org", Isolation(user="alice@example.org")),
        ("limits: {hugepages: {64Ki: 1Mi}}", Isolation(hugepages=(("64Ki", 1 << 20),))),
        ("umask: 027", Isolation(umask=0o027)),
        ("umask: 0", Isolation(umask=0)),
        (
            "rlimits: {nofile: [1024, 4096], core: 0, memlock: unlimited, stack: 8Mi}",
            Isolation(
                rlimits=(
                    Rlimit(name="core", soft=0, hard=0),
                    Rlimit(name="memlock", soft=-1, hard=-1),
                    Rlimit(name="nofile", soft=1024, hard=4096),
                    Rlimit(name="stack", soft=8 << 20, hard=8 << 20),
                )
            ),
        ),
        ("rlimits: {nofile: [10, unlimited]}", Isolation(rlimits=(Rlimit(name="nofile", soft=10, hard=-1),))),
        ("limits: {cpu: hard}", PLAIN),
        (
            "resources: {memory: 2Gi}\nlimits: {cpu: soft, memory_low: 1Gi, memory_high: 2Gi, swap: 0, pids: 10}",
            Isolation(cpu_soft=True, memory_low_bytes=1 << 30, memory_high_bytes=2 << 30, swap_bytes=0, pids=10),
        ),
        ("limits: {hugepages: {2Mi: 1Gi}}", Isolation(hugepages=(("2Mi", 1 << 30),))),
        (
            "limits: {io: {weight: 10, read: 10Mi, write: 5Mi, reads: 100, writes: 50}}",
            Isolation(io_weight=10, io_read_bytes=10 << 20, io_write_bytes=5 << 20, io_reads=100, io_writes=50),
        ),
        (
            "image: a:1\nvolumes: [{host: /d, to: /e/, mode: ro}, /f:/g]\nnetwork: none\nread_only: true",
            Isolation(
                volumes=(Volume(host="/d", to="/e", read_only=True), Volume(host="/f", to="/g")),
                network=Network.NONE,
                read_only=True,
            ),
        ),
        ("image: a:1\npull: always\nregistry: ours", Isolation(pull=Pull.ALWAYS, registry="ours")),
    ],
)
def test_each_key_reaches_the_spec(text, expected):
    assert group_of(text).isolation == expected


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        ("count: 1", Runtime.PROCESS),
        ("image: debian:12", Runtime.DOCKER),
        ("image: /srv/debian.tar", Runtime.ROOTFS),
        ("image: /srv/debian\nruntime: rootfs", Runtime.ROOTFS),
        ("runtime: spark", Runtime.SPARK),
    ],
)
def test_the_image_says_which_runtime_it_is_of(text, runtime):
    assert group_of(text).runtime is runtime


def test_a_task_goes_only_to_nodes_that_have_its_runtime():
    needs = Affinity(label="gosched.io/runtime.docker", op=LabelOp.EXISTS)
    assert group_of("image: a:1").affinity == (needs,)
    assert group_of("count: 1").affinity == ()
    term = "{label: gosched.io/runtime.docker, op: in, values: [podman]}"
    (own,) = group_of(f"image: a:1\nplacement: {{affinity: {term}}}").affinity
    assert own.values == ("podman",)


def test_text_for_spark_is_words_and_no_line_for_a_shell():
    (spec,) = parse_job_file("name: a\nruntime: spark\nrun: --class org.Pi 'my jar.jar' 10", "f")
    assert spec.groups[0].command == ("--class", "org.Pi", "my jar.jar", "10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user: 1000", "f:3: user: expected the name of a user, as agents allow them by name, got 1000"),
        ("umask: 888", "f:3: umask: expected three octal digits such as 022, got 888"),
        ("rlimits: {nofiles: 1}", 'f:3: rlimits.nofiles: unknown limit (did you mean "nofile"?)'),
        ("rlimits: {nofile: [2, 1]}", "f:3: rlimits.nofile: the soft limit 2 is beyond the hard one, 1"),
        ("rlimits: {nofile: 1Ki}", "f:3: rlimits.nofile: expected a number, unlimited, or"),
        ("rlimits: {core: 1}\nrlimit: 1", 'f:4: rlimit: unknown key (did you mean "rlimits"?)'),
        ("limits: {cpus: soft}", 'f:3: limits.cpus: unknown key (did you mean "cpu"?)'),
        ("limits: {pids: 0}", "f:3: limits.pids: expected at least 1, got 0"),
        ("limits: {hugepages: {4Ti: 1Gi}}", "f:3: limits.hugepages.4Ti: huge pages of '4Ti': give a size such as 2Mi"),
        (
            "limits: {hugepages: {2Mi: 3Mi}}",
            "f:3: limits.hugepages.2Mi: expected whole pages of 2Mi, got 3Mi",
        ),
        ("limits: {io: {weight: 0}}", "f:3: limits.io.weight: expected at least 1"),
        (
            "resources: {memory: 1Gi}\nlimits: {memory_high: 2Gi}",
            "f:4: limits.memory_high: is above resources.memory, where the task is killed: make it lower",
        ),
        (
            "volumes: [{host: /a, to: /b}]",
            "f:3: volumes: does not apply to the runtime process: it sees the node's files anyway; leave volumes out",
        ),
        ("image: a:1\nruntime: process", "f:3: image: does not apply to the runtime process: its command runs on the"),
        ("pull: always", "f:3: pull: does not apply to the runtime process: leave pull out, or use docker"),
        ("network: none", "f:3: network: does not apply to the runtime process: leave network out, or use rootfs or"),
        ("image: a:1\numask: 022", "f:4: umask: does not apply to the runtime docker: Docker has none; set it in"),
        ("runtime: spark\nimage: a:1", "f:4: image: does not apply to the runtime spark"),
        ("image: /a\npull: never", "f:4: pull: does not apply to the runtime rootfs: its image is on the node already"),
        ("runtime: rootfs", "f:3: runtime: rootfs needs an image: say which"),
        ("runtime: docker", "f:3: runtime: docker needs an image: say which"),
        ("runtime: rootfs\nimage: a", "f:4: image: rootfs takes an absolute path on the node, got 'a'"),
        ("runtime: docker\nimage: /a", "f:4: image: docker takes a name such as debian:12; for '/a' use rootfs"),
        ("runtime: podman", "f:3: runtime: expected process, rootfs, docker or spark, got 'podman'"),
        ("image: a:1\nvolumes: [data:/b]", "f:4: volumes[0].host: 'data' must be an absolute path without '..'"),
        ("image: a:1\nvolumes: [/data]", "f:4: volumes[0]: expected host:to, or host:to:ro"),
        ("image: a:1\nvolumes: [/a:/b, /c:/b]", "f:4: volumes[1].to: two volumes go to one place"),
        ("image: a:1\nvolumes: /a:/", "f:4: volumes[0].to: a volume cannot stand in place of the whole root"),
        ("image: a:1\nvolumes: /a:/b/../c", "f:4: volumes[0].to: '/b/../c' must be an absolute path without '..'"),
    ],
)
def test_mistake_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        group_of(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
