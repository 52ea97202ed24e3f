"""The unit of a master as an administrator has it: its own user, few rights, restarted, reloaded, stopped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gosched.client import GoSchedClient
from tests.systemd.test_units import UNITS, install_programs, is_active, main_pid, systemctl
from tests.vm.conftest import PATIENCE_S, wait_for

MASTER = "gosched-master.service"
CONFIG = Path("/etc/gosched/gosched.yaml")
DATA = Path("/var/lib/gosched-master")
USER_ID = 987
HARDENED = {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000", "CapBnd": "0000000000000000"}


def configure(**more: object) -> None:
    """The file that comes with the unit, for a cluster of one on loopback."""
    shipped = yaml.safe_load((UNITS / "gosched.yaml").read_text())
    assert shipped["data_dir"] == str(DATA)
    alone = {"server": {"grpc_addr": "127.0.0.1:9090", "http_addr": "127.0.0.1:8080"}}
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text(yaml.safe_dump({"data_dir": shipped["data_dir"], **alone, **more}))


@pytest.fixture(scope="module")
def client() -> Iterator[GoSchedClient]:
    for file, line in (
        ("/etc/passwd", f"gosched:x:{USER_ID}:{USER_ID}::{DATA}:/sbin/nologin"),
        ("/etc/group", f"gosched:x:{USER_ID}:"),
    ):
        with Path(file).open("a") as database:
            database.write(f"{line}\n")
    configure()
    installed = Path("/etc/systemd/system") / MASTER
    installed.write_bytes((UNITS / MASTER).read_bytes())
    (changes := Path(f"{installed}.d")).mkdir()
    (changes / "here.conf").write_text("[Service]\nProtectHome=read-only\n")  # this environment may be in a home
    install_programs()
    systemctl("daemon-reload")
    systemctl("start", MASTER)
    with GoSchedClient("127.0.0.1:9090", timeout_s=PATIENCE_S) as made:
        yield made
    subprocess.run(["systemctl", "stop", MASTER], timeout=PATIENCE_S, check=False)


def test_a_master_runs_as_its_user_with_no_right_but_its_data_directory(client: GoSchedClient) -> None:
    assert client.get_status().leader
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{main_pid(MASTER)}/status").read_text().splitlines())
    assert status["Uid"].split() == [str(USER_ID)] * 4
    assert {name: status[name] for name in HARDENED} == HARDENED
    assert "65536" in next(
        line for line in Path(f"/proc/{main_pid(MASTER)}/limits").read_text().splitlines() if "open files" in line
    )
    assert (DATA.stat().st_uid, oct(DATA.stat().st_mode & 0o777)) == (USER_ID, "0o700")
    mounts = Path(f"/proc/{main_pid(MASTER)}/mounts").read_text().splitlines()
    writable = {line.split()[1] for line in mounts if line.split()[3].startswith("rw")}
    assert str(DATA) in writable
    assert "/" not in writable


def test_a_master_that_dies_is_started_again_and_has_its_jobs(client: GoSchedClient) -> None:
    job = client.submit("name: stays\nhold: true\nrun: 'true'\n").job_id
    before = main_pid(MASTER)
    systemctl("kill", "--signal=KILL", "--kill-whom=main", MASTER)
    wait_for(lambda: main_pid(MASTER) not in (0, before), why="another process")
    assert client.get_job(job).job.spec.name == "stays"


def test_reload_reads_the_queues_again(client: GoSchedClient) -> None:
    before = main_pid(MASTER)
    configure(queues=[{"name": "new"}])
    systemctl("reload", MASTER)
    wait_for(lambda: "new" in {queue.path for queue in client.get_status().queues}, why="the new queue")
    assert main_pid(MASTER) == before


def test_stopping_the_unit_is_a_clean_end(client: GoSchedClient) -> None:
    systemctl("stop", MASTER)
    assert not is_active(MASTER)
    assert systemctl("show", "--value", "--property=Result", MASTER) == "success"
    assert systemctl("show", "--value", "--property=ExecMainStatus", MASTER) == "0"
