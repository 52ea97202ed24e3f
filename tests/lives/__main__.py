"""Lives for so many seconds, and prints what was met:

python -m tests.lives 3600 [FIRST_SEED]
"""

from __future__ import annotations

import sys
import time
import traceback

from tests.lives.life import Life, Seen

STEPS = 250


def main() -> int:
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seen, began, first, failed = Seen(), time.process_time(), seed, []
    while time.process_time() - began < seconds:
        life = Life(seed, seen)
        try:
            life.run(STEPS)
        except Exception:
            failed.append(seed)
            print(f"seed {seed}, step {life.step}:\n{traceback.format_exc()[-3000:]}", flush=True)
        seed += 1
    commands = sum(seen.commands.values())
    print(f"{seed - first} lives, {commands} commands, {time.process_time() - began:.0f} s; failed: {failed}")
    print(
        "commands (refused):",
        *[f"{name} {n} ({seen.refused[name]})" for name, n in seen.commands.most_common()],
        sep="\n  ",
    )
    print(f"{len(seen.marks)} things met in jobs:", *[f"{m} {n}" for m, n in seen.marks.most_common()], sep="\n  ")
    met = sorted(seen.pairs.values())
    print(f"{len(met)} pairs of them in one job; once {met.count(1)}, median {met[len(met) // 2] if met else 0}")
    print("refusals:", *[f"{what} {n}" for what, n in seen.refusals.most_common()], sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
