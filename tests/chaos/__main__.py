"""`python -m tests.chaos --seconds 60 --seed 1 [--source manifests|kubernetes]`: try to break it.

A model of a fleet in memory is the oracle; objects, moves, deletions, config changes and faults of
every kind act on real processes for that many seconds; then all faults end, and within a minute
everything must be as the oracle says, and no agent may have removed what it always should have had.

`--plan` prints what would happen, and does nothing. `--keep DIR` keeps everything there.
Exit code 0, 1 when anything went wrong (what, and how to repeat it, is printed), or 64.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos import settings
from tests.chaos.plan import AGENTS, BRIDGES, SOURCES, Plan, make_plan, source_of
from tests.chaos.run import Run
from tests.chaos.told import failure, success

EXIT_TERMINATED = 128 + signal.SIGTERM


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    source = chosen.source or source_of(chosen.seed)
    plan = make_plan(chosen.seed, chosen.seconds, source)
    command = f"python -m tests.chaos --seconds {chosen.seconds:g} --seed {chosen.seed}"
    command += f" --source {source}"
    if chosen.plan:
        print(*plan.steps, sep="\n")
        return 0
    print(command, _processes(plan), *settings.described(), sep="\n", flush=True)
    root = Path(chosen.keep or tempfile.mkdtemp(prefix="nodecast-chaos-"))
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        print(f"{root} is not empty: give a new directory to --keep", file=sys.stderr)
        return 64
    signal.signal(signal.SIGTERM, _terminated)
    outcome = Run(plan, root, lambda line: print(line, flush=True)).play()
    if outcome.wrong:
        print(*failure(outcome, root, command), sep="\n")
        return 1
    print(*success(outcome), sep="\n")
    if chosen.keep is None:
        shutil.rmtree(root)
    return 0


def _terminated(*_: object) -> None:
    """Whoever ends this run ends its processes too; asked twice, it is not quicker."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(EXIT_TERMINATED)


def _processes(plan: Plan) -> str:
    chosen_by = "a Lease" if plan.lease else "the ledger"
    return f"Mosquitto, {', '.join(BRIDGES)} (one in charge by {chosen_by}), {', '.join(AGENTS)}"


def _parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=rest, usage=summary)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", choices=SOURCES, help="by the seed where not given")
    parser.add_argument("--plan", action="store_true", help="print what would happen")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and directories here")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
