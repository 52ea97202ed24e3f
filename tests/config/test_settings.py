from __future__ import annotations

import re
from pathlib import Path

import pytest

from gosched.config import (
    AgentSettings,
    ConfigError,
    MasterSettings,
    load_agent_settings,
    load_master_settings,
    parse_queue_file,
    resolve_listen,
)
from gosched.config.address import open_warning
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.tenant import Quota
from gosched.core.spec.policies import PreemptionPolicy

EXAMPLES = Path(__file__).parents[2] / "config"


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_contract_file_loads_as_it_stands():
    settings = load_master_settings(str(EXAMPLES / "gosched.yaml"), {})
    assert (settings.server.grpc_addr, settings.server.schedule_period_ms) == (":9090", 1000)
    assert [(p.id, p.address) for p in settings.raft.peers] == [
        ("master-2", "master-2:7000"),
        ("master-3", "master-3:7000"),
    ]
    queues = settings.queue_records()
    assert [(q.path, q.type, q.capacity_pct, q.max_pct) for q in queues[:3]] == [
        ("production", QueueType.CAPACITY, 60, 80),
        ("development", QueueType.CAPACITY, 30, 50),
        ("testing", QueueType.CAPACITY, 10, 100),
    ]
    assert (queues[3].path, queues[3].type) == ("default", QueueType.FIFO)


@pytest.mark.parametrize("algorithm", ["binpack", "spread", "gang", "priority", "deadline"])
def test_every_algorithm_of_the_contract_can_be_set(algorithm):
    assert load_master_settings(None, {"algorithm": algorithm}).server.algorithm == algorithm


TREE = """
queues:
- name: research
  type: capacity
  guaranteed: {cpu: 64, memory: 1Ti, gpu: 16, "gpu:h100": 8, fpga: 2}
  limit: {gpu: 20, tpu: 0}
  weight: 3
  half_life: 7d
  children:
  - {name: llm, type: fair, weight: 2, order: deadline, max_running_jobs: 5, tenants: [nlp, vision]}
  - name: vision
    children: [{name: old, limit: {gpu: 0.5, storage: 1Ti}}]
- {name: default, order: priority}
"""


def test_a_tree_of_queues_becomes_paths_with_parents_first(write):
    assert load_master_settings(write(TREE), {}).queue_records() == (
        Queue(
            path="research",
            type=QueueType.CAPACITY,
            weight=3,
            guaranteed=(
                ("cpu", 64_000),
                ("fpga", 2),
                ("gpu", 16_000),
                ("gpu:h100", 8000),
                ("memory", 2**40),
            ),
            limit=(("gpu", 20_000), ("tpu", 0)),
            half_life_ms=7 * 86_400_000,
        ),
        Queue(
            path="research.llm",
            type=QueueType.FAIR,
            weight=2,
            order=QueueOrder.DEADLINE,
            max_running_jobs=5,
            tenants=("nlp", "vision"),
        ),
        Queue(path="research.vision"),
        Queue(path="research.vision.old", limit=(("gpu", 500), ("storage", 2**40))),
        Queue(path="default", order=QueueOrder.PRIORITY),
    )


def test_quotas_topology_and_plugins_are_read(write):
    settings = load_master_settings(
        write(
            "quotas: [{tenant: nlp, limit: {cpu: 500m, 'gpu:h100': 8}, max_running_jobs: 3}, {tenant: b}]\n"
            "topology: [zone, topology.kubernetes.io/block, rack]\n"
            "plugins: [{name: spark}, {name: hadoop, timeout: 20ms, options: {racks: 3, strict: true}}]"
        ),
        {},
    )
    assert settings.quota_records() == (
        Quota(tenant="nlp", limit=(("cpu", 500), ("gpu:h100", 8000)), max_running_jobs=3),
        Quota(tenant="b"),
    )
    assert settings.topology == ("zone", "topology.kubernetes.io/block", "rack")
    assert [(p.name, p.timeout_ms, p.options) for p in settings.plugins] == [
        ("spark", 50, ()),
        ("hadoop", 20, (("racks", "3"), ("strict", "true"))),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", (4, 100, 50)),
        ("scheduling: {reservations: all, max_victims: 0}", (None, 0, 50)),
        ("scheduling: {reservations: 1, max_victims_per_tenant: 7}", (1, 100, 7)),
    ],
)
def test_the_depth_of_reservations_and_the_victims_are_bounded(write, text, expected):
    scheduling = load_master_settings(write(text), {}).scheduling
    assert (scheduling.reservations, scheduling.max_victims, scheduling.max_victims_per_tenant) == expected


