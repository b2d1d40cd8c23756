"""What a step of a training costs more while the agent listens: its hooks are taken out and put back every few steps.

`overhead.py` is the whole truth of an attached job, and has to wait for attaching and leaving: minutes lie between what it compares, in
which a machine drifts by more than the difference. Here neighbours are compared, blocks of a dozen steps in one process, so that some
microseconds of 5 ms are seen within half a minute. It leaves out what the agent's threads cost, which is nothing while nobody asks.

--cuda: on a GPU, too.
--before CHECKOUT: the same of another checkout of this project, in turns, in processes of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from common import REPO, Row, arguments, interval, print_table

ROUNDS, SECONDS = 3, 12.0
KINDS = [("torch", "5 ms of a transformer layer"), ("python", "5 ms of pure Python"), ("bare", "a bare step")]
CUDA = ("cuda", "5 ms of a larger one on a GPU")
HEAD = ("a step of", "ours, us more a step (95 %)", "before, us more a step (95 %)", "ours / before", "ours, of a step")
ONE = Path(__file__).resolve().parent / "programs" / "step_cost_one.py"


def one(checkout: Path, kind: str, seconds: float) -> tuple[list[float], float]:
    """What pairs of neighbouring blocks differ by, and a step without us, in microseconds."""
    command = [sys.executable, str(ONE), kind, str(seconds)]
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    told = json.loads(subprocess.run(command, env=env, cwd=checkout, check=True, stdout=subprocess.PIPE).stdout)
    if not told["from"].startswith(str(checkout)):
        raise SystemExit(f"{told['from']} is not in {checkout}")
    return told["more_us"], told["step_us"]


def _told(more_us: list[float]) -> str:
    low, high = interval(more_us)
    return f"{statistics.median(more_us):.0f} ({low:.0f}-{high:.0f})"


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="compare with another checkout of this project")
    parser.add_argument("--cuda", action="store_true", help="measure a training on a GPU, too")
    args = parser.parse_args()
    rounds, seconds = (1, 2.0) if args.quick else (ROUNDS, SECONDS)
    checkouts = [REPO] if args.before is None else [REPO, args.before.resolve()]
    table = []
    for kind, name in [*KINDS, CUDA] if args.cuda else KINDS:
        more: dict[Path, list[float]] = defaultdict(list)
        steps: list[float] = []
        for i in range(rounds):
            for checkout in checkouts if i % 2 == 0 else reversed(checkouts):
                more_us, step_us = one(checkout, kind, seconds)
                more[checkout] += more_us
                steps.append(step_us)
        ours = statistics.median(more[REPO])
        share = f"{ours / statistics.median(steps):.2%} of {statistics.median(steps) / 1e3:.2f} ms"
        if args.before is None:
            table.append(Row(name, _told(more[REPO]), "", "", share))
        else:
            other = more[checkouts[1]]
            table.append(Row(name, _told(more[REPO]), _told(other), f"{ours / statistics.median(other):.2f}", share))
    print_table("Cost of a step", HEAD, table, [f"{rounds} x {seconds:g} s each, in turns."])
    return 0


if __name__ == "__main__":
    sys.exit(main())
