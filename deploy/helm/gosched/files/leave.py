"""Takes masters out of the cluster before their pods go: those whose ordinal is not below the count.

    leave.py STATEFULSET COUNT

Runs before each upgrade and rollback, in the image of goschedctl, which has no shell. A cluster that does not answer
keeps no upgrade from mending it, so then nothing is taken out, unless FEWER says that pods are about to go.
"""

import os
import re
import subprocess
import sys


def main() -> int:
    name, count = sys.argv[1], int(sys.argv[2])
    listed = subprocess.run(
        ["goschedctl", "cluster", "members", "-o", "name"], stdout=subprocess.PIPE, text=True, timeout=60
    )
    if listed.returncode:
        print("the members cannot be read, so none is taken out", file=sys.stderr)
        return 1 if os.environ.get("FEWER") == "true" else 0
    # The last one first, as Kubernetes ends them.
    ordinals = [int(found[1]) for m in listed.stdout.split() if (found := re.fullmatch(f"{re.escape(name)}-(\\d+)", m))]
    for ordinal in sorted((o for o in ordinals if o >= count), reverse=True):
        print(f"taking {name}-{ordinal} out of the cluster", flush=True)
        removed = subprocess.run(["goschedctl", "cluster", "remove-master", f"{name}-{ordinal}"], timeout=60)
        if removed.returncode:
            print("so the upgrade stops here: what goschedctl says above comes first", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