def test_every_type_of_queue_has_a_weight_and_a_ceiling(write):
    text = "queues: [{name: a, weight: 2}, {name: b, type: fair, max_pct: 50}, {name: c, half_life: 0}]"
    a, b, c, _ = load_master_settings(write(text), {}).queue_records()
    assert (a.weight, b.max_pct, c.half_life_ms) == (2, 50, 0)


def test_a_queue_says_what_its_jobs_may_evict_or_leaves_it_to_its_parent(write):
    text = "queues: [{name: a, preemption: never, children: [{name: b}, {name: c, preemption: observe_only}]}]"
    queues = load_master_settings(write(text), {}).queue_records()
    assert [queue.preemption for queue in queues] == [
        PreemptionPolicy.NEVER,
        PreemptionPolicy.UNSPECIFIED,
        PreemptionPolicy.OBSERVE_ONLY,
        PreemptionPolicy.UNSPECIFIED,
    ]


def test_a_queue_file_may_be_a_whole_config_file():
    queues, quotas = parse_queue_file((EXAMPLES / "gosched.yaml").read_bytes(), "gosched.yaml")
    assert [queue.path for queue in queues] == ["production", "development", "testing", "default"]
    assert quotas is None


def test_a_queue_file_says_of_quotas_whether_it_has_any():
    assert parse_queue_file("queues: [{name: a}]\nquotas: []", "f") == ((Queue(path="a"), Queue(path="default")), ())
    _, quotas = parse_queue_file("queues: [{name: a}]\nquotas: [{tenant: x}]", "f")
    assert quotas == (Quota(tenant="x"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: no queues in it: write at least queues: [{name: production}]"),
        ("quotas: []", "f: no queues in it"),
        ("queues: [{name: a}]\n---\nqueues: []", "f:3: a file of queues and quotas holds one document"),
        ("queues: [{name: a}]\nqotas: []", 'f:2: qotas: unknown key (did you mean "quotas"?)'),
        ("queues:\n- {name: a, weight: 0}", "f:2: queues[0].weight: 0 is not between 1 and 1000000"),
    ],
)
def test_mistake_in_a_queue_file_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_queue_file(text, "f")
    assert str(caught.value).startswith(message)


def test_no_config_at_all_is_a_cluster_of_one():
    settings = load_master_settings(None, {})
    assert not settings.raft.enabled
    assert [q.path for q in settings.queue_records()] == ["default"]
    assert settings.data_dir


def test_flags_override_environment_which_overrides_the_file(write, monkeypatch):
    path = write("server: {grpc_addr: 'localhost:1', http_addr: 'localhost:1', algorithm: spread}")
    monkeypatch.setenv("GOSCHED_GRPC_ADDR", "localhost:2")
    monkeypatch.setenv("GOSCHED_HTTP_ADDR", "localhost:2")
    server = load_master_settings(path, {"grpc_addr": "localhost:3", "http_addr": None}).server
    assert (server.grpc_addr, server.http_addr, server.algorithm) == ("localhost:3", "localhost:2", "spread")


