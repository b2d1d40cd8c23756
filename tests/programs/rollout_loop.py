"""Writes a log to FILE as a trainer with rollouts does: rounds of some stages; then it waits in the last one until it is stopped.

rollout_loop.py FILE --rounds N --stage-s S
"""

import argparse
import sys
import time
from datetime import datetime


def say(words):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S},{datetime.now().microsecond // 1000:03d} INFO {words}", flush=True)


def wait_for_engine():
    time.sleep(600)  # HERE


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--stage-s", type=float, default=0.2)
    args = parser.parse_args()
    if args.file:
        sys.stdout = open(args.file, "w")  # noqa: SIM115
    for n in range(args.rounds):
        for words in ("Collecting trajectories...", "update_actor", "update_weights to the engine"):
            say(f"{words} round {n}")
            time.sleep(args.stage_s)
            say(f"step:{n} - actor/loss: {1 / (n + 1):.3f}")
    wait_for_engine()


if __name__ == "__main__":
    main()
