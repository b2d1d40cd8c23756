"""Many actors that come up slowly, and nothing else is wrong with them: how many are up, how fast they come, how long the rest will take.

The rate is that of the last ones, up to now: where none came for a while it falls, and so it does not promise what no longer happens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ...language import text
from ...model import NotAvailable, RayWorker
from ...words.durations import time_words
from ..hang.words import alike
from .case import ENDED, NOT_UP, Hit, RayCase, hit, known
from .peers import in_words, init_durations
from .stuck_in_init import LEAST_S
from .words import names, short

__all__ = ["StartUp", "rule", "start_ups"]

COMING = ("starting", "registering", "in __init__")
FEWEST, WORTH_S = 3, 8.0
RECENT, TOGETHER_S = 10, 5.0
LONG_S = 60.0
ENOUGH = 5
"""From so many arrivals on a rate is one."""
STANDS_S, STANDS = 30.0, 6.0
"""Nothing came for so long, and for so many times the usual gap: the start-up has stopped."""
REGISTERS_S = 60.0


@dataclass(frozen=True)
class StartUp:
    """The start-up of the actors of one class: those that are up, those to come, when it began, the rate and the last arrival."""

    job_id: str | None
    class_name: str
    up: int
    coming: Sequence[RayWorker]
    lasts_s: float
    per_s: float
    since_last_s: float | None

    @property
    def in_all(self) -> int:
        return self.up + len(self.coming)

    @property
    def to_go_s(self) -> float | None:
        return len(self.coming) / self.per_s if self.per_s > 0 else None


def start_ups(case: RayCase) -> list[StartUp]:
    """Classes of which some are on their way and none of these waits for something that does not come."""
    coming = [r for r in case.states(*COMING) if r.kind == "actor"]
    return [_measured(case, same) for same in alike(coming, lambda r: (r.job_id, r.class_name))]


def _measured(case: RayCase, coming: Sequence[RayWorker]) -> StartUp:
    """By those that were asked for together with the ones to come: what came up hours ago says nothing of now."""
    first, now = coming[0], case.cluster.taken_at
    asked = {
        i: t for i in _of_class(case, first) if (t := case.creations[i].times.get("PENDING_ARGS_AVAIL")) is not None
    }
    begun = min((asked[r.actor_id] for r in coming if r.actor_id in asked), default=now - _longest_s(coming))
    batch = {i for i, t in asked.items() if t >= begun - TOGETHER_S}
    arrived = sorted(t for i in batch if (t := case.creations[i].times.get("FINISHED")) is not None)
    up = [p for p in case.peers(first) if p.actor_id in batch and p.state not in ENDED | NOT_UP]
    recent = arrived[-max(RECENT, len(arrived) // 4) :]
    since = recent[0] if len(recent) < len(arrived) else begun
    count = len(recent) - (len(recent) < len(arrived))
    per_s = count / max(0.1, now - since) if count else 0.0
    last = now - arrived[-1] if arrived else None
    return StartUp(first.job_id, first.class_name, len(up), coming, now - begun, per_s, last)


def _of_class(case: RayCase, row: RayWorker) -> list[str]:
    same = [a for a in case.cluster.actors if (a.class_name, a.job_id) == (row.class_name, row.job_id)]
    return [a.actor_id for a in same if a.actor_id in case.creations]


def _longest_s(rows: Sequence[RayWorker]) -> float:
    return max((known(r.since_s) or 0.0 for r in rows), default=0.0)


def rule(case: RayCase) -> list[Hit]:
    """One finding for all classes that are merely slow: they come up together, and wait for the same cores."""
    ordered = sorted(start_ups(case), key=lambda one: -len(one.coming))
    hits = [found for one in ordered if (found := _hit(case, one)) is not None]
    slow = [h for h in hits if h.finding.code == "ray_startup_slow"]
    return [h for h in hits if h not in slow] + ([_together(slow)] if slow else [])


def _together(slow: Sequence[Hit]) -> Hit:
    first = slow[0].finding
    titles = [h.finding.title for h in slow[1:]]
    finding = dataclasses.replace(
        first,
        who=tuple(who for h in slow for who in h.finding.who),
        evidence=(*first.evidence, *(text("also {title}", title=title) for title in titles)),
    )
    return Hit(finding, frozenset().union(*(h.workers for h in slow)), frozenset().union(*(h.explains for h in slow)))


def _hit(case: RayCase, one: StartUp) -> Hit | None:
    if one.in_all < FEWEST or one.lasts_s < WORTH_S or _all_still(case, one):
        return None
    starting = [r for r in one.coming if r.state != "in __init__"]
    late = [r for r in starting if (known(r.since_s) or 0.0) > REGISTERS_S]
    if late and len(late) == len(one.coming) and (one.since_last_s is None or one.since_last_s > REGISTERS_S):
        return _not_registering(case, one, late)
    stands = one.since_last_s is not None and one.per_s > 0 and one.since_last_s > max(STANDS_S, STANDS / one.per_s)
    to_go = one.to_go_s
    end = text(", about {to_go} to go", to_go=time_words(to_go)) if to_go is not None and not stands else ""
    rate = f", {_rate(one.per_s)}" if one.per_s and not stands else ""
    stop = text(", none for {since_last_s}", since_last_s=time_words(one.since_last_s or 0)) if stands else ""
    title = text(
        "{class_name}: {up} of {in_all} up{rate}{end}{stop}",
        class_name=one.class_name,
        up=one.up,
        in_all=one.in_all,
        rate=rate,
        end=end,
        stop=stop,
    )
    if not one.up:
        title = text(
            "{class_name}: none of {in_all} up after {lasts_s}",
            class_name=one.class_name,
            in_all=one.in_all,
            lasts_s=time_words(one.lasts_s),
        )
    return hit(
        "ray_startup_slow",
        "warning" if stands or (one.up == 0 and one.lasts_s > LONG_S) else "info",
        title,
        one.coming,
        case.where(one.coming[0]) if stands else None,
        who=[one.class_name],
        evidence=[_arithmetic(one), *_phases(case, one), *_machine(case, one)],
        cause=text(
            "Nothing is stuck: each worker is a Python process of its own, which has to start, import "
            "everything and run its __init__, and they share the cores of their node while they do."
        ),
        next_steps=[
            (
                text("Wait: {to_go} at this rate.", to_go=time_words(to_go))
                if to_go is not None and (not stands)
                else text("Look again in a moment.")
            ),
            text(
                "Next time start fewer, or hand out work to those that are up instead of waiting for all; import "
                "heavy packages inside the methods that need them. `%preflight --ray auto` times one worker "
                "before you start many."
            ),
        ],
        confidence="high" if to_go is not None and not stands and one.up >= ENOUGH else "medium",
    )


def _all_still(case: RayCase, one: StartUp) -> bool:
    """All to come stand still in __init__: that is another rule's."""
    return all(
        r.state == "in __init__" and case.pace(r) == "still" and (known(r.since_s) or 0.0) > LEAST_S for r in one.coming
    )