def test_peers_may_have_ids_and_may_name_this_master_too(write):
    path = write("raft: {node_id: b, peers: ['a=127.0.0.1:1', 'b=127.0.0.1:2', {id: c, address: 'h:3'}]}")
    assert [(p.id, p.address) for p in load_master_settings(path, {}).raft.others] == [
        ("a", "127.0.0.1:1"),
        ("c", "h:3"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("server:\n  grpc_adr: ':1'", 2, 'server.grpc_adr: unknown key (did you mean "grpc_addr"?)'),
        ("server: {grpc_addr: 1}", 1, "server.grpc_addr: expected host:port, got 1"),
        ("server: {grpc_addr: 'h:70000'}", 1, "up to 65535"),
        ("server: 3", 1, "server: expected keys and values, got 3"),
        ("server: {algorithm: binpak}", 1, 'did you mean "binpack"?'),
        ("server: {schedule_period: 3}", 1, "expected a duration with a unit"),
        ("raft:\n  enabled: true\n  peers: [a]", 3, "raft.peers[0]: expected host:port"),
        ("raft: {peers: ['h:1', 'h:2']}", 1, 'two peers have the id "h"'),
        ("raft: {enabled: 3}", 1, "expected true or false, got 3"),
        ("queues:\n- {name: a}\n- {name: b, type: fare}", 3, "queues[1].type: expected fifo, fair or capacity"),
        ("queues:\n- {type: fifo}", 2, 'queues[0]: needs "name"'),
        ("queues: [{name: a}, {name: a}]", 1, "queues[1].name: is given twice"),
        ("queues: [{name: a, weight: 1000001}]", 1, "queues[0].weight: 1000001 is not between 1 and 1000000"),
        (
            "queues: [{name: a, type: capacity, capacity_pct: 60, max_pct: 50}]",
            1,
            "queues[0].max_pct: 50 is not between its capacity_pct",
        ),
        (
            "queues: [{name: a, type: capacity, capacity_pct: 60}, {name: b, type: capacity, capacity_pct: 60}]",
            1,
            "queues[1].capacity_pct: its capacity and that of the queues beside it exceed 100 percent",
        ),
        (
            "queues: [{name: a, preemption: {}}]",
            1,
            "queues[0].preemption: expected never, lower_priority or observe_only, got {}",
        ),
        ("queues:\n- name: a\n  limit:\n    cpu: 5\n    memory: 5", 5, "queues[0].limit.memory: needs a unit"),
        ("queues: [{name: a, limit: {memroy: 5Gi}}]", 1, 'limit.memroy: unknown key (did you mean "memory"?)'),
        ("queues: [{name: a, limit: {'gpu:': 5}}]", 1, "limit.gpu:: gpu: lacks a GPU model: write gpu:MODEL"),
        ("queues: [{name: a, limit: {fpga: 0.5}}]", 1, "limit.fpga: expected a whole number, got 0.5"),
        ("queues: [{name: a, limit: 5}]", 1, "limit: expected amounts such as {cpu: 64, memory: 1Ti}, got 5"),
        ("queues: [{name: a, guaranteed: {cpu: 1}}]", 1, "queues[0].guaranteed: only a queue of type capacity has"),
        (
            "queues: [{name: a, type: capacity, guaranteed: {cpu: 2}, limit: {cpu: 1}}]",
            1,
            "queues[0].guaranteed.cpu: is guaranteed 2 CPUs, more than its limit of 1",
        ),
        ("queues: [{name: a, max_running_jobs: 0}]", 1, "max_running_jobs: expected at least 1, got 0"),
        ("queues: [{name: a, order: lifo}]", 1, "order: expected fifo, priority, fair or deadline, got 'lifo'"),
        ("queues: [{name: a, half_life: 7}]", 1, "half_life: expected a duration with a unit"),
        ("queues: [{name: a, half_life: 1s}]", 1, "half_life: is not between a minute and 366 days"),
        (
            "queues:\n- name: a\n  type: capacity\n  guaranteed: {gpu: 4}\n  children:\n"
            "  - {name: b, type: capacity, guaranteed: {gpu: 3}}\n  - {name: c, type: capacity, guaranteed: {gpu: 2}}",
            4,
            "queues[0].guaranteed.gpu: is guaranteed 4 GPUs, the queues below it 5 together",
        ),
        ("queues: [{name: a, tenants: [x, x]}]", 1, 'queues[0].tenants[1]: there is a tenant "x" already'),
        ("queues: [{name: a.b}]", 1, "queues[0].name: has a dot: a queue below another one stands among its children"),
        (
            "queues:\n- name: a\n  children:\n  - {name: b}\n  - {name: b}",
            5,
            "queues[0].children[1].name: is given twice",
        ),
        (
            "queues:\n- name: a\n  children:\n"
            "  - {name: b, type: capacity, capacity_pct: 60}\n  - {name: c, type: capacity, capacity_pct: 41}",
            5,
            "queues[0].children[1].capacity_pct: its capacity and that of the queues beside it exceed 100",
        ),
        ("queues: [{name: a, children: [{nme: b}]}]", 1, 'children[0].nme: unknown key (did you mean "name"?)'),
        ("quotas: [{tenant: x}, {tenant: x}]", 1, "quotas[1].tenant: two quotas of tenant x are given"),
        ("quotas: [{limit: {cpu: 1}}]", 1, 'quotas[0]: needs "tenant"'),
        ("topology: [zone, rack, zone]", 1, "topology[2]: zone is given twice"),
        ("topology: [rack, node]", 1, "topology[1]: node is always a level: name only those above the node"),
        ("topology: [a b]", 1, "topology[0]: expected the key of a label such as zone or rack, got 'a b'"),
        ("topology: [a, b, c, d, e, f, g, h, i]", 1, "topology: 9 levels; at most 8"),
        ("plugins: [{name: spark}, {name: spark}]", 1, 'plugins[1].name: there is a plugin "spark" already'),
        ("plugins: [{name: spark, timeout: 50}]", 1, "plugins[0].timeout: expected a duration with a unit"),
        ("plugins: [{name: spark, option: {}}]", 1, 'plugins[0].option: unknown key (did you mean "options"?)'),
        ("tls: {cert: a}", 1, 'tls: needs "key"'),
        ("lease: {node_timeout: 0s}", 1, "expected at least 1"),
        (
            "scheduling: {reservations: many}",
            1,
            "scheduling.reservations: expected a number of jobs, or all, got 'many'",
        ),
        ("scheduling: {reservations: -1}", 1, "scheduling.reservations: expected a number of jobs, or all, got -1"),
        ("scheduling: {max_victims: -1}", 1, "scheduling.max_victims: expected at least 0"),
        ("retention: {max_jobs: 1.5}", 1, "expected a whole number, got 1.5"),
        ("a: b: c", 1, "not valid YAML"),
        ("[1]", 1, "expected keys and values"),
        ("a: 1\na: 2", 2, "a: is given twice"),
        ("a: &x 1\nb: *x", 1, "anchors and aliases"),
        ("a: !!python/name:os.system 1", 1, "tags such as"),
    ],
)
def test_mistake_is_one_line_with_file_line_key_and_the_way_out(write, text, line, words):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load_master_settings(path, {})
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistake_in_a_flag_or_variable_names_it(monkeypatch):
    with pytest.raises(ConfigError, match=r"^--grpc-addr: expected host:port"):
        load_master_settings(None, {"grpc_addr": "x"})
    monkeypatch.setenv("GOSCHED_LOG_LEVEL", "loud")
    with pytest.raises(ConfigError, match=r"^GOSCHED_LOG_LEVEL: logging.level: expected debug"):
        load_agent_settings(None, {})


