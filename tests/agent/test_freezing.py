"""A task stands as its record says, also where its runtime fails to make it stand still."""

import json

from gosched.agent.supervisor.control_group import ControlGroup
from gosched.agent.supervisor.freezing import Freezing
from gosched.agent.supervisor.launch import read_launch
from gosched.agent.supervisor.records import FROZEN


def test_a_task_whose_runtime_could_not_freeze_it_runs_until_it_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = {"command": ["true"], "env": {}, "cwd": "/", "boot_id": "", "log_max_bytes": 1, "log_files": 1}
    commands = {"freeze": ["test", "-e", str(tmp_path / "works")], "thaw": ["true"]}
    (tmp_path / "launch.json").write_text(json.dumps({**record, **commands}))
    freezing = Freezing(read_launch(), ControlGroup(""))
    freezing.set(True)
    assert not (tmp_path / FROZEN).exists()
    (tmp_path / "works").touch()
    freezing.set(True)
    assert json.loads((tmp_path / FROZEN).read_text()) == {"frozen": True}
    freezing.end()
    assert json.loads((tmp_path / FROZEN).read_text()) == {"frozen": False}
