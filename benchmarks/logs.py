"""How fast a log is read, with the literals of the whole knowledge, and how much memory `traindbg diagnose` takes of a log of 1 GB.

The other way is what people write: line by line, one regular expression of all literals. It sees a small part of the same log, since it
takes minutes for the whole. Logs are made here, from a seed; all are healthy but the last. Both on one core.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import TRAINDBG, Row, arguments, print_table

from jupyter_traindbg.diagnose.log import anchors
from jupyter_traindbg.outside import logs

HEAD = ("log", "ours, MB/s", "line by line, MB/s", "ours / other", "goal")
MB = 10**6
GOAL_MB_PER_S = 100
GOAL_MB = 300
DEADLINE_S = 300
DIFFERENT_LINES = 40_000
OTHER_SHARE = 200
BLOCK, FALLING = "@block@", "@falling@"
"""In a made line: the number of its block, and a loss that falls from block to block, as that of a healthy job does."""


def plain(i: int, dice: random.Random) -> str:
    return (
        f"2026-03-04T10:00:00.{i % 10**6:06d}Z node-{i % 16} answered {dice.getrandbits(40):x} of part {i % 977} "
        f"in {i % 31} ms, {i % 13} waiting, ok\n"
    )


def metrics(i: int, dice: random.Random) -> str:
    return (
        f"2026-03-04 10:{i // 60 % 60:02d}:{i % 60:02d},{i % 1000:03d} INFO trainer.py:212 step {BLOCK}{i:05d} | "
        f"loss {FALLING}{i % 997:03d} | grad_norm {0.5 + dice.random() / 10:.3f} | lr 1.0e-05 | tokens/s {20000 + i % 777}\n"
    )


def ray(i: int, dice: random.Random) -> str:
    return (
        f"\x1b[36m(WorkerDict pid={4000 + i % 8}, ip=10.0.0.{i % 4})\x1b[0m INFO:2026-03-04 10:00:{i % 60:02d},123:log probs of "
        f"micro batch {i % 64} took {dice.random():.3f} s, lengths {i % 512} to {512 + i % 512}\n"
    )


def bars(i: int, dice: random.Random) -> str:
    end = "\n" if i % 5000 == 4999 else ""
    return (
        f"\rEpoch 3:  {i % 100:2d}%|█████████▏          | {i}/100000 [{i // 60:02d}:{i % 60:02d}<1:12:03,  1.98it/s, "
        f"loss={1 + dice.random():.3f}]{end}"
    )


def tracebacks(i: int, _dice: random.Random) -> str:
    rank = f"[rank{i % 8}]: "
    return (
        f'{rank}Traceback (most recent call last):\n{rank}  File "/home/u/train.py", line {i % 50}, in step\n'
        f"{rank}    loss.backward()\n{rank}RuntimeError: CUDA error: device-side assert triggered, iteration {i}\n"
    )


SCENES: dict[str, tuple[Callable[[int, random.Random], str], bool]] = {
    "plain lines of a service": (plain, True),
    "a line of metrics a step": (metrics, True),
    "Ray workers, coloured": (ray, True),
    "tqdm bars": (bars, True),
    "nothing but tracebacks of 8 ranks": (tracebacks, False),
}
"""Each with whether it is a typical log, which the goal is about."""


def make(path: Path, line: Callable[[int, random.Random], str], size: int) -> None:
    dice = random.Random(0)
    text = "".join(line(i, dice) for i in range(DIFFERENT_LINES)).encode()
    with path.open("wb") as f:
        for n in itertools.count(1):
            block = text.replace(BLOCK.encode(), b"%d" % n).replace(FALLING.encode(), b"%.2f" % (0.4 + 6 / n))
            f.write(block[: size - f.tell()])
            if f.tell() >= size:
                return


def ours_mb_per_s(path: Path) -> float:
    """CPU time, not wall time: other work on the machine is not our speed."""
    began = time.process_time()
    seen = logs.read(logs.find(str(path)), anchors=anchors(), timeout=DEADLINE_S)
    took = time.process_time() - began
    if any(source.note for source in seen.sources) or seen.total_bytes != path.stat().st_size:
        raise SystemExit(f"not read to its end: {[source.note for source in seen.sources]}")
    return seen.total_bytes / took / MB


def other_mb_per_s(path: Path, size: int) -> float:
    form = re.compile("|".join(re.escape(literal) for literal in anchors()), re.IGNORECASE)
    done = found = 0
    began = time.process_time()
    with path.open(encoding="utf-8", errors="replace", newline="\n") as f:
        for line in f:
            found += form.search(line) is not None
            done += len(line)
            if done > size:
                break
    return done / (time.process_time() - began) / MB


def speed(name: str, place: Path, size: int, n: int) -> Row:
    line, typical = SCENES[name]
    path = place / "scene.log"
    make(path, line, size)
    ours = [ours_mb_per_s(path) for _ in range(n)]
    other = other_mb_per_s(path, size // OTHER_SHARE)
    path.unlink()
    median = statistics.median(ours)
    return Row(
        f"{name}, {size / MB:.0f} MB",
        f"{median:.0f} ({min(ours):.0f}-{max(ours):.0f})",
        f"{other:.2f}",
        f"{median / other:.0f}",
        f">= {GOAL_MB_PER_S}" if typical else "",
        median >= GOAL_MB_PER_S if typical else None,
    )


def memory(place: Path, size: int) -> Row:
    """Peak resident memory of the whole command, and that it reads all of a healthy log and finds nothing in it."""
    path = place / "large.log"
    make(path, metrics, size)
    words = [TRAINDBG, "diagnose", str(path), "--json", "--timeout", str(DEADLINE_S)]
    out = place / "answer.json"
    with out.open("wb") as f:
        began = time.monotonic()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=f)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - began
    answer = json.loads(out.read_text())
    if process.returncode != 0 or answer["findings"] or answer["bytes_read"] != size:
        raise SystemExit(f"exit {process.returncode}, {answer['findings']}, {answer['notes']}")
    peak = used.ru_maxrss * 1024 / MB
    return Row(
        f"`traindbg diagnose FILE --json`, {size / MB:,.0f} MB of metrics: peak memory, MB",
        f"{peak:.0f} MB in {took:.1f} s",
        "",
        "",
        f"< {GOAL_MB} MB",
        peak < GOAL_MB,
    )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=[*SCENES, "memory"], help="one scene")
    args = parser.parse_args()
    size, large, n = (2 * MB, 5 * MB, 1) if args.quick else (200 * MB, 1000 * MB, 3)
    rows: list[Row] = []
    logs.read_text("warm up", anchors=anchors())
    with tempfile.TemporaryDirectory() as place:
        for name in SCENES:
            if args.only in (None, name):
                rows.append(speed(name, Path(place), size, n))
        if args.only in (None, "memory"):
            rows.append(memory(Path(place), large))
    notes = [f"n = {n}; CPU time. {len(anchors())} literals of the knowledge, and the reader's own."]
    print_table("Reading logs", HEAD, rows, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