def test_missing_file_is_named():
    with pytest.raises(ConfigError, match=r"/no/such: cannot read the config file"):
        load_master_settings("/no/such", {})


@pytest.mark.parametrize(
    ("address", "tls", "insecure", "expected", "noticed"),
    [
        (":9090", False, False, "127.0.0.1:9090", "listens on loopback only"),
        (":9090", True, False, "0.0.0.0:9090", ""),
        (":9090", False, True, "0.0.0.0:9090", "open without TLS"),
        ("127.0.0.1:1", False, False, "127.0.0.1:1", ""),
        ("[::1]:1", False, False, "[::1]:1", ""),
        ("10.0.0.1:1", True, False, "10.0.0.1:1", ""),
        ("10.0.0.1:1", False, True, "10.0.0.1:1", "open without TLS"),
    ],
)
def test_address_is_open_only_with_tls_or_insecure(address, tls, insecure, expected, noticed):
    listen = resolve_listen(address, key="k", tls=tls, insecure=insecure)
    assert listen.address == expected
    said = (listen.notice or "") + open_warning([listen])
    assert noticed in said and bool(noticed) == bool(said)  # noqa: PT018


def test_all_that_is_open_without_tls_is_one_line_with_each_setting():
    def line(settings):
        return open_warning(settings.listens())

    assert line(MasterSettings(insecure=True)) == (
        "WARNING: open without TLS (--insecure): server.grpc_addr 0.0.0.0:9090, server.http_addr 0.0.0.0:8080. Whoever "
        "reaches it from a private address controls the cluster; callers of public addresses are refused"
    )
    raft = {"enabled": True, "bind_addr": "0.0.0.0:7000"}
    local = {"grpc_addr": "127.0.0.1:1", "http_addr": "[::1]:2", "probe_addr": ":3", "health_addr": ":4"}
    of_master = {"server": local, "raft": raft, "insecure": True}
    assert "(--insecure): raft.bind_addr 0.0.0.0:7000. " in line(MasterSettings.model_validate(of_master))
    of_agent = {"grpc_addr": ":5", "http_addr": ":6", "health_addr": ":7", "insecure": True, "registries": {}}
    assert "grpc_addr 0.0.0.0:5, http_addr 0.0.0.0:6. " in line(AgentSettings.model_validate(of_agent))
    assert not line(MasterSettings.model_validate({"server": local, "insecure": True}))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"server": {"grpc_addr": "0.0.0.0:1"}}, "server.grpc_addr"),
        ({"server": {"http_addr": "10.0.0.7:1"}}, "server.http_addr"),
        ({"raft": {"enabled": True, "bind_addr": "[::]:1"}}, "raft.bind_addr"),
    ],
)
def test_each_listener_of_a_master_beyond_loopback_needs_tls_or_insecure(settings, key):
    with pytest.raises(ConfigError, match=rf"{key}: .* is not loopback and there is no TLS"):
        MasterSettings.model_validate(settings).listens()


