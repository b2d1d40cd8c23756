"""Ranks that wait for each other: who comes late to the collectives, what it does meanwhile, and what evens it out.

Wall times tell nothing: whoever is early waits, and all steps take as long as the slowest. Arrivals do (torch's flight recorder has them),
and, where nobody recorded them, who is not waiting while the others are. What a late rank does is told by comparison: the part of a step,
and the line, at which it spends more than the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from ...frames.whose import short_place
from ...language import later, text
from ...model import Collective, Finding, Frame, NotAvailable, SlowCause, StepPartName, rank_subjects
from ...words.durations import duration
from ...words.ranks import ranks_words
from ..hang.words import place
from .case import PARTS, Case, Slice, View, by_frame, covered, usual
from .cpus import starved
from .lines import hot
from .words import cause, matters, of_a_step, part_words

__all__ = ["EXPLAINS", "TOPIC", "rule", "words"]

TOPIC = later("other ranks")
EXPLAINS = {"straggler": ("uneven_steps",), "unequal_batches": ("uneven_steps",), "data_straggler": ("uneven_steps",)}
LEAST_CALLS = 4
SHARE = 0.15
"""From this share of a step on a rank is late: ranks are never quite even."""
TIMES = 3.0
"""A rank is to blame where the others wait for it so many times longer than for any other."""
PIECES, OF_PIECES = 5, 3
"""It is late again and again: in so many of so many pieces of the window."""
SUPPORT = 0.5
"""Of its lateness, such a share must be seen in what it does longer than the others."""
APART = 1.25
"""Batches of one step that differ by this factor are unequal."""
COMMUNICATION = 0.05
STARVED = 0.1
"""From this share of its time on, that a late rank waits for a CPU is told."""


@dataclass(frozen=True)
class _Waits:
    """How long of a step the others wait for each rank. ``saves_s``: what even ranks would save. ``recorded``: by their arrivals."""

    for_rank: Mapping[int, float]
    saves_s: float
    recorded: bool
    calls: int = 0
    again: frozenset[int] = frozenset()
    """Those that were late again and again."""

    @property
    def worst(self) -> int:
        return max(self.for_rank, key=lambda rank: self.for_rank[rank])


def rule(case: Case) -> list[SlowCause]:
    """A rank that all others wait for, batches that are unequal, or gradients that are exchanged too often."""
    if not case.together:
        return []
    waits = _waits(case)
    return [*([] if waits is None else _late(case, waits)), *_synced_too_often(case)]


def words(case: Case) -> str:
    """How long ranks wait for others."""
    if len(case.views) < 2:
        return text("there is one rank")
    if not case.together:
        return text("they do not exchange anything")
    worst = max(case.stepping, key=lambda view: view.parts["communication"] / view.step_s)
    share = of_a_step(worst.parts["communication"], worst.step_s)
    return text("rank {rank} waits longest for them, {share}", rank=worst.rank, share=share)


# --- who is late ---------------------------------------------------------------------------------------------------


def _waits(case: Case) -> _Waits | None:
    """By the arrivals at collectives; where these are not recorded, by who waits."""
    return _by_arrivals(case) or _by_looks(case)


def _by_arrivals(case: Case) -> _Waits | None:
    began = max(_recorded_from(view) for view in case.stepping)
    ended = min(view.window.began_s + view.window.window_s for view in case.stepping)
    late: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    behind: list[float] = []
    ahead: list[float] = []
    for arrivals in _arrivals(case, began, ended):
        times = sorted(arrivals.values())
        middle = times[(len(times) - 1) // 2]
        behind.append(times[-1] - middle)
        ahead.append(times[-1] - mean(times))
        for rank, at in arrivals.items():
            if at > middle:
                late[rank].append((middle, at))
    if len(behind) < LEAST_CALLS or ended <= began:
        return None
    step_s = case.step_s
    for_rank = {view.rank: step_s * _waited(late[view.rank]) / (ended - began) for view in case.stepping}
    even = sum(ahead) / sum(behind) if sum(behind) else 0.0
    again = frozenset(view.rank for view in case.stepping if _again(late[view.rank], began, ended))
    return _Waits(for_rank, even * sum(for_rank.values()), recorded=True, calls=len(behind), again=again)


def _waited(late: Sequence[tuple[float, float]]) -> float:
    """How long the others waited for one that was late at each of these times. Where they overlap, the others went on computing between
    them (gradients are reduced while more of them are computed) and had to wait for the longest of them in all.
    """
    total, longest, end = 0.0, 0.0, float("-inf")
    for first, last in sorted(late):
        if first > end:
            total, longest = total + longest, 0.0
        longest, end = max(longest, last - first), max(end, last)
    return total + longest


def _recorded_from(view: View) -> float:
    """From when on its collectives are known: the recorder keeps the latest ones, and a step may have hundreds."""
    seen = view.window.collectives
    calls = () if isinstance(seen, NotAvailable) else seen.calls
    issued = [call.issued_s for call in calls if not isinstance(call.issued_s, NotAvailable)]
    return max([view.window.began_s, *sorted(issued)[:1]])


def _again(late: Sequence[tuple[float, float]], began: float, ended: float) -> bool:
    """Whether a rank was late all through the window, and not at one moment of it."""
    length = (ended - began) / PIECES
    pieces = [(began + n * length, began + (n + 1) * length) for n in range(PIECES)]
    inside = [covered((max(a, b), min(y, z)) for a, y in late if a < z and y > b) for b, z in pieces]
    return sum(seconds >= SHARE / 2 * length for seconds in inside) >= OF_PIECES


def _arrivals(case: Case, began: float, ended: float) -> list[Mapping[int, float]]:
    """When each rank came to each collective of the window, where all that answered did."""
    found: defaultdict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    members: dict[str, set[int]] = {}
    there = {view.rank for view in case.stepping}
    for view in case.stepping:
        seen = view.window.collectives
        if isinstance(seen, NotAvailable):
            continue
        members.update({group.name: set(group.ranks) & there for group in seen.groups})
        for call in seen.calls:
            if not call.p2p and not isinstance(call.issued_s, NotAvailable) and began <= call.issued_s <= ended:
                found[call.group, call.sequence][view.rank] = call.issued_s
    return [
        arrivals for (group, _), arrivals in found.items() if len(arrivals) > 1 and set(arrivals) == members.get(group)
    ]


def _by_looks(case: Case) -> _Waits | None:
    """Where nothing was recorded: the others wait, and this one does not."""
    waited = {view.rank: view.seconds(view.of("communication")) for view in case.stepping}
    if not waited or not any(waited.values()):
        return None
    most = usual(sorted(waited.values())[len(waited) // 2 :])
    for_rank = {rank: max(0.0, most - seconds) for rank, seconds in waited.items()}
    return _Waits(for_rank, mean(waited.values()), recorded=False, again=frozenset(for_rank))


def _late(case: Case, waits: _Waits) -> list[SlowCause]:
    """The same rank again and again, or another one each time."""
    blamed = _blamed(case, waits)
    return [_straggler(case, waits, blamed)] if blamed else _uneven(case, waits)


def _blamed(case: Case, waits: _Waits) -> list[View]:
    """The ranks that the others wait for again and again, and that are seen to do more than these."""
    worst = waits.for_rank[waits.worst]
    slow = [view for view in case.stepping if waits.for_rank[view.rank] >= worst / TIMES]
    if not matters(worst, case.step_s, SHARE) or len(slow) > len(case.stepping) // 2:
        return []
    supported = [view for view in slow if _excess_s(case, view) >= SUPPORT * waits.for_rank[view.rank]]
    return [view for view in supported if view.rank in waits.again and _by_itself(case, view)]


def _by_itself(case: Case, view: View) -> bool:
    """Whether it is late also without its waits for a CPU, or alone has to wait for one. Where all ranks of a machine do, now the one is
    late, now the other.
    """
    share, others = starved(view), [starved(other) or 0.0 for other in case.stepping if other is not view]
    if share is None or share >= max(STARVED, TIMES * usual(others)):
        return True
    running = 1 - min(1.0, share * view.step_s / max(1e-9, sum(_own_s(view).values())))
    return matters(running * _excess_s(case, view), case.step_s, SHARE)


# --- what it does --------------------------------------------------------------------------------------------------


def _own_s(view: View) -> Mapping[StepPartName, float]:
    """What it does itself, by part, as looks saw it."""
    return {part: view.seconds(view.of(part)) for part in PARTS if part != "communication"}


def _excess(case: Case, view: View) -> Mapping[StepPartName, float]:
    """How much longer than the others it is at each part."""
    own = _own_s(view)
    others = [_own_s(other) for other in case.stepping if other is not view]
    return {part: seconds - usual([other[part] for other in others]) for part, seconds in own.items()}


def _excess_s(case: Case, view: View) -> float:
    return sum(seconds for seconds in _excess(case, view).values() if seconds > 0)


def _line(case: Case, view: View, part: StepPartName) -> Frame | None:
    """The line of that part at which it is longer than the others by most."""
    spent = _by_line(view, part)
    others = [(other, _by_line(other, part)) for other in case.stepping if other is not view]

    def more(frame: Frame) -> float:
        return view.seconds(spent[frame]) - usual([other.seconds(its.get(frame, ())) for other, its in others])

    return max(spent, key=more, default=None)


def _by_line(view: View, part: StepPartName) -> Mapping[Frame, list[Slice]]:
    found: defaultdict[Frame, list[Slice]] = defaultdict(list)
    for one in view.of(part):
        if one.frame is not None:
            found[one.frame].append(one)
    return found


def _straggler(case: Case, waits: _Waits, blamed: Sequence[View]) -> SlowCause:
    worst = max(blamed, key=lambda view: waits.for_rank[view.rank])
    took = waits.for_rank[worst.rank]
    excess = _excess(case, worst)
    part = max(excess, key=lambda p: excess[p])
    line = _line(case, worst, part)
    slices = [] if line is None else _by_line(worst, part)[line]
    frame = hot(worst, slices)
    ranks = [view.rank for view in blamed]
    who = ranks_words(ranks)
    sizes = _sizes(case)
    finding = Finding(
        "data_straggler" if part == "data" else "straggler",
        "warning",
        text(
            "All others wait for {who}, which is slower in {part}: {share}",
            who=who,
            part=_words(worst, part),
            share=of_a_step(took, case.step_s),
        ),
        rank_subjects(ranks),
        place(frame),
        [_how(waits, worst), *_compared(case, worst, part, slices), *_size_words(sizes, worst.rank)],
        text("Every step takes as long as the slowest rank, so that all of them look equally slow by the clock."),
        _mend(worst, part, frame, sizes),
        confidence="high" if waits.recorded else "medium",
    )
    return cause(finding, took, case.step_s)


def _words(view: View, part: StepPartName) -> str:
    """A part of its steps; where they have too many other calls of modules, forward is not told apart from what lies before it."""
    if part == "forward" and view.steps and not any(step.forward_seen for step in view.steps):
        return text("forward and all before it")
    return part_words(part)


def _how(waits: _Waits, view: View) -> str:
    took = waits.for_rank[view.rank]
    others = max((s for rank, s in waits.for_rank.items() if rank != view.rank), default=0.0)
    if waits.recorded:
        return text(
            "it comes {took} of each step later to {calls} collectives than the others, which come {others} late at most",
            took=duration(took),
            calls=waits.calls,
            others=duration(others),
        )
    return text("the others wait {took} of each step longer than it does", took=duration(took))


def _compared(case: Case, view: View, part: StepPartName, slices: Sequence[Slice]) -> list[str]:
    own = _own_s(view)[part]
    others = usual([_own_s(other)[part] for other in case.stepping if other is not view])
    said = [
        text(
            "rank {rank} is {own} of a step in {part}, the others {others}",
            rank=view.rank,
            own=duration(own),
            part=_words(view, part),
            others=duration(others),
        )
    ]
    if (frame := hot(view, slices)) is not None:
        took = duration(view.seconds(slices))
        said.append(text("{took} of that at {short_place}", took=took, short_place=short_place(frame)))
    if (share := starved(view)) is not None and share >= STARVED:
        said.append(
            text(
                "rank {rank}: its training thread waits for a CPU {share:.0%} of the time", rank=view.rank, share=share
            )
        )
    least, most = min(v.step_s for v in case.stepping), max(v.step_s for v in case.stepping)
    said.append(
        text("by the clock steps take {least} to {most} on all ranks", least=duration(least), most=duration(most))
    )
    return said


def _mend(view: View, part: StepPartName, frame: Frame | None, sizes: Mapping[int, float]) -> list[str]:
    if _larger(sizes, view.rank):
        return [text("Give all ranks as much to do: batches by length, or a sampler that evens them out.")]
    at = text("at {short_place}", short_place=short_place(frame)) if frame is not None else _words(view, part)
    return [
        text("See what rank {rank} alone does {at}: `%stacks` shows it beside the others.", rank=view.rank, at=at),
        text("If it does the same as the others, its machine is slower: `%threads` and `%gpu` tell who else uses it."),
    ]


# --- batches -------------------------------------------------------------------------------------------------------


def _sizes(case: Case) -> Mapping[int, float]:
    """The mean size of a step's batches, in numbers, by rank; empty where these are not known of all."""
    found = {}
    for view in case.stepping:
        per_step: Counter[int] = Counter()
        for batch in view.window.batches:
            per_step[batch.step] += batch.elements
        if not per_step:
            return {}
        found[view.rank] = mean(per_step.values())
    return found


