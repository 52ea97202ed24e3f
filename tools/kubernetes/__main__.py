"""`python -m tools.kubernetes build|up`: builds what a cluster is made of, or runs one until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from tools.kubernetes.build import TOOLS, BuildError, tool
from tools.kubernetes.cluster import cluster
from tools.kubernetes.machine import ClusterError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes", description="a real Kubernetes on this machine")
    parser.add_argument("command", choices=("build", "up"), help="build the programs, or run a cluster until Ctrl-C")
    parser.add_argument("--images", nargs="*", default=[], metavar="FILE", help="archives of `docker save` to load")
    parser.add_argument("--volumes", type=int, default=6, help="empty volumes that pods can claim")
    given = parser.parse_args()
    try:
        if given.command == "build":
            for name in TOOLS:
                print(tool(name))
            return 0
        began = time.monotonic()
        with cluster() as running:
            running.add_volumes(given.volumes)
            for archive in given.images:
                running.load(archive)
            print(f"ready after {time.monotonic() - began:.1f} s", file=sys.stderr)
            print(f"export KUBECONFIG={running.kubeconfig} PATH={running.programs}:$PATH", flush=True)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
    except (BuildError, ClusterError) as error:
        print(f"tools.kubernetes: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
