"""`RayWorkers`: who is in trouble; then everybody, those that are alike in one row; then nodes, and where all of it comes from.

The verdicts come before it, as cards (`render.document`); whoever is named there needs no card here.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ...frames.whose import at_place, shortened
from ...language import counted, text
from ...model import NO_WAIT, Maybe, NotAvailable, RayNode, RayWorker, RayWorkers
from ...ray.workers.naming import together
from ...ray.workers.words import called
from ...words.durations import age, duration
from ..blocks import Answer, Bar, Block, Card, Column, Fold, Inline, Items, Line, Part, Span, Table, Tone, spans
from ..common import DASH, measured
from ..findings import tone
from ..grouping import group_by
from ..links import placed
from ..notations import ages, counts, sizes
from ..units import count, number, plural, size

CARDS, ROWS, ONE_BY_ONE = 6, 16, 120
_MARKS: dict[int, tuple[str, Tone]] = {3: ("✖", "bad"), 2: ("▲", "warn"), 1: ("△", "muted")}
_WORST: Sequence[Tone] = ("bad", "warn", "info", "good", "plain")
_AT_WORK = ("running", "in __init__", "blocked")
_STATE_ORDER = (
    "running",
    "blocked",
    "in __init__",
    "idle",
    "starting",
    "registering",
    "building runtime_env",
    "waiting for resources",
    "waiting for an argument",
    "infeasible",
    "restarting",
    "dead",
    "not known",
    "ended",
)


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
        yield Line(Span(f"... and {len(worst) - CARDS} more kinds of trouble: the table has them", "muted"))
    if result.workers:
        yield _table(result)
    yield from _nodes(result.nodes)
    yield from _everybody(result.workers)
    if result.notes:
        yield Items([Span(note, "muted") for note in result.notes], Span("Where this comes from", "muted"))


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
            words += text(", but {findings} on the job", findings=plural(n, "finding"), n=n)
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
        of = text("{troubled:,} of {workers}", troubled=troubled, workers=plural(n, "worker"), n=n)
        if troubled < len(worst):
            of = text("the driver") + (text(" and ") + of if troubled else "")
        verb = "is" if len(worst) == 1 else "are"
        who = together([row.who for row in worst if row.kind != "driver"], runs=4)
        named = text(": {who}", who=who) if who else ""
        words = text("{of} {verb} in trouble{named}", of=of, verb=verb, named=named)
        return words, _MARKS[min(3, max(row.trouble for row in worst))][1]
    late = sum(row.trouble == 1 for row in workers)
    unknown = sum(row.state == "not known" for row in workers)
    who = "the only worker" if n == 1 else f"none of {n:,} workers"
    words = text("{who} is in {value}trouble", who=who, value="no " * (n == 1), n=n)
    if late:
        words += text(", {late:,} {value} held up", late=late, value="is" if late == 1 else "are")
    if unknown:
        words += text("; nothing is known of {unknown:,}", unknown=unknown)
    seen = result.tier > 0 and not result.silent and not late
    return words, "warn" if unknown else "good" if seen else "info"


def _states(workers: Sequence[RayWorker]) -> Bar | None:
    """How many are in which state; the fifth part is the rest."""
    counts = Counter(row.state for row in workers)
    if not counts:
        return None
    order = {state: i for i, state in enumerate(_STATE_ORDER)}
    ordered = sorted(counts, key=lambda state: (-counts[state], order.get(state, len(order))))
    shown = ordered if len(ordered) <= 5 else ordered[:4]
    parts = [Part(state, counts[state] / len(workers), count(counts[state])) for state in shown]
    rest = ordered[len(shown) :]
    if rest:
        n = sum(counts[state] for state in rest)
        names = ", ".join(f"{state} {counts[state]:,}" for state in rest[:-1])
        parts.append(Part(f"{names}, {rest[-1]}", n / len(workers), count(counts[rest[-1]])))
    return Bar("", parts)


# --- who is in trouble ---------------------------------------------------------------------------------------------


def _card(same: Sequence[RayWorker]) -> Card:
    row = same[0]
    symbol, tone = _MARKS[min(3, row.trouble)]
    title: list[str | Span] = [Span(_who(same), "strong"), " · ", row.words]
    body: list[Block] = []
    process = Span(_process(same), "muted")
    if isinstance(row.where, str):
        at: list[str | Span] = ["at ", Span(row.where, "code", link=at_place(row.where))]
        body.append(Line([*at, " · ", process] if process.text else at))
    elif process.text:
        title += [" · ", process]
    if row.detail:
        body.append(Items(list(row.detail)))
    return Card(title, body, tone, symbol)


def _process(same: Sequence[RayWorker]) -> str:
    """The node and the pid; of several only how many nodes they are on."""
    nodes = sorted({row.node for row in same if row.node})
    node = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else ""
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
    return f"{row.state}: {why}" if why else row.state


def _table(result: RayWorkers) -> Table:
    groups = _groups(result.workers)
    memory = [b for row in result.workers for b in (row.rss_bytes, row.gpu_bytes) if not isinstance(b, NotAvailable)]
    show = sizes(memory) if len(set(memory)) > 1 else size
    one_node = len({row.node for row in result.workers if row.node}) < 2
    columns = [
        Column("workers", wrap=True),
        Column("doing", wrap=True),
        Column("for", right=True, notation=ages),
        Column("progress", right=True, spare=not any(isinstance(row.progress, str) for row in result.workers)),
        Column("CPU", right=True, spare=True),
        Column("memory", right=True, spare=True),
        Column("pid" if one_node else "process", right=True, spare=True),
        Column("tier", right=True, spare=True),
    ]
    return Table(
        "Workers, those that are alike in one row",
        columns,
        [_row(same, show, one_node=one_node) for same in groups],
        ROWS,
        "groups of workers",
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
        return [_doing(row), " at ", placed(row.where)]
    return [_doing(row), " at ", measured(row.where, str)]


def _doing(row: RayWorker) -> str:
    """The state, with what makes this one different from others in the same."""
    what = {
        "running": f"running {called(row.method)}" if row.method and row.kind == "actor" else "running",
        "in __init__": "in __init__",
    }.get(row.state, "blocked")
    if row.kind == "driver":
        what = "the driver"
    if row.waiting_for.kind == "ray":
        return f"{what} in {row.waiting_for}{_on(row)}" if row.kind != "driver" else f"in {row.waiting_for}{_on(row)}"
    waits = row.trouble and row.waiting_for.kind not in ("none", "sleep")
    return f"{what}, waiting for {row.waiting_for}" if waits else what


def _on(row: RayWorker) -> str:
    if not row.waits_for:
        return ""
    return f" on {together(row.waits_for, 3)}"


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
    return f"{count(low)} calls" if low == high else f"{count(low)}–{count(high)} calls"


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
    return [*spans(resident), ", GPU ", *spans(_spread(gpu, show))] if gpu else resident


def _everybody(workers: Sequence[RayWorker]) -> Iterator[Block]:
    """One by one, for who unfolds it: the groups have no room for pids and nodes."""
    if len(workers) < 2:
        return
    progress = any(isinstance(row.progress, str) for row in workers)
    columns = [
        Column("worker"),
        Column("node"),
        Column("pid", right=True),
        Column("state", wrap=True),
        *([Column("progress", right=True)] if progress else []),
        Column("CPU", right=True),
        Column("memory", right=True, notation=sizes),
        Column("calls", right=True, notation=counts),
        Column("queued", right=True, notation=counts),
        Column("tier", right=True),
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
    body: list[Block] = [Table("Workers", columns, rows, ONE_BY_ONE, "workers")]
    if len(workers) > ONE_BY_ONE:
        more = f"... and {len(workers) - ONE_BY_ONE:,} more: see the result's workers, or --json"
        body.append(Line(Span(more, "muted")))
    yield Fold(f"All {len(workers):,} one by one", body)


def _state_and_place(row: RayWorker) -> Inline:
    if not isinstance(row.where, str) or shortened(row.where) in row.words:
        return row.words
    return [row.words, " at ", placed(row.where)]


# --- nodes ---------------------------------------------------------------------------------------------------------


def _nodes(nodes: Sequence[RayNode]) -> Iterator[Block]:
    alive = [node for node in nodes if node.alive]
    if not alive:
        return
    dead = len(nodes) - len(alive)
    summary: list[str | Span] = [f"{plural(len(alive), 'node')}: {_cpus(alive)}"]
    if dead:
        summary.append(Span(f", {dead} dead", "warn"))
    columns = [
        Column("node"),
        Column("state", wrap=True),
        Column("CPU taken", right=True),
        Column("GPU taken", right=True),
        Column("machine", right=True),
        Column("memory", right=True),
        Column("object store", right=True),
        Column("spilled", right=True, notation=sizes),
    ]
    rows: list[list[Inline]] = [
        [
            Span(f"{node.ip}{' (head)' if node.head else ''}", "strong"),
            "up" if node.alive else Span(f"dead: {node.why_dead}" if node.why_dead else "dead", "warn"),
            _taken(node, "CPU"),
            _taken(node, "GPU"),
            measured(node.cpu_percent, lambda x: f"{x:.0f} %"),
            _of(node.memory_used_bytes, node.memory_total_bytes),
            _of(node.object_store_used_bytes, node.object_store_total_bytes),
            measured(node.spilled_bytes, size),
        ]
        for node in sorted(nodes, key=lambda node: (node.alive, not node.head, node.ip))
    ]
    yield Fold(summary, [Table("Nodes", columns, rows, 24, "nodes")])


def _cpus(nodes: Sequence[RayNode]) -> str:
    total = sum(node.resources_total.get("CPU", 0.0) for node in nodes)
    free = [
        node.resources_available.get("CPU", 0.0)
        for node in nodes
        if not isinstance(node.resources_available, NotAvailable)
    ]
    return f"{total - sum(free):g} of {total:g} CPU taken" if len(free) == len(nodes) else f"{total:g} CPU"


def _taken(node: RayNode, resource: str) -> Inline:
    total = node.resources_total.get(resource, 0.0)
    if not total or not node.alive:
        return DASH
    if isinstance(node.resources_available, NotAvailable):
        return measured(node.resources_available, str)
    taken = total - node.resources_available.get(resource, 0.0)
    return Span(f"{taken:g} of {total:g}", value=taken)


def _of(used: object, total: object) -> Inline:
    if isinstance(used, NotAvailable):
        return measured(used, str)
    if not isinstance(used, (int, float)) or not isinstance(total, (int, float)):
        return DASH
    return Span(f"{size(used)} of {size(total)}", value=used)
