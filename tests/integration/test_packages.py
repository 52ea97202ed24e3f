"""What is released, as a user has it: wheel and sdist in an empty environment, pipx, shells, manual pages, parts lists.

What they depend on is fetched once, at the locked versions, and kept in the cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from packaging.metadata import Metadata

import gosched
from gosched.cli.local_cluster import LocalCluster
from tests.packaging.test_locks import locked

ROOT = Path(__file__).parents[2]
TOOLS = ("pipx==1.18.4", "pip==26.3", "cyclonedx-bom==7.5.0")  # pipx wants that pip
LIMIT_S = 180
HEAVY = {"fastapi", "docker", "numpy", "nvidia-ml-py", "prometheus-client", "psutil", "pysyncobj", "structlog"}


def run(*words: object, cwd: Path | None = None, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GOSCHED_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=cwd,
        env={
            **kept,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
            "SOURCE_DATE_EPOCH": "1700000000",
            **env,
        },
    )
    assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done


def build(source: Path, into: Path, *targets: str) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-d", into, *(f"-t{target}" for target in targets), cwd=source)
    return into


def offline(wheels: Path) -> tuple[str, ...]:
    return ("--no-index", "--find-links", str(wheels))


class Environment:
    """A virtual environment that only the wheel is installed into."""

    def __init__(self, path: Path, wheel: Path, wheels: Path) -> None:
        self.path, self._wheel, self._wheels = path, wheel, wheels
        run(sys.executable, "-m", "venv", "--without-pip", path)
        self.install("")

    def install(self, extra: str) -> None:
        self.pip("install", "--quiet", *offline(self._wheels), f"gosched{extra} @ {self._wheel.as_uri()}")

    def pip(self, *words: object) -> str:
        return run(sys.executable, "-m", "pip", "--python", self.path / "bin/python", *words).stdout

    def run(self, program: str, *words: object, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        return run(self.path / "bin" / program, *words, cwd=self.path, check=check, **env)

    def names(self) -> set[str]:
        found = self.path.glob("lib/python3*/site-packages/*.dist-info")
        return {path.name.partition("-")[0].lower().replace("_", "-") for path in found}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"), "sdist", "wheel")


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheels() -> Path:
    """All that gosched's installations need, and the tools here, so that no index is asked again."""
    locks = [ROOT / f"requirements/{kind}.lock" for kind in ("master", "agent")]
    content = b"".join([*(lock.read_bytes() for lock in locks), repr(TOOLS).encode(), sys.version.encode()])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gosched"
    kept = cache / f"wheels-{hashlib.sha256(content).hexdigest()[:16]}"
    if not kept.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            made = Path(scratch) / "wheels"
            for what in (*(("--require-hashes", "-r", lock) for lock in locks), TOOLS):
                run(sys.executable, "-m", "pip", "wheel", "--quiet", "-w", made, *what)
            with suppress(OSError):  # another run has made it meanwhile
                made.rename(kept)
    return kept


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path, wheels: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("installed") / "venv", wheel, wheels)


@pytest.fixture
def plain(environment: Environment) -> Environment:
    if "numpy" in environment.names():  # what the server needs has come to it since
        environment.pip("uninstall", "--quiet", "--yes", *HEAVY)
    return environment


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=1) as running:
        yield running


def test_the_wheel_is_the_same_bytes_from_the_checkout_and_from_the_sdist(
    dist: Path, wheel: Path, tmp_path: Path
) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    (again,) = build(source, tmp_path / "wheel", "wheel").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()
    (tarball,) = build(ROOT, tmp_path / "sdist", "sdist").glob("*.tar.gz")
    assert tarball.read_bytes() == sdist.read_bytes()


def test_the_wheel_has_the_package_its_types_and_its_license_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = f"gosched-{gosched.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"gosched", info}
    assert {"gosched/py.typed", f"{info}/licenses/LICENSE"} <= set(names)
    assert [name for name in names if "test" in name or "__pycache__" in name] == []
    committed = run("git", "ls-files", "gosched", cwd=ROOT).stdout.split()
    assert {name for name in names if name.startswith("gosched/")} <= {*committed, *_not_ignored()}


def test_the_metadata_is_valid_and_has_the_version_and_a_description(wheel: Path) -> None:
    raw = zipfile.ZipFile(wheel).read(f"gosched-{gosched.__version__}.dist-info/METADATA")
    metadata = Metadata.from_email(raw, validate=True)
    assert str(metadata.version) == gosched.__version__
    assert metadata.license_expression == "MIT"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text()
    assert {"master", "agent", "server", "dev"} <= set(metadata.provides_extra or [])


