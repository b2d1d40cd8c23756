"""Whether `traindbg diagnose` finds what is wrong with a job: every scene of tests/programs/hangs/, several world sizes and seeds.

Each is a real training under torchrun with one real thing wrong, or with nothing wrong; two of each kind are the unmodified trainers of
transformers and Lightning. As soon as a scene says that the trouble is there, the command is run cold: no agent, nothing prepared. Right
is: the first finding has the scene's code, blames exactly the scene's ranks, and names the marked line of the scene's file.

With --scale: how long a verdict takes over the evidence of 1,000 and 10,000 ranks, made from the recorded evidence of four.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import REPO, TRAINDBG, Row, Sample, arguments, print_table, share_row, timed_ms
from confidence import Claim, add_option, claims_of, print_confidence

sys.path.insert(0, str(REPO / "tests"))

from hangs import Hang, Judged, Scene, judge, parse, running, scene, scenes
from recorded_job import recorded, spread

if TYPE_CHECKING:
    from jupyter_traindbg.model import Diagnosis

HEAD = ("scene", "right cause", "right rank", "right place", "seconds")
TOTALS = ("over all runs", "ours", "share", "95 % interval", "goal")
SCALE_HEAD = ("evidence of", "gathered live, s", "verdict, s", "first finding", "goal")
QUICK = ("sleeping",)
GOAL_SHARE, GOAL_S = 0.95, 15.0
READY_S, ANSWER_S = 180.0, 60.0
SCALES = {1_000: 2.0, 10_000: 20.0}
SCALED = ("loader_network", "skipped_all_reduce", "fewer_batches", "half_stopped", "healthy")


@dataclass(frozen=True)
class Record:
    """One run of one scene. ``judged`` is None where there was no answer, and `said` then tells why."""

    scene: str
    world: int
    seed: int
    seconds: float
    judged: Judged | None
    said: str
    answer: dict[str, Any] | None

    @property
    def cause(self) -> bool:
        return self.judged is not None and self.judged.cause

    @property
    def rank(self) -> bool | None:
        return False if self.judged is None else self.judged.rank

    @property
    def place(self) -> bool | None:
        return False if self.judged is None else self.judged.place

    @property
    def false_alarms(self) -> tuple[str, ...]:
        return () if self.judged is None else self.judged.false_alarms


# --- one scene after the other -------------------------------------------------------------------------------------


def measure(of: Scene, world: int, seed: int) -> Record:
    """Start it, wait until it says that the trouble is there, ask, and end it."""
    with tempfile.TemporaryDirectory() as folder, running(of.name, Path(folder), world=world, seed=seed) as hang:
        try:
            hang.wait_for("ready", READY_S)
        except AssertionError as e:
            raise SystemExit(f"{of.name} with {world} ranks: {e}") from e
        return ask(hang, seed)


def ask(hang: Hang, seed: int) -> Record:
    began = time.perf_counter()
    done = subprocess.run(
        [TRAINDBG, "diagnose", hang.target, "--json"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=ANSWER_S,
    )
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1) or not done.stdout:
        said = done.stderr.strip().rpartition("\n")[2]
        return Record(hang.scene.name, hang.world, seed, seconds, None, f"nothing, it failed: {said}", None)
    answer = parse(done.stdout)
    judged = judge(hang, answer)
    return Record(hang.scene.name, hang.world, seed, seconds, judged, judged.said, answer)


def measured(
    chosen: Sequence[Scene], worlds: Sequence[int], seeds: Sequence[int], keep: Path | None
) -> Iterator[Record]:
    for world in worlds:
        for seed in seeds:
            for of in chosen:
                if not of.works_with(world):
                    continue
                record = measure(of, world, seed)
                print(".!"[not _right(record)], end="", file=sys.stderr, flush=True)
                if keep is not None:
                    with keep.open("a") as out:
                        out.write(json.dumps(asdict(record)) + "\n")
                yield record
    print(file=sys.stderr)


def _right(record: Record) -> bool:
    return record.judged is not None and record.judged.right


# --- the tables ----------------------------------------------------------------------------------------------------


def scene_row(name: str, records: Sequence[Record]) -> Row:
    hung = bool(scene(name).codes)
    cells = [_share(r.cause for r in records), _share(r.rank for r in records), _share(r.place for r in records)]
    if not hung:
        cells[0] += " no finding"
    return Row(name, *cells, str(Sample(tuple(r.seconds for r in records))))


def _share(answers: Iterable[bool | None]) -> str:
    known = [a for a in answers if a is not None]
    return f"{sum(known)}/{len(known)}" if known else ""


def totals(records: Sequence[Record]) -> Iterator[Row]:
    hung = [r for r in records if scene(r.scene).codes]
    sound = [r for r in records if not scene(r.scene).codes]
    ways: dict[str, Callable[[Record], bool | None]] = {
        "right cause": lambda r: r.cause,
        "right rank": lambda r: r.rank,
        "right place": lambda r: r.place,
    }
    for what, way in ways.items():
        known = [a for r in hung if (a := way(r)) is not None]
        if known:
            goal = None if what == "right place" else GOAL_SHARE
            yield share_row(what, sum(known), len(known), goal)
    if hung:
        accused = sum(1 for r in hung if r.false_alarms)
        yield share_row("a second finding that accuses something sound", accused, len(hung))
    if sound:
        alarms = sum(1 for r in sound if not r.cause)
        yield replace(share_row("false alarms in sound jobs", alarms, len(sound)), goal="none", met=alarms == 0)
    stuck = sum(1 for r in records if r.judged is not None and r.judged.state)
    yield share_row('right answer to "is it stuck?"', stuck, len(records))
    yield _seconds_row(sorted(r.seconds for r in records))


def _seconds_row(seconds: Sequence[float]) -> Row:
    p50, p95 = (seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.95))
    figures = f"{p50:.1f}, {p95:.1f}, {seconds[-1]:.1f}"
    return Row("seconds: median, 95th percentile, longest", figures, goal=f"p95 <= {GOAL_S:.0f}", met=p95 <= GOAL_S)


def print_scenes(records: Sequence[Record]) -> None:
    names = list(dict.fromkeys(r.scene for r in records))
    rows = [scene_row(name, [r for r in records if r.scene == name]) for name in names]
    print_table("traindbg diagnose, cold, on hung and on sound jobs", HEAD, rows)
    wrong = [_wrong(r) for r in records if not _right(r)]
    print_table("All of them", TOTALS, totals(records), ["\n".join(["Not right:", *wrong])] if wrong else [])


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the answers claimed, each finding as sure as it was."""
    answered = [(r, r.answer["findings"], r.judged) for r in records if r.answer is not None and r.judged is not None]
    return [
        claim
        for r, findings, judged in answered
        for claim in claims_of(
            f"{r.scene} ({r.world} ranks, seed {r.seed})", findings, judged.found, judged.false_alarms
        )
    ]


