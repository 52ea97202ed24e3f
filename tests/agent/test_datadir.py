"""Where an agent keeps its files, on the file systems of this host."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import tempfile
from pathlib import Path

from gosched.agent.datadir import DataDir

GET_FLAGS = 0x80086601
TOPDIR = 0x00020000


def is_spread(directory: Path) -> bool:
    fd = os.open(directory, os.O_RDONLY)
    try:
        return bool(struct.unpack("l", fcntl.ioctl(fd, GET_FLAGS, bytes(8)))[0] & TOPDIR)
    except OSError:  # a file system without flags
        return False
    finally:
        os.close(fd)


def test_ext4_spreads_the_directories_of_tasks(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    for _ in range(2):  # the second one finds it as it is
        DataDir(tmp_path / "data").close()
        assert is_spread(tmp_path / "data" / "tasks") or kind.strip() != "ext2/ext3"
    assert not is_spread(tmp_path / "data")


def test_a_data_directory_may_lie_on_a_file_system_that_spreads_nothing() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        DataDir(Path(memory) / "data").close()
        assert not is_spread(Path(memory) / "data" / "tasks")