def _larger(sizes: Mapping[int, float], rank: int) -> bool:
    others = [size for other, size in sizes.items() if other != rank]
    return bool(others) and sizes[rank] >= APART * usual(others)


def _size_words(sizes: Mapping[int, float], rank: int) -> list[str]:
    if not _larger(sizes, rank):
        return []
    factor = sizes[rank] / usual([size for other, size in sizes.items() if other != rank])
    return [text("its batches are {factor:.1f} times as large as those of the others", factor=factor)]


def _spread(case: Case) -> float:
    """By what factor the batches of one step differ between ranks, on average; 1 where they do not, or nobody knows."""
    by_step: defaultdict[int, list[int]] = defaultdict(list)
    for view in case.stepping:
        first = min((step.step for step in view.steps), default=0)
        per_step: Counter[int] = Counter()
        for batch in view.window.batches:
            per_step[batch.step - first] += batch.elements
        for step, size in per_step.items():
            by_step[step].append(size)
    whole = [sizes for sizes in by_step.values() if len(sizes) == len(case.stepping) and min(sizes) > 0]
    return mean(max(sizes) / min(sizes) for sizes in whole) if whole else 1.0


def _uneven(case: Case, waits: _Waits) -> list[SlowCause]:
    """Another rank is late at each step: no one is to blame."""
    spread = _spread(case)
    unequal = spread >= APART
    if not waits.recorded or not unequal or not matters(waits.saves_s, case.step_s):
        return []
    finding = Finding(
        "unequal_batches",
        "warning",
        text("Ranks wait for whoever has the largest batch: {share}", share=of_a_step(waits.saves_s, case.step_s)),
        rank_subjects(view.rank for view in case.stepping),
        None,
        [
            text(
                "the largest batch of a step is {factor:.1f} times as large as the smallest, on average", factor=spread
            ),
            *(
                text("the others wait {took} of a step for rank {rank}", took=duration(took), rank=rank)
                for rank, took in list(waits.for_rank.items())[:8]
            ),
        ],
        text("Every step takes as long as the rank that has the most to do, and that is another one each time."),
        [text("Give all ranks as much to do at each step: batches by length, or a sampler that evens them out.")],
    )
    return [cause(finding, waits.saves_s, case.step_s)]


