"""Whether `traindbg slow` names what makes a training slow, and how far what it promises is from what mending gives.

Every program of tests/programs/slow/ has one cause planted, or none; `--mended` leaves it out. Each is timed as it is and mended, with
nobody near, and asked cold, with several seeds, on 1, 2 and 4 ranks. Right is: the first finding has the cause's code, its line and its
rank; of a sound program there is no finding at all. The ratio is of the seconds of a step that mending saved to those that were promised.
Programs that were written for other rules are asked as well: the slow ones of tests/faults.py, and those in which nothing is wrong. Then
what it costs a training to be looked at: seconds of a step while it is, beside those before and after, in turns.
"""

from __future__ import annotations

import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import REPO, Row, Sample, arguments, print_table, ratio_text
from confidence import Claim, add_option, claims_of, print_confidence

sys.path.insert(0, str(REPO / "tests"))
sys.path.insert(0, str(REPO))

from faults import FAULTS, SOUND, Fault, faulty, sound
from slow_jobs import Planted, all_planted, ask, planted, running, step_s, target, wrong

import traindbg

HEAD = ("program", "right", "promised", "saved / promised", "goal")
GOAL, FACTOR, COST = 0.95, 1.5, 1.02
QUICK = ("sleeps", "sound_plain")
WINDOW_S = 5.0
STEPS = 60
"""So many are timed."""


@dataclass(frozen=True)
class Outcome:
    """One program asked once: the share and the seconds of a step that the first cause promises, and the seconds that mending it saved."""

    wrong: str
    share: float
    promised_s: float
    saved_s: float
    findings: Sequence[Mapping[str, Any]]

    @property
    def ratio(self) -> float:
        """Of what was saved to what was promised."""
        return self.saved_s / self.promised_s if self.promised_s > 0 else 0.0


def port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def outcome(one: Planted, ranks: int, seed: int, folder: Path, steps: int) -> Outcome:
    options = ("--seed", str(seed))
    saved_s = 0.0
    if not one.sound:
        slow_s, mended_s = (
            step_s(one, ranks, folder, port(), *options, *more, steps=steps) for more in ((), ("--mended",))
        )
        saved_s = slow_s - mended_s
    with running(one, ranks, folder, port(), *options) as program:
        answer = ask(target(program, ranks))
    first = answer["causes"][0] if answer["causes"] else {"saves_share": 0.0, "saves_s": 0.0}
    return Outcome(wrong(one, ranks, answer), first["saves_share"], first["saves_s"], saved_s, answer["findings"])


def row(one: Planted, ranks: int, found: Sequence[Outcome]) -> Row:
    good = sum(not o.wrong for o in found)
    name = f"{one.name} ({ranks} rank{'s' * (ranks > 1)})"
    said = "; ".join(sorted({o.wrong for o in found if o.wrong}))
    if one.sound:
        return Row(name, f"{good} of {len(found)}", said, "", "nothing", good == len(found))
    share, ratio = statistics.median(o.share for o in found), statistics.median(o.ratio for o in found)
    met = 1 / FACTOR <= ratio <= FACTOR
    return Row(name, f"{good} of {len(found)}", f"{share:.0%} {said}".strip(), f"{ratio:.2f}", "", met)


@dataclass(frozen=True)
class Elsewhere:
    """One program that was written for other rules: whether it is sound, what is wrong with the answer, and what was found."""

    name: str
    sound: bool
    wrong: str
    findings: Sequence[Mapping[str, Any]]


def elsewhere(folder: Path) -> list[Elsewhere]:
    told = []
    for name in SOUND:
        with sound(name, folder) as program:
            found = ask(str(program.pid))["findings"]
        told.append(Elsewhere(name, True, f"found {[f['code'] for f in found]}" if found else "", found))
    for fault in FAULTS:
        if fault.state == "slow":
            with faulty(fault.name, folder, ready=fault.ready, ranks=fault.ranks) as program:
                answer = ask(target(program, fault.ranks))
            told.append(Elsewhere(fault.name, False, missed(fault, answer), answer["findings"]))
    return told


def missed(fault: Fault, answer: Mapping[str, Any]) -> str:
    """What is wrong with the first finding; `%diagnose` calls a wait for the CPU that is slept away by another name."""
    first = answer["findings"][0] if answer["findings"] else {"code": "nothing", "who": [], "where": ""}
    codes = {fault.code, "sleeps"} if fault.code == "host_wait" else {fault.code}
    good = first["code"] in codes and first["who"] == list(fault.who) and (first["where"] or "").endswith(fault.where)
    return "" if good else f"first is {first['code']} at {first['where']} of {first['who']}"


