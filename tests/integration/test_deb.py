"""The package for Debian, on a Debian: installed with dpkg, used, removed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gosched

ROOT = Path(__file__).parents[2]
LIMIT_S = 500  # the package holds 35 others; with idle cores it takes half a minute

DPKG = ("dpkg", "--force-unsafe-io")  # what is thrown away need not be synced
EXPOSURE = 15  # tenths, of 100: what systemd-analyze gives for what the unit may still do


def run(*words: object, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
        env={**os.environ, **env},
    )
    assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done


class Debian:
    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run("chroot", self.root, *words, check=check, PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run("tools/deb.sh", sys.executable, SOURCE_DATE_EPOCH="1700000000")
    (found,) = (ROOT / "dist").glob(f"gosched_{gosched.__version__}_*.deb")
    return found


@pytest.fixture(scope="module")
def debian(package: Path) -> Iterator[Debian]:
    """Debian 12 with Python, without systemd at work; the package is installed."""
    base = run("tools/image_base.sh").stdout.strip()
    with tempfile.TemporaryDirectory(prefix="gosched-deb-") as root:
        run("tar", "-C", root, "-xf", base)
        made = Debian(Path(root))
        (made.root / "gosched.deb").write_bytes(package.read_bytes())
        made.run(*DPKG, "-i", "/gosched.deb")
        yield made


@pytest.mark.timeout(2 * LIMIT_S)
def test_all_three_programs_run_on_debians_python(debian: Debian) -> None:
    assert debian.run("goschedctl", "version", "--client", "-o", "name").stdout == f"{gosched.__version__}\n"
    for program in ("gosched-master", "gosched-agent"):
        assert debian.run(program, "--version").stdout == f"{program}, version {gosched.__version__}\n"
    for file in ("gosched.yaml", "agent.yaml"):
        debian.run("goschedctl", "config", "validate", f"/etc/gosched/{file}")


def test_the_user_the_units_and_the_help_are_there(debian: Debian) -> None:
    assert debian.run("getent", "passwd", "gosched").stdout.strip().endswith(":/usr/sbin/nologin")
    units = {path.name for path in (debian.root / "lib/systemd/system").glob("gosched-*")}
    assert units == {path.name for path in (ROOT / "deploy/systemd").glob("*.service")}
    for unit in units:
        text = (debian.root / "lib/systemd/system" / unit).read_text()
        programs = [line.partition("=")[2].split()[0] for line in text.splitlines() if line.startswith("ExecStart=")]
        assert all(os.access(f"{debian.root}{program}", os.X_OK) for program in programs)
    assert "#compdef goschedctl" in (debian.root / "usr/share/zsh/vendor-completions/_goschedctl").read_text()


def test_the_masters_unit_is_valid_and_leaves_little_exposed(tmp_path: Path) -> None:
    unit = tmp_path / "gosched-master.service"
    here = (
        (ROOT / "deploy/systemd" / unit.name).read_text().replace("/opt/gosched/bin", str(Path(sys.executable).parent))
    )
    unit.write_text(here)
    assert run("systemd-analyze", "verify", "--man=no", unit).stderr == ""
    run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", unit)


def test_removing_keeps_the_config_and_purging_leaves_nothing(debian: Debian) -> None:
    (debian.root / "etc/gosched/agent.yaml").write_text("masters: [elsewhere:9090]\n")
    debian.run(*DPKG, "-i", "/gosched.deb")  # an upgrade
    assert (debian.root / "etc/gosched/agent.yaml").read_text() == "masters: [elsewhere:9090]\n"
    debian.run(*DPKG, "--remove", "gosched")
    assert (debian.root / "etc/gosched/agent.yaml").exists()
    debian.run(*DPKG, "--purge", "gosched")
    left = [path for path in ("opt/gosched", "etc/gosched", "usr/bin/goschedctl") if (debian.root / path).exists()]
    assert left == []
