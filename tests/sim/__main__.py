"""`python -m tests.sim SEEDS [WORLD…]`: play seeds and count what went wrong, world by world.

SEEDS is a number or a range (`200`, `1000-2000`). `--trace SEED WORLD` shows one run. `--without
RULE` (or `each`) first takes a rule of the contract out, to see what it is for.
Exit code 1 when anything went wrong.
"""

from __future__ import annotations

import sys
import traceback
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

from tests.sim.fleet import Fleet, play, quiet
from tests.sim.plan import WORLDS, random_plan
from tests.sim.rules import RULES, without


def one(world: str, seed: int, rule: str | None) -> tuple[int, dict[str, str]]:
    """What went wrong in a run: the first detail of each kind."""
    found: dict[str, str] = {}
    try:
        with without(rule):
            violations = play(random_plan(seed, WORLDS[world]))
        for violation in violations:
            found.setdefault(violation.what, f"{violation.at:.1f} s: {violation.detail}")
    except Exception as error:  # noqa: BLE001 - a crash of the core is a finding of this seed
        found[f"crash: {type(error).__name__} {error}"] = traceback.format_exc(limit=-2)
    return seed, found


def sweep(world: str, seeds: range, rule: str | None = None) -> bool:
    """Play all seeds; whether all went well."""
    found: dict[str, list[int]] = defaultdict(list)
    bad = 0
    with ProcessPoolExecutor() as pool:
        worlds, rules = [world] * len(seeds), [rule] * len(seeds)
        for seed, violations in pool.map(one, worlds, seeds, rules, chunksize=4):
            bad += bool(violations)
            for what in violations:
                found[what].append(seed)
    said = f" without {rule}" if rule else ""
    print(f"{world:17}{said} {len(seeds)} runs, {bad} with a violation", flush=True)
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


def usage() -> int:
    print(__doc__, file=sys.stderr)
    print("Worlds:", ", ".join(WORLDS), file=sys.stderr)
    print("Rules:", ", ".join(RULES), file=sys.stderr)
    return 64


def _seeds(text: str) -> range | None:
    """`200` or `1000-2000`; None for anything else."""
    first, _, last = text.rpartition("-")
    if not last.isdecimal() or not (first or "0").isdecimal():
        return None
    return range(int(first or 0), int(last))


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--trace"]:
        if len(arguments) != 3 or not arguments[1].isdecimal() or arguments[2] not in WORLDS:
            return usage()
        return trace(int(arguments[1]), arguments[2])
    rules: list[str | None] = [None]
    if arguments[:1] == ["--without"] and len(arguments) > 2:
        rules = [*RULES] if arguments[1] == "each" else [arguments[1]]
        arguments = arguments[2:]
    worlds = arguments[1:] or list(WORLDS)
    seeds = _seeds(arguments[0]) if arguments else None
    if seeds is None or not set(worlds) <= WORLDS.keys() or not {*rules} <= {None, *RULES}:
        return usage()
    bad = [each for rule in rules for each in worlds if not sweep(each, seeds, rule)]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
