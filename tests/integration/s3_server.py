"""A real S3 server for the tests: versitygw on a directory, whose folders are its buckets."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.ports import HeldPort

from .support import until

ROOT = Path(__file__).parents[2]
KEY, SECRET = "archivist", "not-a-secret-but-long"


@contextlib.contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[str]:
    """Its URL, while it runs, with one bucket in it."""
    sys.path.insert(0, str(ROOT))
    from tools.s3_server import s3_server as program

    (folder / bucket).mkdir(parents=True)
    port = HeldPort()
    words = [
        str(program()),
        "--access",
        KEY,
        "--secret",
        SECRET,
        "--port",
        port.address,
        "--quiet",
        "posix",
        str(folder),
    ]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(f"http://{port.address}/"), "the S3 server answers")
        yield f"http://{port.address}"
    finally:
        server.terminate()
        server.wait(30)


def credentials(file: Path) -> Path:
    """As in ~/.aws/credentials."""
    file.touch(mode=0o600)
    file.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    return file


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.HTTPError:
        return True  # it refuses who shows no key
    except OSError:
        return False
    return True
