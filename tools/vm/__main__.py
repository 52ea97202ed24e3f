"""`python -m tools.vm [--limit SECONDS] [--systemd] COMMAND...`: runs the command in a fresh guest, shows its output,
and exits as it did."""

from __future__ import annotations

import argparse
import sys

from tools.vm.machine import GuestFailed, run_in_guest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.vm", description="run a command in a virtual machine")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="how long the guest may take")
    parser.add_argument("--systemd", action="store_true", help="run it as a service of systemd")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs in the checkout's directory, as root")
    given = parser.parse_args()
    try:
        result = run_in_guest(
            given.command or ["/bin/sh", "-c", "uname -a"], limit_s=given.limit, systemd=given.systemd
        )
    except GuestFailed as error:
        print(error, file=sys.stderr)
        return 125
    print(result.console, end="")
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
