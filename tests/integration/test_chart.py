"""The Helm chart as Helm 3 and 4 render it: always alike, valid Kubernetes, and configs that the programs take."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.cli.authority import describe
from gosched.config import load_agent_settings, load_master_settings
from gosched.config.settings import Tls
from gosched.master.base.channels import own_certificate
from gosched.wire.certificates import own_identity
from gosched.wire.roles import CertificateHolder, Role, server_name
from tests.helm.renders import CASES, HERE, LIMIT_S, NEWEST, golden_file, golden_text, render
from tools.chart_tools import chart_tools
from tools.helm_values import CHART

HELMS = ("helm-3.17", "helm-3", "helm-4")
KUBERNETES = ("1.27", "1.32", "1.37")  # the oldest that the chart takes, one between, the newest
# Objects of others' definitions, whose schemas Kubernetes does not have.
FOREIGN = {"cert-manager.io", "monitoring.coreos.com", "gateway.networking.k8s.io"}
VALIDATE = """
import json, sys
import kubernetes_validate
for found in json.load(sys.stdin):
    for version in sys.argv[1:]:
        try:
            kubernetes_validate.validate(found, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            print(version, found["kind"], found["metadata"]["name"], error)
"""


@cache
def helm(name: str) -> str:
    if name == "helm-3.17":
        return str(chart_tools() / "bin" / "helm")
    from tools.kubernetes.build import tool

    return str(tool(name.replace("-", "")))


@pytest.fixture(params=HELMS)
def program(request: pytest.FixtureRequest) -> str:
    return helm(request.param)


@cache
def rendered(case: str) -> list[dict[str, Any]]:
    return render(helm("helm-3.17"), case)


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))


@pytest.mark.parametrize("case", CASES)
def test_every_helm_renders_the_same(program: str, case: str) -> None:
    assert golden_text(render(program, case)) == golden_file(case).read_text()


def test_no_helm_finds_a_fault(program: str) -> None:
    for case in CASES:
        words = [program, "lint", "--strict", str(CHART), f"--values={HERE / 'values' / case}.yaml"]
        subprocess.run(words, check=True, timeout=LIMIT_S, stdout=subprocess.PIPE)


def test_all_objects_are_what_three_versions_of_kubernetes_take() -> None:
    objects = [o for case in CASES for o in rendered(case) if o["apiVersion"].partition("/")[0] not in FOREIGN]
    assert validate(objects) == ""


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    wrong = named(rendered("default"), "StatefulSet", "gosched")
    wrong = {**wrong, "spec": {**wrong["spec"], "replica": 3}}
    assert validate([wrong]).count("replica") >= len(KUBERNETES)


def test_the_alerts_fire_for_their_faults_and_not_for_a_cluster_that_is_well(tmp_path: Path) -> None:
    rules = named(rendered("everything"), "PrometheusRule", "gosched")["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "alerts.yaml").write_text((HERE / "alerts.yaml").read_text())
    words = [str(chart_tools() / "bin" / "promtool"), "test", "rules", "alerts.yaml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_masters_and_agents_take_the_configs(case: str, tmp_path: Path) -> None:
    objects = rendered(case)
    maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
    replicas = next(o for o in objects if o["kind"] == "StatefulSet")["spec"]["replicas"]
    for data in maps.values():
        if "gosched.yaml" in data:
            (tmp_path / "gosched.yaml").write_text(data["gosched.yaml"])
            master = load_master_settings(str(tmp_path / "gosched.yaml"), {"node_id": "x"})
            assert len(master.raft.peers) == replicas
            assert master.raft.enabled
            assert master.raft.join is (replicas > 1)
        if "agent.yaml" in data:
            (tmp_path / "agent.yaml").write_text(data["agent.yaml"])
            agent = load_agent_settings(str(tmp_path / "agent.yaml"), {})
            assert len(agent.masters) == replicas


def test_the_chart_gives_the_scheduler_of_pods_the_rights_that_its_page_names() -> None:
    """deploy/kubernetes/scheduler-rbac.yaml is for those without the chart."""
    by_hand = list(yaml.safe_load_all((CHART.parents[1] / "kubernetes/scheduler-rbac.yaml").read_text()))
    for kind in ("ClusterRole", "Role"):
        mine = named(rendered("everything"), kind, "batch-gosched-kube-scheduler")
        other = named(by_hand, kind, "gosched-kube")
        assert mine["rules"] == other["rules"]
        assert mine["metadata"].get("namespace") == other["metadata"].get("namespace")


def test_a_key_beside_server_is_one_of_server() -> None:
    config = yaml.safe_load(named(rendered("everything"), "ConfigMap", "gosched-master")["data"]["gosched.yaml"])
    assert config["server"]["algorithm"] == "gang"
    assert "algorithm" not in config


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ("master.replicaCount=2", "1, 3, 5"),
        ("master.replicaCount=9", "1, 3, 5"),
        ("master.replicas=3", "replicas"),
        ("master.config.algoritm=spread", "algoritm"),
        ("master.config.algorithm=fifo", "binpack"),
        ("tls.mode=none", "certManager"),
        ("image.tag=", "image"),
        ("tls.mode=existing", "name the secret of"),
        ("master.httpRoute.enabled=true", "name the gateway"),
    ],
)
def test_wrong_values_are_refused_with_what_is_right(program: str, values: str, line: str) -> None:
    words = [program, "template", "gosched", str(CHART), NEWEST, "--set", values]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode != 0
    assert line in done.stderr


def test_kubernetes_without_grpc_probes_is_refused(program: str) -> None:
    words = [program, "template", "gosched", str(CHART), "--kube-version=1.26.0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode != 0
    assert ">=1.27.0-0" in done.stderr


@pytest.fixture
def certificates(tmp_path: Path, program: str) -> Path:
    """The files of all secrets, in a folder for each."""
    for found in render(program, "default"):
        if found["kind"] == "Secret":
            folder = tmp_path / found["metadata"]["name"].removeprefix("gosched-").removesuffix("-tls")
            folder.mkdir()
            for name, data in found["data"].items():
                (folder / name).touch(mode=0o600)
                (folder / name).write_bytes(base64.b64decode(data))
    return tmp_path


def test_masters_agents_and_clients_take_the_certificates_that_helm_makes(certificates: Path) -> None:
    masters = certificates / "master"
    for ordinal in range(7):
        pod = f"gosched-{ordinal}"
        tls = Tls(cert=str(masters / f"{pod}.crt"), key=str(masters / f"{pod}.key"), ca=str(masters / "ca.crt"))
        assert own_certificate(tls, pod) == CertificateHolder(role=Role.MASTER, name=pod, in_dns=True)
    for part, role, name in (("agent", Role.AGENT, "*"), ("client", Role.CLIENT, "helm")):
        files = [str(certificates / part / file) for file in ("tls.crt", "tls.key", "ca.crt")]
        assert own_identity(*files) == CertificateHolder(role=role, name=name, in_dns=True)
    for part in ("agent", "client"):
        assert (certificates / part / "ca.crt").read_bytes() == (masters / "ca.crt").read_bytes()
    assert [found.is_authority for found in describe(certificates / "ca" / "tls.crt")] == [True]


def test_servers_are_known_by_the_names_by_which_they_are_reached(certificates: Path) -> None:
    masters, agents = certificates / "master", certificates / "agent"
    names = (
        "gosched-1.gosched-headless.batch.svc.cluster.local",
        "gosched.batch.svc",
        "gosched.batch",
        "localhost",
        "127.0.0.1",
    )
    for name in names:
        shake_hands(masters, "gosched-1", name)
    shake_hands(agents, "tls", server_name(Role.AGENT, "node-17"))
    for folder, file, name in (
        (masters, "gosched-1", "gosched-0.gosched-headless.batch.svc.cluster.local"),
        (masters, "gosched-1", server_name(Role.AGENT, "node-17")),
        (agents, "tls", server_name(Role.MASTER, "gosched-0")),
        (agents, "tls", "gosched.batch.svc"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(folder, file, name)


def shake_hands(folder: Path, file: str, name: str) -> None:
    """A client that trusts the authority connects to a server with this certificate, by this name."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(folder / f"{file}.crt", folder / f"{file}.key")
    client_context = ssl.create_default_context(cafile=folder / "ca.crt")  # noqa: TID251
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, there, server_hostname=name)
    server = server_context.wrap_bio(there, back, server_side=True)
    for end in (client, server, client):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue


def validate(objects: list[dict[str, Any]]) -> str:
    """The faults that the schemas of KUBERNETES find."""
    words = [str(chart_tools() / "bin" / "python"), "-W", "ignore", "-c", VALIDATE, *KUBERNETES]
    sent = json.dumps(objects)
    done = subprocess.run(words, input=sent, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
    return done.stdout
