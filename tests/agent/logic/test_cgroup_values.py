"""What an order means in the files of its cgroup."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.agent.logic.cgroup_values import agrees, cgroup_values, huge_page_name, shared_cpus
from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.resources import Resources
from gosched.core.spec.isolation import PLAIN, Isolation

ALL = frozenset({"cpu", "cpuset", "io", "memory", "pids", "hugetlb"})
MIB = 1 << 20
NUMA = {0: parse_cpulist("0-3"), 2: parse_cpulist("4-7")}  # numbers may have gaps


def values(isolation=PLAIN, *, controllers=ALL, cpus="", shared="", device="8:0", pids_max=4096, **resources):
    return cgroup_values(
        Resources(**resources),
        isolation,
        cpus=cpus,
        shared_cpus=shared,
        numa=NUMA,
        pids_max=pids_max,
        device=device,
        controllers=controllers,
    )


def of(found, controller):
    return {file: value for file, value in found.items() if file.startswith(f"{controller}.")}


@pytest.mark.parametrize(
    ("millis", "soft", "cpus", "expected"),
    [
        (1500, False, "", {"cpu.weight": "150", "cpu.max": "150000 100000"}),
        (1500, True, "", {"cpu.weight": "150"}),
        (1, False, "", {"cpu.weight": "1", "cpu.max": "1000 100000"}),
        (0, False, "", {"cpu.weight": "1"}),
        (512_000, False, "", {"cpu.weight": "10000", "cpu.max": "51200000 100000"}),
        (2000, False, "2-3", {"cpu.weight": "200"}),
    ],
)
def test_cpus_are_a_quota_and_always_a_weight(millis, soft, cpus, expected):
    assert of(values(Isolation(cpu_soft=soft), cpu_millis=millis, cpus=cpus), "cpu") == expected


def test_named_cpus_are_a_quota_where_no_controller_keeps_tasks_on_them():
    found = values(cpu_millis=2000, cpus="2-3", controllers=frozenset({"cpu"}))
    assert found == {"cpu.weight": "200", "cpu.max": "200000 100000"}


@pytest.mark.parametrize(
    ("cpus", "shared", "expected"),
    [
        ("2-3", "", {"cpuset.cpus": "2-3", "cpuset.mems": "0"}),
        ("3,4", "0-2", {"cpuset.cpus": "3-4", "cpuset.mems": "0,2"}),
        ("9", "", {"cpuset.cpus": "9"}),
        ("", "", {}),
        ("", "0-1,4", {"cpuset.cpus": "0-1,4"}),
    ],
)
def test_named_cpus_bring_the_memory_of_their_numa_nodes(cpus, shared, expected):
    assert of(values(cpus=cpus, shared=shared), "cpuset") == expected


@pytest.mark.parametrize(
    ("memory", "isolation", "expected"),
    [
        (512 * MIB, PLAIN, {"memory.max": str(512 * MIB), "memory.swap.max": "0"}),
        (0, PLAIN, {"memory.max": "max"}),
        (0, Isolation(swap_bytes=0), {"memory.max": "max", "memory.swap.max": "0"}),
        (MIB, Isolation(swap_bytes=2 * MIB), {"memory.max": str(MIB), "memory.swap.max": str(2 * MIB)}),
        (
            4 * MIB,
            Isolation(memory_low_bytes=2 * MIB, memory_high_bytes=3 * MIB),
            {
                "memory.max": str(4 * MIB),
                "memory.swap.max": "0",
                "memory.low": str(2 * MIB),
                "memory.high": str(3 * MIB),
            },
        ),
        (
            MIB,
            Isolation(memory_low_bytes=9 * MIB),
            {"memory.max": str(MIB), "memory.swap.max": "0", "memory.low": str(MIB)},
        ),
        (0, Isolation(memory_low_bytes=9 * MIB), {"memory.max": "max", "memory.low": str(9 * MIB)}),
    ],
)
def test_memory_is_a_limit_that_ends_the_whole_task(memory, isolation, expected):
    assert of(values(isolation, memory_bytes=memory), "memory") == {"memory.oom.group": "1", **expected}


@pytest.mark.parametrize(("wish", "limit"), [(0, "4096"), (7, "7"), (9_000, "9000")])
def test_processes_are_always_limited(wish, limit):
    assert of(values(Isolation(pids=wish)), "pids") == {"pids.max": limit}


@pytest.mark.parametrize(
    ("isolation", "device", "expected"),
    [
        (PLAIN, "8:0", {}),
        (Isolation(io_weight=500), "", {"io.weight": "default 500"}),
        (Isolation(io_read_bytes=MIB, io_writes=10), "8:0", {"io.max": f"8:0 rbps={MIB} wiops=10"}),
        (Isolation(io_write_bytes=5, io_reads=6), "259:1", {"io.max": "259:1 wbps=5 riops=6"}),
        (Isolation(io_write_bytes=5), "", {}),
    ],
)
def test_io_is_limited_when_asked(isolation, device, expected):
    assert of(values(isolation, device=device), "io") == expected


def test_huge_pages_are_limited_by_size():
    found = values(Isolation(hugepages=(("1Gi", 1 << 30), ("2Mi", 4 * MIB))))
    assert of(found, "hugetlb") == {"hugetlb.1GB.max": str(1 << 30), "hugetlb.2MB.max": str(4 * MIB)}
    with pytest.raises(ValueError, match="'2000' is not a size of huge pages"):
        huge_page_name("2000")


ISOLATIONS = st.builds(
    Isolation,
    cpu_soft=st.booleans(),
    memory_low_bytes=st.integers(0, 1 << 50),
    memory_high_bytes=st.integers(0, 1 << 50),
    swap_bytes=st.none() | st.integers(0, 1 << 50),
    pids=st.integers(0, 4_000_000),
    hugepages=st.sampled_from([(), (("2Mi", 2 * MIB),)]),
    io_weight=st.integers(0, 10_000),
    io_read_bytes=st.integers(0, 1 << 50),
)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.frozensets(st.sampled_from(sorted(ALL))), ISOLATIONS, st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_what_is_given_is_in_the_kernels_ranges_and_for_controllers_that_are_there(controllers, isolation, cpu, memory):
    found = values(isolation, controllers=controllers, cpu_millis=cpu, memory_bytes=memory)
    assert {file.partition(".")[0] for file in found} <= controllers
    assert 1 <= int(found.get("cpu.weight", 1)) <= 10_000
    assert int(found.get("cpu.max", "1000 1").split()[0]) >= 1000
    if memory:
        assert int(found.get("memory.low", 0)) <= memory
    full = values(isolation, cpu_millis=cpu, memory_bytes=memory)
    assert found == {file: value for file, value in full.items() if file in found}


@pytest.mark.parametrize(
    ("owned", "shared"),
    [([], ""), (["2-3"], "0-1,4-7"), (["0-3", "5"], "4,6-7"), (["0-7"], "")],
)
def test_shared_cpus_are_those_that_nobody_owns(owned, shared):
    assert shared_cpus("0-7", owned) == shared


@settings(deadline=None, derandomize=True)
@given(st.integers(1, (1 << 64) - 1), st.lists(st.integers(0, (1 << 64) - 1), max_size=5))
def test_no_cpu_is_both_owned_and_shared(all_cpus, owned):
    shared = parse_cpulist(shared_cpus(format_cpulist(all_cpus), [format_cpulist(mask) for mask in owned]))
    assert not any(shared & mask for mask in owned)


@pytest.mark.parametrize(
    ("file", "wanted", "got", "same"),
    [
        ("cpu.max", "150000 100000", "150000 100000\n", True),
        ("cpu.max", "150000 100000", "max 100000\n", False),
        ("memory.max", "1000000", "999424\n", True),
        ("memory.max", "1000000", "1000001\n", False),
        ("memory.max", "1000000", "max\n", False),
        ("memory.max", "1000000", "0\n", False),
        ("memory.max", "max", "max\n", True),
        ("hugetlb.2MB.max", "2097152", "0\n", False),
        ("io.max", "8:0 rbps=5", "7:0 rbps=5 wbps=max\n8:0 rbps=5 wbps=max riops=max wiops=max\n", True),
        ("io.max", "8:0 rbps=5", "7:0 rbps=5 wbps=max\n8:0 rbps=6 wbps=max\n", False),
        ("io.max", "8:0 rbps=5", "", False),
        ("io.weight", "default 50", "default 50\n8:0 100\n", True),
        ("cpuset.cpus", "", "\n", True),
        ("cpuset.cpus", "0-1", "0-1\n", True),
        ("memory.oom.group", "1", "1\n", True),
        ("memory.oom.group", "1", "0\n", False),
    ],
)
def test_a_value_read_back_is_compared_by_what_it_means(file, wanted, got, same):
    assert agrees(file, wanted, got) is same