# --- accumulation --------------------------------------------------------------------------------------------------


def _synced_too_often(case: Case) -> list[SlowCause]:
    """Gradients that are exchanged after each micro-batch, where once a step would do."""
    view = max(case.stepping, key=lambda v: v.parts["communication"] / v.step_s)
    micro = round(usual([step.micro_batches for step in view.steps]))
    calls = view.window.collectives
    if micro < 2 or isinstance(calls, NotAvailable):
        return []
    rounds = _rounds(view, calls.calls)
    took = view.seconds(view.of("communication")) * (1 - 1 / micro)
    if rounds < micro or not matters(took, view.step_s, COMMUNICATION):
        return []
    slices = [one for one in view.of("communication") if one.frame is not None]
    at = next((frame for frame, _ in by_frame(slices)), None)
    finding = Finding(
        "syncs_each_micro_batch",
        "warning",
        text(
            "Gradients are exchanged {rounds} times a step: {share}", rounds=rounds, share=of_a_step(took, view.step_s)
        ),
        rank_subjects(v.rank for v in case.stepping),
        place(at),
        [text("{micro} micro-batches a step, and the same gradients are reduced after each", micro=micro)],
        text("DistributedDataParallel reduces at the end of every backward pass, unless it is told not to."),
        [text("Run all micro-batches but the last one within `with model.no_sync():`.")],
        confidence="medium",
    )
    return [cause(finding, took, view.step_s)]


def _rounds(view: View, calls: Sequence[Collective]) -> int:
    """How often a step reduces tensors of the same shapes."""
    ended = view.window.began_s + view.window.window_s
    within = [
        call
        for call in calls
        if not isinstance(call.issued_s, NotAvailable) and view.window.began_s <= call.issued_s <= ended
    ]
    many = Counter((call.op, tuple(map(tuple, call.input_sizes))) for call in within if "reduce" in call.op)
    steps = max(1.0, view.window.window_s / view.step_s)
    return round(max(many.values()) / steps) if many else 0
