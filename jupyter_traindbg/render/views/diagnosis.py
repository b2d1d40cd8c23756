"""`Diagnosis`: is it really stuck, by what was that judged, every rank in a line (those that are alike in one row), and what was looked at.

The verdicts themselves come before it, as cards (`render.document`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...language import pgettext, text
from ...model import Check, Diagnosis, RankState
from ...ray.workers.naming import together
from ...words.durations import age, duration
from ...words.ranks import compact_ranks, rank_list
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, measured
from ..grouping import group_by, hosts_of
from ..links import placed
from ..notations import ages

ORDER = ("stopped", "ended", "not seen", "not known", "computing", "starting", "waiting", "stepping", "idle")
"""The odd ones first: what most ranks do in a hung job is wait."""


def view(result: Diagnosis) -> Iterator[Block]:
    words, tone = state_words(result)
    if not result.findings and result.state not in ("not known", "healthy"):
        words += text("; nothing wrong was found")
    yield Answer(words, [result.target, duration(result.taken_s)], tone)
    if result.state == "slow":
        yield Line(text("`%slow` tells where a step goes, by rank and line, and what mending it saves"))
    if result.ranks:
        yield ranks_table(result.ranks)
    if result.why:
        yield Fold(text("Judged by"), [Items(list(result.why))], needed=True)
    if result.checks:
        yield Fold(_looked_at(result.checks), list(_checks(result.checks)), needed=True)


def state_words(result: Diagnosis) -> tuple[str, Tone]:
    """The job's state as a sentence, and how good it is."""
    ray = any(rank.who for rank in result.ranks)
    idle = text("no worker runs a call") if ray else text("the kernel runs no cell")
    if len(result.ranks) == 1 and result.ranks[0].state == "idle" and not ray:
        idle = result.ranks[0].doing
    said: dict[str, tuple[str, Tone]] = {
        "stuck": (text("The job is stuck"), "bad"),
        "failed": (text("The job has failed"), "bad"),
        "unsound": (text("The job gets on, but its training is not sound"), "bad"),
        "slow": (text("The job gets on, slowly"), "warn"),
        "progressing": (text("The job gets on; it is not stuck"), "good"),
        "healthy": (text("The job is healthy"), "good"),
        "idle": (text("Nothing trains now: {idle}", idle=idle), "good"),
        "ended": (text("The job has ended"), "plain"),
        "not known": (text("Whether the job is stuck is not known"), "warn"),
    }
    return said.get(result.state, (result.state, "warn"))


def ranks_table(ranks: Sequence[RankState]) -> Table:
    groups = sorted(group_by(ranks, _alike), key=lambda same: (_oddness(same[0].state), len(same), same[0].rank))
    steps = any(r.steps is not None for r in ranks)
    since = any(r.since_s is not None for r in ranks)
    named = any(r.who for r in ranks)
    hosts = any(r.host for r in ranks)
    calls = named and not any(r.state == "stepping" for r in ranks)
    columns = [
        Column(text("workers"), wrap=True) if named else Column(text("ranks")),
        *([Column(text("host"), wrap=True)] if hosts else []),
        Column("pid", spare=True),
        Column(text("state")),
        Column(text("doing"), wrap=True),
        Column(text("where"), wrap=True),
        *([Column(text("calls") if calls else text("step"), right=True)] if steps else []),
        *([Column(text("for"), right=True, notation=ages)] if since else []),
    ]
    rows = [_row(same, steps=steps, since=since, hosts=hosts) for same in groups]
    title = text("Workers") if named else text("Ranks")
    return Table(
        title,
        columns,
        rows,
        24,
        pgettext("more", "groups of workers") if named else pgettext("more", "groups of ranks"),
    )


def _looked_at(checks: Sequence[Check]) -> str:
    """``Also looked at: 5 fine, 2 not known``."""
    counts: Counter[str] = Counter(check.state for check in checks)
    words = {
        "trouble": text("not well"),
        "fine": text("fine"),
        "not known": text("not known"),
    }
    order = [*words, *(state for state in counts if state not in words)]
    told = [f"{counts[state]} {words.get(state, state)}" for state in order if counts[state]]
    return text("Also looked at: ") + text(", ").join(told)


def _checks(checks: Sequence[Check]) -> Iterator[Block]:
    """What was seen, topic by topic; then what is not known, by the reason."""
    known = [c for c in checks if c.state != "not known"]
    if known:
        yield _seen(known)
    for same in group_by([c for c in checks if c.state == "not known"], lambda c: c.words):
        topics = pgettext("list", ", ").join(c.topic for c in same)
        yield Line(
            [
                Span(text("Not known: "), "muted"),
                text("{topics} ({words})", topics=topics, words=same[0].words),
            ]
        )


def _seen(checks: Sequence[Check]) -> Table:
    columns = [
        Column(text("what")),
        Column(text("verdict")),
        Column(text("seen"), wrap=True),
        Column(text("more by"), spare=True),
    ]
    said: dict[str, tuple[str, Tone]] = {
        "fine": (text("fine"), "good"),
        "trouble": (text("not well"), "bad"),
    }
    rows: list[list[Inline]] = [
        [c.topic, Span(*said.get(c.state, (c.state, "warn"))), c.words, Span(c.verb, "code")] for c in checks
    ]
    return Table(text("Topic by topic"), columns, rows, len(rows), pgettext("more", "topics"))


def _oddness(state: str) -> int:
    return ORDER.index(state) if state in ORDER else len(ORDER)


def _alike(rank: RankState) -> tuple[object, ...]:
    return rank.state, rank.doing, rank.where


def _row(same: Sequence[RankState], *, steps: bool, since: bool, hosts: bool) -> list[Inline]:
    rank = same[0]
    pids = [r.pid for r in same if r.pid]
    row: list[Inline] = [
        Span(_names(same), "strong"),
        *([hosts_of(r.host for r in same)] if hosts else []),
        (rank_list(pids) if len(pids) <= 4 else text("{n} pids", n=len(pids))) if pids else DASH,
        _word(rank.state),
        rank.doing,
        placed(rank.where) if rank.where else DASH,
    ]
    if steps:
        row.append(_range([r.steps for r in same if r.steps is not None]))
    if since:
        longest = max((r.since_s for r in same if r.since_s is not None), default=None)
        row.append(measured(longest, age))
    return row


def _names(same: Sequence[RankState]) -> str:
    if not any(r.who for r in same):
        return compact_ranks([r.rank for r in same])
    return together([r.who or f"rank {r.rank}" for r in same]) + (f" ({len(same)})" if len(same) > 2 else "")


def _word(state: str) -> Inline:
    said: dict[str, tuple[str, Tone]] = {
        "stepping": (text("stepping"), "good"),
        "computing": (pgettext("state", "computing"), "good"),
        "waiting": (pgettext("state", "waiting"), "plain"),
        "stopped": (pgettext("state", "stopped"), "bad"),
        "ended": (text("ended"), "bad"),
        "starting": (text("starting"), "plain"),
        "idle": (text("idle"), "muted"),
        "not seen": (text("not seen"), "warn"),
        "not known": (text("not known"), "muted"),
    }
    words, tone = said.get(state, (state, "plain"))
    return Span(words, tone)


def _range(steps: Sequence[int]) -> Inline:
    if not steps:
        return DASH
    low, high = min(steps), max(steps)
    return Span(str(low) if low == high else f"{low}-{high}", value=low)