def _rate(per_s: float) -> str:
    if per_s <= 0:
        return ""
    if per_s >= 0.1:
        return f"{per_s:.1f}/s"
    return text("one every {per_s}", per_s=time_words(1 / per_s))


def _arithmetic(one: StartUp) -> str:
    left, so_far, rate = len(one.coming), time_words(one.lasts_s), _rate(one.per_s)
    if not one.per_s:
        return text("{up} of {in_all} came up in {so_far}", up=one.up, in_all=one.in_all, so_far=so_far)
    return text(
        "{up} came up in {so_far}, lately {rate}; {left} to come ÷ {per_s:.2g}/s = {left2}",
        up=one.up,
        so_far=so_far,
        rate=rate,
        left=left,
        per_s=one.per_s,
        left2=time_words(left / one.per_s),
    )


def _phases(case: RayCase, one: StartUp) -> list[str]:
    said = {
        "starting": text("their process is starting"),
        "registering": text("their process registers with its node"),
        "in __init__": text("in __init__"),
    }
    lines = []
    for state, words in said.items():
        rows = [r for r in one.coming if r.state == state]
        if rows:
            at = sorted({short(w) for r in rows if (w := case.where(r))})[:3]
            places = text(", at {at}", at=", ".join(at)) if at else ""
            lines.append(f"{len(rows)}: {words}{places}")
    took = init_durations(case, one.coming[0])
    if took:
        middle = time_words(sorted(took)[len(took) // 2])
        lines.append(text("__init__ took {middle} in the middle", middle=middle))
    return lines


def _machine(case: RayCase, one: StartUp) -> list[str]:
    """How busy the nodes are: that is what the rate comes from."""
    lines = []
    for node in case.living_nodes:
        busy = known(node.cpu_percent)
        if busy is not None and busy > 80 and not isinstance(node.cpus, NotAvailable):
            here = sum(r.node_id in (node.node_id, None) for r in one.coming)
            lines.append(
                text(
                    "node {node_name}: its {cpus} CPUs are {busy:.0f} % busy, with {here} workers still starting",
                    node_name=case.node_name(node.node_id),
                    cpus=node.cpus,
                    busy=busy,
                    here=here,
                )
            )
    return lines[:3]


def _not_registering(case: RayCase, one: StartUp, late: Sequence[RayWorker]) -> Hit:
    since = max(known(r.since_s) or 0.0 for r in late)
    where = next((case.node_name(r.node_id) for r in late if r.node_id), "")
    return hit(
        "ray_registration",
        "warning",
        text(
            "{names}: their processes have been starting for {since} and have not registered",
            names=names(late),
            since=time_words(since),
        ),
        late,
        evidence=[
            *dict.fromkeys(r.words for r in late[:3]),
            *(in_words(case, r) for r in late[:3] if r.pid),
            *_machine(case, one),
        ],
        cause=text(
            "The process comes up, but does not get as far as to tell its raylet: it is starved of CPU, its "
            "imports wait for a file system, or the ports that it needs are closed or used up."
        ),
        next_steps=[
            text("Read worker-*.err and raylet.out in the session's logs of {node}.", node=where)
            if where
            else text("Read worker-*.err and raylet.out in the session's logs."),
            text(
                "Start fewer at a time; keep the environment on a local disk; give Ray more ports "
                "(`--min-worker-port`, `--max-worker-port`)."
            ),
        ],
        confidence="medium",
    )
