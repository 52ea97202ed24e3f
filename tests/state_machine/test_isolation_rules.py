"""How tasks are kept to themselves: what a spec may ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Code
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation, Network, Pull, Rlimit, Volume
from gosched.core.spec.task_group import Runtime
from tests.state_machine.cluster import Cluster, group, spec


def asking(**fields: object) -> SubmitJob:
    wanted = replace(group(), isolation=Isolation(**fields))  # type: ignore[arg-type]
    return SubmitJob(job_id="j1", spec=spec("a", wanted))


def volume(host: str = "/data", to: str = "/data") -> SubmitJob:
    return asking(volumes=(Volume(host=host, to=to),))


def limit(name: str = "nofile", soft: int = 1, hard: int = 1) -> SubmitJob:
    return asking(rlimits=(Rlimit(name=name, soft=soft, hard=hard),))


BAD = {
    "user 'a\\n'": asking(user="a\n"),
    "registry has 254": asking(registry="x" * 254),
    "umask -1": asking(umask=-1),
    "umask 512 is not between 0 and 511 (0777)": asking(umask=0o1000),
    "memory.low -1": asking(memory_low_bytes=-1),
    "memory.high": asking(memory_high_bytes=1 << 60),
    "swap -1": asking(swap_bytes=-1),
    "pids -1": asking(pids=-1),
    "pids 4194305": asking(pids=(1 << 22) + 1),
    "io.weight 10001 is not between 0 and 10000": asking(io_weight=10_001),
    "io.read -1": asking(io_read_bytes=-1),
    "io.write -1": asking(io_write_bytes=-1),
    "io.reads -1": asking(io_reads=-1),
    "io.writes -1": asking(io_writes=-1),
    "there is no rlimit 'files'; there are as, core,": limit("files"),
    "rlimit nofile must be 0 or more, or -1": limit(soft=-2),
    "rlimit nofile must be": limit(hard=1 << 63),
    "the soft limit 2 is beyond the hard one, 1": limit(soft=2),
    "the soft limit -1 is beyond": limit(soft=-1),
    "rlimits name one twice": asking(rlimits=(Rlimit(name="core", soft=0, hard=0),) * 2),
    "volume host 'data' must be an absolute path": volume("data"),
    "volume to '' must be": volume(to=""),
    "volume to '/a/../b' must be an absolute path without '..'": volume(to="/a/../b"),
    "volume host '/a\\x00'": volume("/a\0"),
    "is too long": volume("/" + "x" * 1024),
    "65 volumes; at most 64": asking(volumes=tuple(Volume(host="/a", to=f"/{i}") for i in range(65))),
    "two volumes go to one place": asking(volumes=(Volume(host="/a", to="/x"), Volume(host="/b", to="/x"))),
    "huge pages of '4Ti'": asking(hugepages=(("4Ti", 1),)),
    "0 bytes of huge pages of 2Mi": asking(hugepages=(("2Mi", 0),)),
    "sizes of huge pages must be sorted": asking(hugepages=(("2Mi", 2 << 20), ("1Gi", 1 << 30))),
    "65 sizes of huge pages": asking(hugepages=tuple((f"{i:03}Mi", i << 20) for i in range(100, 165))),
}


@pytest.mark.parametrize("wrong", BAD, ids=str)
def test_what_cannot_be_is_refused_in_one_line(wrong):
    assert wrong in Cluster().reject(BAD[wrong], Code.INVALID)


def test_paths_count_towards_the_size_of_a_spec():
    many = tuple(Volume(host="/" + "h" * 1000, to=f"/{i}" + "t" * 1000) for i in range(64))
    asking_for = {"runtime": Runtime.DOCKER, "image": "a", "isolation": Isolation(volumes=many)}
    wanted = [replace(group(f"g{i}"), **asking_for) for i in range(3)]
    too_large = SubmitJob(job_id="j1", spec=spec("a", *wanted))
    assert "at most 262144 are allowed" in Cluster().reject(too_large, Code.INVALID)


def test_everything_may_be_asked_for_at_once_that_the_runtime_has_a_use_for():
    everything = Isolation(
        user="alice",
        rlimits=(Rlimit(name="nofile", soft=1024, hard=-1), Rlimit(name="core", soft=-1, hard=-1)),
        volumes=(Volume(host="/data", to="/mnt/data", read_only=True),),
        network=Network.NONE,
        read_only=True,
        cpu_soft=True,
        memory_low_bytes=1,
        memory_high_bytes=2,
        swap_bytes=0,
        pids=100,
        hugepages=(("1Gi", 1 << 30), ("2Mi", 1 << 21)),
        io_weight=10_000,
        io_read_bytes=1,
        io_write_bytes=1,
        io_reads=1,
        io_writes=1,
    )
    rootfs = replace(everything, umask=0)
    docker = replace(everything, pull=Pull.NEVER, registry="main")
    Cluster().submit(
        spec(
            "a",
            replace(group("r"), runtime=Runtime.ROOTFS, image="/srv/debian", isolation=rootfs),
            replace(group("d"), runtime=Runtime.DOCKER, image="debian:12", isolation=docker),
        )
    )


VAIN = {
    "image does not apply to the runtime process: its command runs on the node's own files": {"image": "debian:12"},
    "volumes does not apply to the runtime process": {"isolation": Isolation(volumes=(Volume(host="/a", to="/b"),))},
    "network does not apply to the runtime process": {"isolation": Isolation(network=Network.NONE)},
    "read_only does not apply to the runtime process": {"isolation": Isolation(read_only=True)},
    "pull does not apply to the runtime rootfs": {
        "runtime": Runtime.ROOTFS,
        "image": "/a",
        "isolation": Isolation(pull=Pull.ALWAYS),
    },
    "registry does not apply to the runtime process": {"isolation": Isolation(registry="ours")},
    "umask does not apply to the runtime docker: Docker has none": {
        "runtime": Runtime.DOCKER,
        "image": "a",
        "isolation": Isolation(umask=0),
    },
    "image: rootfs takes an absolute path on the node, got 'a'": {"runtime": Runtime.ROOTFS, "image": "a"},
    "image: docker takes a name such as debian:12; for '/a' use rootfs": {"runtime": Runtime.DOCKER, "image": "/a"},
    "limits.memory_high is above resources.memory, where the task is killed: make it lower": {
        "resources": Resources(memory_bytes=1),
        "isolation": Isolation(memory_high_bytes=2),
    },
    "a volume cannot stand in place of the whole root filesystem": {
        "runtime": Runtime.DOCKER,
        "image": "a",
        "isolation": Isolation(volumes=(Volume(host="/a", to="/"),)),
    },
    "expected whole pages of 2Mi, got 1B": {"isolation": Isolation(hugepages=(("2Mi", 1),))},
    "GOSCHED_X: names that begin with GOSCHED_ are set by gosched": {"env": (("GOSCHED_X", "1"),)},
}


@pytest.mark.parametrize("wrong", VAIN, ids=str)
def test_what_the_runtime_has_no_use_for_is_refused_from_level_5_on(wrong):
    wanted = SubmitJob(job_id="j1", spec=spec("a", replace(group(), **VAIN[wrong])))
    assert wrong in Cluster().reject(wanted, Code.INVALID)
    before = Cluster()
    before.state.feature_level = FeatureLevel.FIRST
    before.accept(wanted)
