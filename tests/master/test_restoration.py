"""What `gosched-master --restore` asks for and refuses; nothing is left behind by a refusal."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gosched.config import MasterSettings
from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.state.cluster_state import ClusterState
from gosched.master.backups.restoration import Restoration
from gosched.replication.backups.backup import content
from gosched.replication.interface import ReplicaFailed
from gosched.replication.snapshots.snapshot import FILE, decode
from gosched.state_machine import apply
from gosched.wire.backup_file import BackupInfo, write_backup
from tests.replication.certificates import Authority

THREE: dict[str, Any] = {"enabled": True, "node_id": "a", "peers": ["b=127.0.0.1:1", "c=127.0.0.1:1"]}


@pytest.fixture
def backup(tmp_path: Path) -> str:
    state = ClusterState(feature_level=FeatureLevel.FIRST)
    apply(state, Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="first"), at_ms=1))
    figures: dict[str, Any] = {"revision": 1, "feature_level": 5, "taken_at_ms": 1, "jobs": 0, "nodes": 0}
    info = BackupInfo(release="1.0", master="a", cluster_id="first", allocations=0, **figures)
    write_backup(tmp_path / "backup", info, content(state))
    return str(tmp_path / "backup")


def settings(tmp_path: Path, **more: Any) -> MasterSettings:
    return MasterSettings.model_validate({"data_dir": str(tmp_path / "data"), "insecure": True, **more})


def restored_id(tmp_path: Path) -> str:
    return decode((tmp_path / "data" / "raft" / FILE).read_bytes()).state.cluster_id


def refusal(tmp_path: Path, made: MasterSettings, **flags: str) -> str:
    with pytest.raises(ReplicaFailed) as raised:
        Restoration(**flags).carry_out(made)
    said = str(raised.value)
    assert said.startswith("nothing is restored: ")
    assert "\n" not in said
    assert not (tmp_path / "data" / "raft" / FILE).exists()
    return said


def test_a_choice_and_a_name_are_asked_for(tmp_path: Path, backup: str) -> None:
    alone, of_three = settings(tmp_path), settings(tmp_path, raft=THREE)
    assert "say what becomes of the tasks that ran: --tasks adopt" in refusal(tmp_path, alone, restore=backup)
    asked = refusal(tmp_path, of_three, restore=backup, tasks="adopt")
    assert "give it to all of them, such as --new-cluster c" in asked
    bad = refusal(tmp_path, of_three, restore=backup, tasks="adopt", new_cluster="Not/a name")
    assert "lower-case letters, digits" in bad
    assert "say --restore FILE --tasks" in refusal(tmp_path, alone, tasks="adopt")
    assert "say --restore FILE --tasks" in refusal(tmp_path, alone, restore=backup, restore_from="/x", tasks="lost")
    assert "No such file" in refusal(tmp_path, alone, restore=f"{backup}-none", tasks="lost")
    said = Restoration(restore=backup, tasks="adopt", new_cluster="second").carry_out(of_three)
    assert "which continues first at revision 1" in said
    assert "Do the same on b, c, with the same file" in said
    assert restored_id(tmp_path).startswith("second-")


def test_a_backup_is_not_restored_while_another_master_runs(tmp_path: Path, backup: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as running:
        peers = ["b=127.0.0.1:1", f"c=127.0.0.1:{running.getsockname()[1]}"]
        made = settings(tmp_path, raft=THREE | {"peers": peers})
        said = refusal(tmp_path, made, restore=backup, tasks="adopt", new_cluster="second")
    assert "c runs at 127.0.0.1:" in said
    assert "Stop all masters, move their data directories away" in said


def test_a_certificate_that_names_a_cluster_names_the_new_one_and_not_the_old(tmp_path: Path, backup: str) -> None:
    authority = Authority(tmp_path / "ca")

    def certified(cluster: str) -> MasterSettings:
        files = authority.files("a", cluster=cluster)
        return settings(tmp_path, raft=THREE, tls={"cert": files.cert, "key": files.key, "ca": files.ca})

    said = refusal(tmp_path, certified("first"), restore=backup, tasks="adopt")
    assert "a new cluster needs an id of its own: make certificates for it" in said
    Restoration(restore=backup, tasks="adopt").carry_out(certified("second"))
    assert restored_id(tmp_path) == "second"
