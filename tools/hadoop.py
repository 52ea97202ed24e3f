"""Hadoop's ResourceManager and NodeManager for the tests of YARN: jars from Maven Central, kept outside the checkout.

Invariant: what is kept is named by its version, and complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.chart_tools import cache

HADOOP = "3.4.2"
#: What these need at run time comes with them: 146 jars, 81 MB.
_ARTIFACTS = (
    "hadoop-common",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-timelineservice",
    "hadoop-yarn-client",
    "hadoop-yarn-applications-distributedshell",
)
_DOWNLOAD_LIMIT_S = 900
_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>gosched.tests</groupId><artifactId>hadoop</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>org.apache.hadoop</groupId><artifactId>{name}</artifactId>"
    f"<version>{HADOOP}</version></dependency>"
)


class HadoopError(Exception):
    """One line for people: why there is no Hadoop, and what to do."""


def hadoop() -> Path:
    """Return the folder of its jars, fetched now if they are not kept yet. Raises HadoopError."""
    folder = cache() / f"hadoop-{HADOOP}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise HadoopError("there is no Maven to fetch Hadoop with: apt-get install maven")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=folder.name, dir=folder.parent) as scratch:
            _fetch(Path(scratch))
            try:
                Path(scratch, "jars").rename(folder)
            except OSError:  # the folder is not empty
                if not folder.exists():  # else another one was faster
                    raise
    return folder


def _fetch(scratch: Path) -> None:
    """Fetch the jars into `scratch`/jars; what Maven keeps for itself is thrown away."""
    dependencies = "".join(_DEPENDENCY.format(name=name) for name in _ARTIFACTS)
    (scratch / "pom.xml").write_text(_PROJECT.format(dependencies=dependencies))
    words = ("mvn", "--quiet", "--batch-mode", f"-Dmaven.repo.local={scratch}/repository")
    copy = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars")
    try:
        subprocess.run(
            (*words, *copy), check=True, timeout=_DOWNLOAD_LIMIT_S, cwd=scratch, stdout=sys.stderr, env={**os.environ}
        )
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise HadoopError(f"cannot fetch Hadoop {HADOOP} from Maven's repository: {error}") from error


if __name__ == "__main__":
    hadoop()
