"""`RayWorkers`: who is in trouble; then everybody, those that are alike in one row; then nodes, and where all of it comes from.

The verdicts come before it, as cards (`render.document`); whoever is named there needs no card here.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ...frames.whose import at_place, shortened
from ...language import counted, later, pgettext, text
from ...language import named as said
from ...model import NO_WAIT, Maybe, NotAvailable, RayNode, RayWorker, RayWorkers
from ...ray.workers.naming import together
from ...ray.workers.words import called
from ...words.durations import age, duration
from ...words.waits import awaited
from ..blocks import Answer, Bar, Block, Card, Column, Fold, Inline, Items, Line, Part, Span, Table, Tone, spans
from ..common import DASH, measured
from ..findings import tone
from ..grouping import group_by
from ..links import placed
from ..notations import ages, counts, sizes
from ..units import count, number, size

CARDS, ROWS, ONE_BY_ONE = 6, 16, 120
_MARKS: dict[int, tuple[str, Tone]] = {3: ("✖", "bad"), 2: ("▲", "warn"), 1: ("△", "muted")}
_WORST: Sequence[Tone] = ("bad", "warn", "info", "good", "plain")
_AT_WORK = ("running", "in __init__", "blocked")
STATES = {
    "running": later("running"),
    "blocked": later("blocked"),
    "in __init__": later("in __init__"),
    "idle": later("idle"),
    "starting": later("starting"),
    "registering": later("registering"),
    "building runtime_env": later("building runtime_env"),
    "waiting for resources": later("waiting for resources"),
    "waiting for an argument": later("waiting for an argument"),
    "infeasible": later("infeasible"),
    "restarting": later("restarting"),
    "dead": later("dead"),
    "not known": later("not known"),
    "ended": later("ended"),
}
"""Of workers, in words, in the order in which they are counted."""


def view(result: RayWorkers) -> Iterator[Block]:
    workers = [row for row in result.workers if row.kind != "driver"]
    yield _answer(result, workers)
    bar = _states(workers)
    if bar is not None:
        yield bar
    named = {who for finding in result.verdict for who in finding.who}
    worst = [
        same for same in _groups(result.workers) if same[0].trouble >= 2 and not named.issuperset(r.who for r in same)
    ]
    yield from (_card(same) for same in worst[:CARDS])
    if len(worst) > CARDS:
        more = text("... and {n} more kinds of trouble: the table has them", n=len(worst) - CARDS)
        yield Line(Span(more, "muted"))
    if result.workers:
        yield _table(result)
    yield from _nodes(result.nodes)
    yield from _everybody(result.workers)
    if result.notes:
        yield Items([Span(note, "muted") for note in result.notes], Span(text("Where this comes from"), "muted"))


def _answer(result: RayWorkers, workers: Sequence[RayWorker]) -> Answer:
    names = [job.submission_id or job.job_id or "?" for job in result.jobs]
    jobs = counted("{n:,} Ray job", "{n:,} Ray jobs", len(names)) if names else ""
    if len(names) == 1:
        jobs = text("Ray job {names}", names=names[0])
    about = [jobs, result.address, f"Ray {result.ray_version}", duration(result.taken_s)]
    words, worst = _trouble(result, workers)
    if result.findings:
        if worst not in ("bad", "warn"):
            n = len(result.findings)
            words += counted(", but {n:,} finding on the job", ", but {n:,} findings on the job", n)
        worst = min(worst, tone(result.findings), key=_WORST.index)
    return Answer(words, about, worst)


def _trouble(result: RayWorkers, workers: Sequence[RayWorker]) -> tuple[str, Tone]:
    """Who is in trouble; who cannot be told to be in none."""
    n = len(workers)
    worst = [row for row in result.workers if row.trouble >= 2]
    if not workers and not worst:
        driver = text("only the driver") if result.workers else text("and no driver")
        return text("no worker runs, {driver}", driver=driver), "plain"
    if worst:
        troubled = sum(row.kind != "driver" for row in worst)
        of = counted("{troubled:,} of {n:,} worker", "{troubled:,} of {n:,} workers", n, troubled=troubled)
        if troubled < len(worst):
            driver = pgettext("in trouble", "the driver")
            of = text("the driver and {workers}", workers=of) if troubled else driver
        who = together([row.who for row in worst if row.kind != "driver"], runs=4)
        named = text(": {who}", who=who) if who else ""
        words = counted("{of} is in trouble{named}", "{of} are in trouble{named}", len(worst), of=of, named=named)
        return words, _MARKS[min(3, max(row.trouble for row in worst))][1]
    late = sum(row.trouble == 1 for row in workers)
    unknown = sum(row.state == "not known" for row in workers)
    words = counted("the only worker is in no trouble", "none of {n:,} workers is in trouble", n)
    if late:
        words += counted(", {n:,} is held up", ", {n:,} are held up", late)
    if unknown:
        words += text("; nothing is known of {unknown:,}", unknown=unknown)
    seen = result.tier > 0 and not result.silent and not late
    return words, "warn" if unknown else "good" if seen else "info"


def _states(workers: Sequence[RayWorker]) -> Bar | None:
    """How many are in which state; the fifth part is the rest."""
    counts = Counter(row.state for row in workers)
    if not counts:
        return None
    order = {state: i for i, state in enumerate(STATES)}
    ordered = sorted(counts, key=lambda state: (-counts[state], order.get(state, len(order))))
    shown = ordered if len(ordered) <= 5 else ordered[:4]
    parts = [Part(_state(state), counts[state] / len(workers), count(counts[state])) for state in shown]
    rest = ordered[len(shown) :]
    if rest:
        n = sum(counts[state] for state in rest)
        comma = text(", ")
        names = comma.join([*(f"{_state(state)} {counts[state]:,}" for state in rest[:-1]), _state(rest[-1])])
        parts.append(Part(names, n / len(workers), count(counts[rest[-1]])))
    return Bar("", parts)


# --- who is in trouble ---------------------------------------------------------------------------------------------


def _card(same: Sequence[RayWorker]) -> Card:
    row = same[0]
    symbol, tone = _MARKS[min(3, row.trouble)]
    title: list[str | Span] = [Span(_who(same), "strong"), " · ", row.words]
    body: list[Block] = []
    process = Span(_process(same), "muted")
    if isinstance(row.where, str):
        at: list[str | Span] = [text("at "), Span(row.where, "code", link=at_place(row.where))]
        body.append(Line([*at, " · ", process] if process.text else at))
    elif process.text:
        title += [" · ", process]
    if row.detail:
        body.append(Items(list(row.detail)))
    return Card(title, body, tone, symbol)


def _process(same: Sequence[RayWorker]) -> str:
    """The node and the pid; of several only how many nodes they are on."""
    nodes = sorted({row.node for row in same if row.node})
    node = nodes[0] if len(nodes) == 1 else text("{n} nodes", n=len(nodes)) if nodes else ""
    pid = f"pid {same[0].pid}" if len(same) == 1 and same[0].pid else ""
    return " · ".join(filter(None, (node, pid)))


# --- everybody -----------------------------------------------------------------------------------------------------


def _groups(workers: Sequence[RayWorker]) -> list[list[RayWorker]]:
    """Those that are alike: in one state, in one method, at one line. Most trouble first; among equals the largest group."""
    groups = group_by(workers, _alike)
    return sorted(groups, key=lambda same: (-same[0].trouble, same[0].kind != "driver", -len(same)))


def _alike(row: RayWorker) -> tuple[object, ...]:
    at_work = row.state in _AT_WORK
    waits = row.waiting_for if row.trouble or row.waiting_for.kind == "ray" else NO_WAIT
    cause = (row.method, row.where if isinstance(row.where, str) else "", waits) if at_work else _cause(row)
    own = row.who if row.kind == "driver" else row.class_name or row.name
    return row.trouble, row.kind, own, row.state, cause


def _cause(row: RayWorker) -> str:
    """The state, and why, without the time that is in its words."""
    why = row.words.partition(": ")[2]
    state = _state(row.state)
    return text("{state}: {why}", state=state, why=why) if why else state


def _table(result: RayWorkers) -> Table:
    groups = _groups(result.workers)
    memory = [b for row in result.workers for b in (row.rss_bytes, row.gpu_bytes) if not isinstance(b, NotAvailable)]
    show = sizes(memory) if len(set(memory)) > 1 else size
    one_node = len({row.node for row in result.workers if row.node}) < 2
    columns = [
        Column(text("workers"), wrap=True),
        Column(text("doing"), wrap=True),
        Column(text("for"), right=True, notation=ages),
        Column(text("progress"), right=True, spare=not any(isinstance(row.progress, str) for row in result.workers)),
        Column("CPU", right=True, spare=True),
        Column(pgettext("of a process", "memory"), right=True, spare=True),
        Column("pid" if one_node else text("process"), right=True, spare=True),
        Column(text("tier"), right=True, spare=True),
    ]
    return Table(
        text("Workers, those that are alike in one row"),
        columns,
        [_row(same, show, one_node=one_node) for same in groups],
        ROWS,
        pgettext("more", "groups of workers"),
    )


def _row(same: Sequence[RayWorker], show: Callable[[float], str], *, one_node: bool) -> list[Inline]:
    row = same[0]
    process = _process(same)
    mark = _MARKS.get(min(3, row.trouble))
    who = Span(_who(same, runs=4), "strong")
    tiers = sorted({r.tier for r in same})
    return [
        [Span(*mark), " ", who] if mark else who,
        _doing_where(row),
        _longest(same),
        _progress(same),
        _spread([r.cpu_percent for r in same], lambda x: f"{x:.0f} %"),
        _memory(same, show),
        (process.partition("pid ")[2] if one_node else process.replace(" · pid ", ":")) or DASH,
        "-".join(map(str, tiers)),
    ]


def _who(same: Sequence[RayWorker], runs: int = 12) -> str:
    return together([row.who for row in same], runs=runs) + (f" ({len(same):,})" if len(same) > 2 else "")


def _doing_where(row: RayWorker) -> Inline:
    if row.state not in _AT_WORK or (row.kind == "driver" and not isinstance(row.where, str)):
        return _cause(row)
    if isinstance(row.where, str):
        return [_doing(row), text(" at "), placed(row.where)]
    return [_doing(row), text(" at "), measured(row.where, str)]


def _doing(row: RayWorker) -> str:
    """The state, with what makes this one different from others in the same."""
    what = _state(row.state if row.state in ("running", "in __init__") else "blocked")
    if row.state == "running" and row.method and row.kind == "actor":
        what = text("running {method}", method=called(row.method))
    if row.kind == "driver":
        what = text("the driver")
    wait = awaited(row.waiting_for)
    if row.waiting_for.kind == "ray":
        who = together(row.waits_for, 3)
        wait = text("in {wait} on {who}", wait=wait, who=who) if who else text("in {wait}", wait=wait)
        return wait if row.kind == "driver" else text("{what} {in_wait}", what=what, in_wait=wait)
    waits = row.trouble and row.waiting_for.kind not in ("none", "sleep")
    return text("{what}, waiting for {wait}", what=what, wait=wait) if waits else what


def _state(state: str) -> str:
    return said(STATES, state)


def _longest(same: Sequence[RayWorker]) -> Inline:
    known = [row.since_s for row in same if not isinstance(row.since_s, NotAvailable)]
    if not known:
        return DASH
    low, high = measured(min(known), age), measured(max(known), age)
    return high if low.text == high.text else [low, " – ", high]


def _progress(same: Sequence[RayWorker]) -> Inline:
    if len(same) == 1 and isinstance(same[0].progress, str):
        return same[0].progress
    told = [row.progress for row in same if isinstance(row.progress, str)]
    if told:
        return _numbers(told)
    calls = [row.executed for row in same if not isinstance(row.executed, NotAvailable)]
    if not calls:
        return DASH
    low, high = min(calls), max(calls)
    return text("{calls} calls", calls=count(low) if low == high else f"{count(low)}–{count(high)}")


def _numbers(told: Sequence[str]) -> str:
    """``games 3–17``: the range of one counter over many workers. Texts are not added up."""
    names: dict[str, list[float]] = {}
    for words in told:
        for part in words.split(", "):
            name, _, value = part.rpartition(" ")
            with contextlib.suppress(ValueError):
                names.setdefault(name, []).append(float(value.replace(",", "")))
    pieces = [
        f"{name} {_bare(min(v))}" + (f"–{_bare(max(v))}" if min(v) != max(v) else "") for name, v in names.items() if v
    ]
    return ", ".join(pieces) or told[0]


def _bare(x: float) -> str:
    return f"{x:,.0f}" if math.isfinite(x) and x == int(x) else number(x)


def _spread(values: Sequence[Maybe[float]], show: Callable[[float], str]) -> Inline:
    known = [float(v) for v in values if not isinstance(v, NotAvailable)]
    if not known:
        return measured(values[0], show)
    low, high = show(min(known)), show(max(known))
    number_of_low, _, unit = low.rpartition(" ")
    both = f"{number_of_low}–{high}" if high.endswith(f" {unit}") else f"{low} – {high}"
    return Span(low if low == high else both, value=max(known))


def _memory(same: Sequence[RayWorker], show: Callable[[float], str]) -> Inline:
    """Resident, and on its GPU where it uses one."""
    resident = _spread([row.rss_bytes for row in same], show)
    gpu = [row.gpu_bytes for row in same if not isinstance(row.gpu_bytes, NotAvailable)]
    return [*spans(resident), text(", GPU "), *spans(_spread(gpu, show))] if gpu else resident


def _everybody(workers: Sequence[RayWorker]) -> Iterator[Block]:
    """One by one, for who unfolds it: the groups have no room for pids and nodes."""
    if len(workers) < 2:
        return
    progress = any(isinstance(row.progress, str) for row in workers)
    columns = [
        Column(text("worker")),
        Column(text("node")),
        Column("pid", right=True),
        Column(text("state"), wrap=True),
        *([Column(text("progress"), right=True)] if progress else []),
        Column("CPU", right=True),
        Column(pgettext("of a process", "memory"), right=True, notation=sizes),
        Column(text("calls"), right=True, notation=counts),
        Column(text("queued"), right=True, notation=counts),
        Column(text("tier"), right=True),
    ]
    rows: list[list[Inline]] = [
        [
            Span(row.who, "strong"),
            row.node or DASH,
            str(row.pid) if row.pid else DASH,
            _state_and_place(row),
            *([measured(row.progress, str)] if progress else []),
            measured(row.cpu_percent, lambda x: f"{x:.0f} %"),
            measured(row.rss_bytes, size),
            measured(row.executed, count),
            measured(row.queued, count),
            str(row.tier),
        ]
        for row in workers[:ONE_BY_ONE]
    ]
    body: list[Block] = [Table(text("Workers"), columns, rows, ONE_BY_ONE, pgettext("more", "workers"))]
    if len(workers) > ONE_BY_ONE:
        more = text("... and {n:,} more: see the result's workers, or --json", n=len(workers) - ONE_BY_ONE)
        body.append(Line(Span(more, "muted")))
    yield Fold(text("All {n:,} one by one", n=len(workers)), body)


def _state_and_place(row: RayWorker) -> Inline:
    if not isinstance(row.where, str) or shortened(row.where) in row.words:
        return row.words
    return [row.words, text(" at "), placed(row.where)]


# --- nodes ---------------------------------------------------------------------------------------------------------


def _nodes(nodes: Sequence[RayNode]) -> Iterator[Block]:
    alive = [node for node in nodes if node.alive]
    if not alive:
        return
    dead = len(nodes) - len(alive)
    summary: list[str | Span] = [counted("{n:,} node: {cpus}", "{n:,} nodes: {cpus}", len(alive), cpus=_cpus(alive))]
    if dead:
        summary.append(Span(text(", {n} dead", n=dead), "warn"))
    columns = [
        Column(text("node")),
        Column(text("state"), wrap=True),
        Column(text("CPU taken"), right=True),
        Column(text("GPU taken"), right=True),
        Column(pgettext("load", "machine"), right=True),
        Column(pgettext("of a process", "memory"), right=True),
        Column(text("object store"), right=True),
        Column(text("spilled"), right=True, notation=sizes),
    ]
    rows: list[list[Inline]] = [
        [
            Span(node.ip + (text(" (head)") if node.head else ""), "strong"),
            pgettext("a node", "up") if node.alive else Span(_dead(node.why_dead), "warn"),
            _taken(node, "CPU"),
            _taken(node, "GPU"),
            measured(node.cpu_percent, lambda x: f"{x:.0f} %"),
            _of(node.memory_used_bytes, node.memory_total_bytes),
            _of(node.object_store_used_bytes, node.object_store_total_bytes),
            measured(node.spilled_bytes, size),
        ]
        for node in sorted(nodes, key=lambda node: (node.alive, not node.head, node.ip))
    ]
    yield Fold(summary, [Table(text("Nodes"), columns, rows, 24, pgettext("more", "nodes"))])


def _dead(why: str) -> str:
    dead = pgettext("a node", "dead")
    return text("{state}: {why}", state=dead, why=why) if why else dead


def _cpus(nodes: Sequence[RayNode]) -> str:
    total = sum(node.resources_total.get("CPU", 0.0) for node in nodes)
    free = [
        node.resources_available.get("CPU", 0.0)
        for node in nodes
        if not isinstance(node.resources_available, NotAvailable)
    ]
    if len(free) < len(nodes):
        return text("{total} CPU", total=f"{total:g}")
    return text("{taken} of {total} CPU taken", taken=f"{total - sum(free):g}", total=f"{total:g}")


def _taken(node: RayNode, resource: str) -> Inline:
    total = node.resources_total.get(resource, 0.0)
    if not total or not node.alive:
        return DASH
    if isinstance(node.resources_available, NotAvailable):
        return measured(node.resources_available, str)
    taken = total - node.resources_available.get(resource, 0.0)
    return Span(text("{used} of {total}", used=f"{taken:g}", total=f"{total:g}"), value=taken)


def _of(used: object, total: object) -> Inline:
    if isinstance(used, NotAvailable):
        return measured(used, str)
    if not isinstance(used, (int, float)) or not isinstance(total, (int, float)):
        return DASH
    return Span(text("{used} of {total}", used=size(used), total=size(total)), value=used)
