"""One API server, its masters and their bridge, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.client import GoSchedClient
from tests.kubernetes.scheduling import Bridge, Pods, limited_kubeconfig, until
from tools.kubernetes.cluster import Cluster, cluster
from tools.kubernetes.pretended import Api, Kubelets, kubelets


@pytest.fixture(scope="package")
def control() -> Iterator[Cluster]:
    with cluster(node=False) as running:
        yield running


@pytest.fixture(scope="package")
def api(control: Cluster) -> Iterator[Api]:
    found = Api(control)
    yield found
    found.close()


@pytest.fixture(scope="package")
def kubelet(api: Api) -> Iterator[Kubelets]:
    with kubelets(api) as running:
        yield running


@pytest.fixture(scope="package")
def masters() -> Iterator[LocalCluster]:
    # Another bridge takes over within 6 s, and nodes die after 10: on a busy machine too little lies between.
    with LocalCluster(masters=3, agents=0, settings={"lease": {"node_timeout": "30s"}}) as running:
        yield running


@pytest.fixture
def client(masters: LocalCluster) -> Iterator[GoSchedClient]:
    with masters.client() as found:
        yield found


@pytest.fixture(scope="package")
def bridge(control: Cluster, masters: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    folder = tmp_path_factory.mktemp("bridge")
    running = Bridge(limited_kubeconfig(control, folder / "kubeconfig"), folder / "bridge.log")
    running.start(masters)
    yield running
    running.kill()


@pytest.fixture
def pods(api: Api, kubelet: Kubelets, bridge: Bridge, request: pytest.FixtureRequest) -> Iterator[Pods]:
    """Pods of a namespace of the test's own, which ends with it."""
    name = request.node.name.replace("_", "-")[:50].strip("-")
    api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    found = Pods(api, name)
    account = f"/api/v1/namespaces/{name}/serviceaccounts"
    until("the default account is made", lambda: api("GET", account)["items"])
    yield found
    kubelet.holds.clear()
    for each in found.all():
        found.delete(each)
    until("the test's pods are gone", lambda: not found.all())
