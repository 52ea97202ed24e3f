"""A secured cluster in five minutes: the commands of the page as they stand, with real masters and agents, and then
what the page has no room for. Only the addresses are others: three of loopback that no other program of this machine
has."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.integration.test_doc_pages import PROGRAMS, script

PAGE = ROOT / "docs/getting-started/secure-cluster.md"
LIMIT_S = 400.0
#: After the page: two new agents race for one token, of which one wins; a token that was used gets nothing from another
#: master either; the agents that joined are there, with the labels of their tokens, which one of them contradicts.
MORE = r"""
echo '# a race for one token' >&2
race=$(as root goschedctl node join-token create --name race --label rack=r9 -o token)
for n in 3 4; do
  ( GOSCHED_JOIN_TOKEN=$race gosched-agent --master 127.0.0.$((n - 2)):9093 --data-dir a$n --labels rack=mine,own=yes \
      > a$n.log 2>&1 || echo $? > a$n.code ) &
done
until [ -e a3.code ] || [ -e a4.code ]; do sleep 0.2; done
until [ "$(as root goschedctl node list -l rack=r9,own=yes -o name | grep -c .)" = 1 ]; do sleep 0.2; done
as root goschedctl node list -l rack=mine -o name > contradicted.txt
as root goschedctl node list -o json > nodes.json
as root goschedctl node join-token list -o json > tokens.json
as root goschedctl events > events.txt
refused gosched-agent --master 127.0.0.2:9093 --join @token2 --data-dir thief2 2> thief2.log
refused gosched-agent --master 127.0.0.1:9090 --join @token2 --data-dir thief3 2> wrong-port.log
refused gosched-agent --master 127.0.0.1:9093 --join rubbish --data-dir thief4 2> rubbish.log
"""


@contextmanager
def running(text: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("GOSCHED_")}
    process = subprocess.Popen(
        ["bash", "-c", text],
        cwd=folder,
        env={**own, "PATH": f"{PROGRAMS}:{own['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        ends = time.monotonic() + 20
        while time.monotonic() < ends and _lives(process.pid):
            process.poll()
            time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()
        process.wait(20)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that tasks of other accounts can pass through; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory(prefix="gosched-five-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.timeout(int(LIMIT_S))
def test_a_secured_cluster_in_five_minutes_lets_each_do_what_it_may_and_no_more(folder: Path) -> None:
    net = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}."
    for block in blocks(PAGE):
        if block.language == "yaml" and block.marks:
            (folder / block.marks[0]).write_text(block.text)
    text = script(PAGE) + MORE + "\necho ALL DONE\n"
    began = time.monotonic()
    with running(text.replace("127.0.0.", net), folder) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:  # it ends with the programs that the script leaves running, so not at its end
            said += line
            if "ALL DONE" in line or time.monotonic() - began > LIMIT_S:
                break
            if process.poll() is not None:
                break
        assert "ALL DONE" in said, said[-4000:] + _logs(folder)
        assert time.monotonic() - began < 300, "five minutes"
        assert process.poll() in (None, 0), said[-4000:]
    assert "from ann" in said
    for words in (
        "bob may not submit in tenant nlp",
        "there is no job 'hello'",
        "bob may not grant",
        "bob may not operate",
        "the join token is not valid, or not any more",
    ):
        assert words in said, words
    codes = [(folder / f"a{n}.code").exists() for n in (3, 4)]
    assert sorted(codes) == [False, True], "one of the two agents won"
    loser = 3 if codes[0] else 4
    assert (folder / f"a{loser}.code").read_text() == "2\n"
    log = (folder / f"a{loser}.log").read_text()
    assert "the join token is not valid, or not any more" in log
    assert (folder / "contradicted.txt").read_text().strip() == ""
    assert (folder / "events.txt").read_text().count(" joined with token ") == 3
    assert (folder / "nodes.json").read_text().count('"READY"') == 3
    assert "server.token_addr" in (folder / "wrong-port.log").read_text()
    assert "not a token to join with" in (folder / "rubbish.log").read_text()
    assert "not valid" in (folder / "thief2.log").read_text()
    assert len(re.findall(r'"state": "used"', (folder / "tokens.json").read_text())) == 3
    audit = "".join(path.read_text() for path in folder.glob("m?/audit/*"))
    assert '"JoinService/Join"' in audit
    assert "was used by node" in audit
    for name in ("token1", "token2"):
        secret = (folder / name).read_text().strip()
        logs = [path.read_text(errors="replace") for path in (*folder.glob("*.log"), *folder.glob("m?/audit/*"))]
        assert not any(secret in one for one in logs)


def _logs(folder: Path) -> str:
    return "\n".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in sorted(folder.glob("*.log")))
