"""`python -m tests.sim SEEDS [WORLD…]`: play seeds and count what went wrong, world by world.

SEEDS is a number or a range (`200`, `1000-2000`). `--trace SEED WORLD` shows one run.
Exit code 1 when anything went wrong.
"""

from __future__ import annotations

import sys
import traceback
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

from tests.sim.fleet import Fleet, play, quiet
from tests.sim.plan import WORLDS, random_plan


def one(world: str, seed: int) -> tuple[int, dict[str, str]]:
    """What went wrong in a run: the first detail of each kind."""
    found: dict[str, str] = {}
    try:
        for violation in play(random_plan(seed, WORLDS[world])):
            found.setdefault(violation.what, f"{violation.at:.1f} s: {violation.detail}")
    except Exception as error:  # noqa: BLE001 - a crash of the core is a finding of this seed
        found[f"crash: {type(error).__name__} {error}"] = traceback.format_exc(limit=-2)
    return seed, found


def sweep(world: str, seeds: range) -> bool:
    """Play all seeds; whether all went well."""
    found: dict[str, list[int]] = defaultdict(list)
    bad = 0
    with ProcessPoolExecutor() as pool:
        worlds = [world] * len(seeds)
        for seed, violations in pool.map(one, worlds, seeds, chunksize=4):
            bad += bool(violations)
            for what in violations:
                found[what].append(seed)
    print(f"{world:17} {len(seeds)} runs, {bad} with a violation", flush=True)
    for what, where in sorted(found.items()):
        print(f"    {len(where):5} {what}: seeds {', '.join(map(str, where[:8]))}", flush=True)
    return not bad


def trace(seed: int, world: str) -> int:
    with quiet():
        fleet = Fleet(random_plan(seed, WORLDS[world]), tracing=True)
        try:
            fleet.run()
        finally:
            print("\n".join(fleet.sim.lines))
    return bool(fleet.violations)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--trace"] and len(arguments) == 3:
        return trace(int(arguments[1]), arguments[2])
    worlds = arguments[1:] or list(WORLDS)
    if not arguments or not set(worlds) <= WORLDS.keys():
        print(__doc__, file=sys.stderr)
        print("Worlds:", ", ".join(WORLDS), file=sys.stderr)
        return 64
    first, _, last = arguments[0].rpartition("-")
    seeds = range(int(first or 0), int(last))
    bad = [world for world in worlds if not sweep(world, seeds)]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
