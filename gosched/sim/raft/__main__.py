"""Simulates the members of a log from the command line; says which seeds break an invariant.

python -m gosched.sim.raft PROFILE FIRST_SEED COUNT      # one line per violating seed, then a summary
python -m gosched.sim.raft PROFILE SEED trace            # one seed, told step by step
"""

from __future__ import annotations

import sys
import time
from dataclasses import fields

from gosched.sim.raft.profiles import PROFILES
from gosched.sim.raft.run import Counts
from gosched.sim.raft.simulation import Result, run


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or arguments[0] not in PROFILES:
        print(f"{__doc__}\nprofiles: {' '.join(PROFILES)}", file=sys.stderr)
        return 2
    name, first = arguments[0], int(arguments[1])
    if arguments[2] == "trace":
        result = run(name, first)
        print(*result.trace, sep="\n")
        return bool(result.violation)
    began = time.perf_counter()
    results = []
    for seed in range(first, first + int(arguments[2])):
        result = run(name, seed)
        results.append(result)
        if result.violation:
            print(f"{name} {seed}: {result.violation}\n    replay: {result.replay}", flush=True)
    print(summary(results, time.perf_counter() - began))
    return any(r.violation for r in results)


def summary(results: list[Result], took_s: float) -> str:
    """Return one line: what the runs went through, and how many violated an invariant."""
    totals = {f.name: sum(getattr(r.counts, f.name) for r in results) for f in fields(Counts)}
    done = {
        "seeds": len(results),
        "violating": sum(bool(r.violation) for r in results),
        "asked": sum(r.asked for r in results),
        "acked": sum(r.acked for r in results),
        "terms": sum(r.terms for r in results),
        **totals,
    }
    told = " ".join(f"{name}={value}" for name, value in done.items())
    return f"{told} | simulated {sum(r.seconds for r in results):.0f} s, {len(results) / took_s:.1f} seeds/s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