@pytest.mark.parametrize("key", ["grpc_addr", "http_addr"])
def test_each_listener_of_an_agent_beyond_loopback_needs_tls_or_insecure(key):
    with pytest.raises(ConfigError, match=rf"{key}: .* is not loopback and there is no TLS"):
        AgentSettings.model_validate({key: "0.0.0.0:1", "registries": {}}).listens()


@pytest.mark.parametrize("address", ["10.0.0.1:1", "0.0.0.0:1", "example.org:1"])
def test_open_address_is_refused_without_tls_or_insecure(address):
    with pytest.raises(ConfigError, match=r"configure tls .* or pass --insecure"):
        resolve_listen(address, key="k", tls=False, insecure=False)


def test_refused_address_names_the_line_where_it_was_set(write):
    settings = load_master_settings(path := write("server:\n  http_addr: '0.0.0.0:80'"), {})
    with pytest.raises(ConfigError, match=rf"^{path}:2: server.http_addr: 0.0.0.0:80 is not loopback"):
        settings.http_listen()


@pytest.mark.parametrize(
    ("name", "load"), [("gosched.yaml", load_master_settings), ("agent.yaml", load_agent_settings)]
)
def test_what_the_example_files_show_in_comments_loads_too(write, name, load):
    shown = re.findall(r"^# ((?:\w+:|  - ).*)", (EXAMPLES / name).read_text(), re.MULTILINE)
    assert len(shown) >= 4
    load(write("\n".join(shown)), {})


def test_every_key_of_a_queue_that_the_example_file_shows_loads(write):
    shown = re.findall(r"^#   (\w+: .*)", (EXAMPLES / "gosched.yaml").read_text(), re.MULTILINE)
    assert len(shown) == 9
    queues = load_master_settings(write("\n  ".join(["queues:\n- name: a", "type: capacity", *shown])), {})
    assert [queue.path for queue in queues.queue_records()] == ["a", "a.llm", "default"]