def _wrong(record: Record) -> str:
    of = scene(record.scene)
    alarms = f", and also {', '.join(record.false_alarms)}" if record.false_alarms and of.codes else ""
    return (
        f"- {record.scene} ({record.world} ranks, seed {record.seed}): said {record.said}{alarms}; "
        f"expected {'/'.join(of.states)}, {' or '.join(of.codes) or 'nothing'}"
    )


# --- many ranks ----------------------------------------------------------------------------------------------------


def scale_rows(names: Sequence[str], world: int, sizes: dict[int, float]) -> Iterator[Row]:
    from jupyter_traindbg.diagnose.running import diagnose

    for name in names:
        evidence, gathered_s = recorded(name, world)
        for size, goal_s in sizes.items():
            many = spread(evidence, size)
            answers: list[Diagnosis] = []
            took = timed_ms(lambda many=many, answers=answers: answers.append(diagnose(many))) / 1e3  # type: ignore[misc]
            yield Row(
                f"{name}, {size:,} ranks", f"{gathered_s:.1f}", f"{took:.2f}", _first(answers[0]), f"<= {goal_s:.0f} s", took <= goal_s
            )  # fmt: skip


def _first(diagnosis: Diagnosis) -> str:
    if not diagnosis.findings:
        return f"none ({diagnosis.state})"
    found = diagnosis.findings[0]
    who = ", ".join(found.who) if len(found.who) <= 3 else f"{found.who[0]} and {len(found.who) - 1} more"
    return f"{found.code} {who}"


# --- the command ---------------------------------------------------------------------------------------------------


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", metavar="SCENE", help="these scenes instead of all")
    parser.add_argument("--worlds", nargs="+", type=int, default=[2, 4, 8], metavar="N", help="numbers of ranks")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="runs of each scene and number of ranks")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="begin with this seed")
    parser.add_argument("--records", type=Path, metavar="FILE", help="add every answer to FILE, as JSON lines")
    add_option(parser)
    parser.add_argument("--scale", action="store_true", help="only the verdict over 1,000 and 10,000 ranks")
    args = parser.parse_args()
    if not args.scale:
        chosen = [scene(name) for name in args.only or QUICK] if args.only or args.quick else scenes()
        worlds, n = ([2], 1) if args.quick else (args.worlds, args.seeds)
        seeds = range(args.first_seed, args.first_seed + n)
        records = list(measured(chosen, worlds, seeds, args.records))
        print_scenes(records)
        print_confidence(claims(records), args.claims)
    if args.scale or args.quick:
        rows = scale_rows(QUICK, 2, {100: SCALES[1_000]}) if args.quick else scale_rows(args.only or SCALED, 4, SCALES)
        print_table("A verdict over many ranks", SCALE_HEAD, list(rows))


if __name__ == "__main__":
    main()