def test_a_plain_installation_is_light_and_complete(plain: Environment) -> None:
    plain.pip("check")
    assert plain.names() & HEAVY == set()
    assert plain.run("goschedctl", "version", "--client", "-o", "name").stdout == f"{gosched.__version__}\n"


def test_a_plain_installation_is_a_client_of_a_running_cluster(plain: Environment, cluster: LocalCluster) -> None:
    script = (
        "import sys; from gosched import GoSchedClient\n"
        "with GoSchedClient(sys.argv[1]) as client: print(client.get_status().nodes_ready)\n"
    )
    assert plain.run("python", "-c", script, cluster.endpoints).stdout == "1\n"
    ctl = {"GOSCHED_ENDPOINTS": cluster.endpoints, "HOME": str(plain.path)}
    found = json.loads(plain.run("goschedctl", "version", "--agents", "-o", "json", **ctl).stdout)
    told = [found["client"], *(one["version"] for one in (*found["masters"], *found["agents"]))]
    assert told == [gosched.__version__] * 3
    assert found["warnings"] == []
    done = plain.run("goschedctl", "run", "--cpu", "100m", "--", "echo", "from a plain client", **ctl)
    assert "from a plain client" in done.stdout


def test_what_a_plain_installation_cannot_do_it_says_with_what_to_install(plain: Environment) -> None:
    for program, words, extra in (
        ("gosched-master", (), "master"),
        ("gosched-agent", (), "agent"),
        ("goschedctl", ("local", "run", ROOT / "examples/array.yaml"), "server"),
        ("goschedctl", ("simulate", ROOT / "README.md", "--nodes", ROOT / "README.md"), "server"),
    ):
        done = plain.run(program, *words, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(f"pip install 'gosched[{extra}]'\n")
        assert done.stderr.count("\n") == 1


def test_an_installation_of_the_server_runs_a_cluster(environment: Environment) -> None:
    environment.install("[server]")
    environment.pip("check")
    assert environment.names() >= HEAVY
    done = environment.run("goschedctl", "local", "run", "--masters=1", "--agents=1", ROOT / "examples/process.yaml")
    assert "step 3 of 3" in done.stdout


def test_pipx_runs_goschedctl_of_the_distribution(wheel: Path, wheels: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "pipx")
    python = tmp_path / "pipx/bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *offline(wheels), "pipx")
    done = run(
        tmp_path / "pipx/bin/pipx", "run", "--spec", wheel, "goschedctl", "version", "--client", "-o", "name",
        PIPX_HOME=str(tmp_path / "home"), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels),
    )  # fmt: skip
    assert done.stdout == f"{gosched.__version__}\n"


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("fish", 'goschedctl completion fish | source; complete --do-complete "goschedctl node un"'),
        (
            "zsh",
            "compdef() {}; source <(goschedctl completion zsh); words=(goschedctl node un); CURRENT=3\n"
            "_describe() { print -l -- ${(P)3} }; _goschedctl_completion",
        ),
    ],
)
def test_zsh_and_fish_complete_commands(shell: str, words: str, plain: Environment) -> None:
    done = run(shell, "-c", words, PATH=f"{plain.path / 'bin'}{os.pathsep}{os.environ['PATH']}", HOME=str(plain.path))
    assert re.match(r"uncordon[\t:]Let nodes take tasks again", done.stdout), done.stdout


def test_the_manual_pages_are_clean_and_name_every_command(tmp_path: Path) -> None:
    run(sys.executable, ROOT / "tools/man.py", tmp_path)
    pages = sorted(tmp_path.rglob("*.[18]"))
    assert [page.name for page in pages] == ["goschedctl.1", "gosched-agent.8", "gosched-master.8"]
    for page in pages:
        shown = run("groff", "-man", "-Tutf8", "-ww", page)
        assert shown.stderr == ""
        assert gosched.__version__ in shown.stdout
    text = pages[0].read_text()
    assert '.SS "node uncordon ' in text
    assert "goschedctl completion bash" in text


def test_the_parts_lists_name_every_locked_package_with_its_hashes(wheels: Path) -> None:
    run("make", "sbom", cwd=ROOT, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    for kind in ("client", "master", "agent"):
        found = json.loads((ROOT / f"build/sbom/gosched-{kind}.cdx.json").read_text())
        assert (found["bomFormat"], found["metadata"]["component"]["version"]) == ("CycloneDX", gosched.__version__)
        named = {
            f"{part['name']}=={part['version']}": frozenset(
                digest["content"] for reference in part["externalReferences"] for digest in reference.get("hashes", ())
            )
            for part in found["components"]
        }
        assert named == locked(ROOT / f"requirements/{kind}.lock")


def _not_ignored() -> list[str]:
    """What is new in the checkout and will be committed."""
    return run("git", "ls-files", "--others", "--exclude-standard", "gosched", cwd=ROOT).stdout.split()
