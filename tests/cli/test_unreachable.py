"""What a command says where no master answers, where it cannot write, and while no master leads."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from gosched.client import GoSchedClient, TlsFiles, Unavailable
from gosched.client.errors import Unreachable
from gosched.client.targets import Targets
from tests.ports import HeldPort
from tests.wire.tls import authority, issued

CTL = str(Path(sys.executable).parent / "goschedctl")


class FakeError:
    """An error of gRPC, with these words."""

    def __init__(self, details: str) -> None:
        self._details = details

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return self._details


def run(*words: str, stdout: object = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CTL, *words], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False)  # type: ignore[call-overload]


def test_endpoints_that_all_refuse_are_named_at_once_with_what_to_do(monkeypatch) -> None:
    first, second = HeldPort().address, HeldPort().address
    done = run("status", "--endpoints", f"{first},{second}")
    assert done.returncode == 5
    assert done.stderr == (
        f"goschedctl: no master can be reached: {first}, {second}: connection refused. The endpoints are from "
        "--endpoints: set others with --endpoints, GOSCHED_ENDPOINTS or a context (goschedctl config set-context)\n"
    )


def test_endpoints_are_not_doubted_where_a_master_answers(ctl, master, job_file, monkeypatch) -> None:
    monkeypatch.setattr("gosched.cli.connect.CONNECT_S", 1.0)
    monkeypatch.setenv("GOSCHED_ENDPOINTS", master.address)
    for words in (("job", "list"), ("submit", str(job_file))):
        master.failures = [grpc.StatusCode.UNAVAILABLE] * 1000
        done = ctl(*words)
        assert (done.code, "no leader" in done.err, "set others" in done.err) == (5, True, False), done.err


def test_a_url_that_nothing_listens_on_is_named_at_once() -> None:
    url = f"http://{HeldPort().address}"
    with GoSchedClient(url, timeout_s=30, fails_fast=True) as client, pytest.raises(Unreachable, match=url):
        client.get_status()


def test_a_name_that_no_host_has_ends_a_call_as_soon_as_a_refused_connection(monkeypatch) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)  # gRPC asks for the name in a way of its own
    began = time.monotonic()
    with (
        GoSchedClient("no-such-host.invalid:9090", timeout_s=30, fails_fast=True) as client,
        pytest.raises(Unreachable, match=r"no-such-host\.invalid:9090: no host is called no-such-host\.invalid"),
    ):
        client.get_status()
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("details", "may_have_arrived"),
    [
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1", False),
        ("DNS resolution failed for a.invalid:9090: C-ares status is not ARES_SUCCESS", False),
        ("errors resolving a.invalid:9090: [field:hostname lookup error:address lookup failed]", False),
        ("Socket closed", True),
    ],
)
def test_what_cannot_have_reached_a_master_is_told_apart(details: str, may_have_arrived: bool) -> None:
    targets = Targets("a.invalid:9090", None)
    targets.failed(FakeError(details))
    assert targets.may_have_arrived is may_have_arrived


def test_a_client_that_is_not_in_a_hurry_waits_for_a_master_that_starts() -> None:
    port = HeldPort()
    with GoSchedClient(port.address, timeout_s=2.0) as client, pytest.raises(Unavailable) as caught:
        client.get_status()
    assert str(caught.value).startswith("no master answered within 2 s")
    assert "connection refused" in str(caught.value)


def test_a_client_that_a_master_has_answered_looks_for_another_for_its_whole_time(master) -> None:
    with GoSchedClient(master.address, timeout_s=2.0, fails_fast=True) as client:
        client.get_status()
        master.stop()
        with pytest.raises(Unavailable, match="no master answered within 2 s"):
            client.get_status()


def test_a_mistake_in_tls_ends_a_call_before_its_time(master, tmp_path) -> None:
    alice = issued(authority(tmp_path / "ca"), "client", "alice")
    files = TlsFiles(cert=alice.cert, key=alice.key, ca=alice.ca)
    with (
        GoSchedClient(master.address, tls=files, timeout_s=30) as client,
        pytest.raises(Unreachable, match="it talks plain text"),
    ):
        client.get_status()


def test_a_full_disk_is_one_line_and_a_reader_that_goes_away_is_none(master) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("status", "--endpoints", master.address, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "goschedctl: cannot write the output: No space left on device\n"
    gone = subprocess.run(
        ["bash", "-c", f"{CTL} status --endpoints {master.address} | true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (gone.stdout, gone.stderr) == ("", "")


def test_status_without_a_leader_is_what_masters_say_of_themselves(monkeypatch, capfd) -> None:
    from gosched.api.status import MasterHealth
    from gosched.cli.without_leader import known_text, masters_known
    from gosched.client.errors import GoSchedError

    known = (("m1", "a:1"), ("m2", "b:2"), ("m3", "c:3"))
    said = {
        "a:1": MasterHealth(id="m1", role="candidate", term=7, last_index=41, commit_index=40, masters=known),
        "b:2": MasterHealth(id="m2", role="follower", term=7, last_index=44, commit_index=40, masters=known),
    }

    class Client:
        def master_health(self, address: str) -> MasterHealth:
            if address not in said:
                raise GoSchedError(f"{address} does not answer")
            return said[address]

    monkeypatch.setattr("gosched.cli.without_leader.known_masters", lambda client: ("a:1", "b:2"))
    masters = masters_known(Client())  # type: ignore[arg-type]
    assert [(m["id"], m["role"], m["last_index"], m["problem"]) for m in masters] == [
        ("m1", "candidate", 41, ""),
        ("m2", "follower", 44, ""),
        ("m3", None, None, "does not answer"),
    ]
    text = known_text(masters)
    assert "2 masters of 3 answer" in text
    assert "Missing    m3" in text
    assert "m2 has the longest, up to entry 44" in text
    assert json.dumps(masters)