def cost(folder: Path, times: int) -> tuple[list[float], list[float]]:
    """Seconds of a step while it is looked at, beside those of the windows before and behind, in which it is attached to and idle; and what
    windows in which nobody looks come to beside their neighbours: how far such a ratio is from 1 by chance.
    """
    with running(planted("sound_plain"), 1, folder, port()) as program, traindbg.attach(program.pid) as job:
        job.slow(steps=1, seconds=1.0)
        idle, looked = [pace(job)], []
        for _ in range(times):
            looked.append(steps_in(job, lambda: job.slow(steps=100_000, seconds=WINDOW_S)))
            idle.append(pace(job))
    chance = [idle[n] / statistics.mean((idle[n - 1], idle[n + 1])) for n in range(1, times)]
    return [seen / statistics.mean(idle[n : n + 2]) for n, seen in enumerate(looked)], chance


def pace(job: traindbg.Job) -> float:
    return steps_in(job, lambda: time.sleep(WINDOW_S))


def steps_in(job: traindbg.Job, work) -> float:  # type: ignore[no-untyped-def]
    """The mean seconds of a step while `work` goes on."""
    first = job.steps(last=1).ranks[0].steps[-1].step
    work()
    durations = [s.duration_s for s in job.steps(since=first).ranks[0].steps if s.duration_s is not None]
    return statistics.mean(durations)


def _alarms(sound: bool, findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """In a sound program whatever is found; of what is wrong with the others only the first is known."""
    return [f["code"] for f in findings] if sound else []


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="each with so many seeds (default 2)")
    parser.add_argument("--only", nargs="*", default=[""], metavar="NAME", help="only programs whose names begin so")
    parser.add_argument(
        "--times", type=int, default=24, metavar="N", help="look at a training so often for the cost (default 24)"
    )
    add_option(parser)
    args = parser.parse_args()
    seeds = range(1 if args.quick else args.seeds)
    programs = [planted(name) for name in QUICK] if args.quick else all_planted()
    table: list[Row] = []
    right: list[bool] = []
    quiet: list[bool] = []
    near: list[bool] = []
    claims: list[Claim] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for one in programs:
            for ranks in one.manifest["ranks"][:1] if args.quick else one.manifest["ranks"]:
                if not one.name.startswith(tuple(args.only)):
                    continue
                found = [outcome(one, ranks, seed, folder, STEPS // 4 if args.quick else STEPS) for seed in seeds]
                table.append(row(one, ranks, found))
                print(" | ".join(table[-1].cells()), file=sys.stderr, flush=True)
                (quiet if one.sound else right).extend(not o.wrong for o in found)
                if not one.sound:
                    near.append(bool(table[-1].met))
                for o in found:
                    claims += claims_of(
                        f"{one.name} ({ranks})", o.findings, not o.wrong, _alarms(one.sound, o.findings)
                    )
        for other in () if args.quick or any(args.only) else elsewhere(folder):
            said = other.wrong
            table.append(Row(other.name, "0 of 1" if said else "1 of 1", said, "", "", not said))
            (quiet if other.sound else right).append(not said)
            claims += claims_of(other.name, other.findings, not said, _alarms(other.sound, other.findings))
        ratios, chance = cost(folder, 2 if args.quick else args.times)
    for what, good, goal in (("right cause and line first", right, GOAL), ("sound: nothing said", quiet, 1.0)):
        if good:
            share = sum(good) / len(good)
            table.append(Row(what, f"{sum(good)} of {len(good)}", "", "", f">= {goal:.0%}", share >= goal))
    if near:
        table.append(Row(f"promise within a factor {FACTOR}", f"{sum(near)} of {len(near)}"))
    cheap = Sample(tuple(ratios)).median <= COST
    table.append(
        Row("a step while it is looked at / before and after", ratio_text(ratios), "", "", f"<= {COST}", cheap)
    )
    table.append(Row("the same where nobody looks", ratio_text(chance), "", "", "by chance"))
    print_table("Trainings that are slow", HEAD, table, [f"n: {len(seeds)} seeds each, cold; ratios are medians."])
    print_confidence(claims, args.claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
