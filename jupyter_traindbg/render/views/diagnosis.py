"""`Diagnosis`: is it really stuck, by what was that judged, every rank in a line (those that are alike in one row), and what was looked at.

The verdicts themselves come before it, as cards (`render.document`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...language import text
from ...model import Check, Diagnosis, RankState
from ...ray.workers.naming import together
from ...words.durations import age, duration
from ...words.ranks import compact_ranks, rank_list
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, measured
from ..grouping import group_by
from ..links import placed
from ..notations import ages

ORDER = ("stopped", "ended", "not seen", "not known", "computing", "starting", "waiting", "stepping", "idle")
"""The odd ones first: what most ranks do in a hung job is wait."""


def view(result: Diagnosis) -> Iterator[Block]:
    words, tone = state_words(result)
    if not result.findings and result.state not in ("not known", "healthy"):
        words += text("; nothing wrong was found", "；没有发现问题")
    yield Answer(words, [result.target, duration(result.taken_s)], tone)
    if result.ranks:
        yield _table(result.ranks)
    if result.why:
        yield Fold(text("Judged by", "判断依据"), [Items(list(result.why))], needed=True)
    if result.checks:
        yield Fold(_looked_at(result.checks), list(_checks(result.checks)), needed=True)


def state_words(result: Diagnosis) -> tuple[str, Tone]:
    """The job's state as a sentence, and how good it is."""
    ray = any(rank.who for rank in result.ranks)
    idle = (
        ("no worker runs a call", "没有 worker 在执行调用")
        if ray
        else ("the kernel runs no cell", "kernel 没有在执行单元格")
    )
    said: dict[str, tuple[str, Tone]] = {
        "stuck": (text("The job is stuck", "任务已卡死"), "bad"),
        "failed": (text("The job has failed", "任务已失败"), "bad"),
        "unsound": (text("The job gets on, but its training is not sound", "任务在推进，但训练本身有问题"), "bad"),
        "slow": (text("The job gets on, slowly", "任务在推进，但较慢"), "warn"),
        "progressing": (text("The job gets on; it is not stuck", "任务在推进，并未卡死"), "good"),
        "healthy": (text("The job is healthy", "任务运行正常"), "good"),
        "idle": (text(f"Nothing trains now: {idle[0]}", f"当前没有训练：{idle[1]}"), "good"),
        "ended": (text("The job has ended", "任务已结束"), "plain"),
        "not known": (text("Whether the job is stuck is not known", "无法判断任务是否卡死"), "warn"),
    }
    return said.get(result.state, (result.state, "warn"))


def _table(ranks: Sequence[RankState]) -> Table:
    groups = sorted(group_by(ranks, _alike), key=lambda same: (_oddness(same[0].state), len(same), same[0].rank))
    steps = any(r.steps is not None for r in ranks)
    since = any(r.since_s is not None for r in ranks)
    named = any(r.who for r in ranks)
    calls = named and not any(r.state == "stepping" for r in ranks)
    columns = [
        Column(text("workers", "worker"), wrap=True) if named else Column(text("ranks", "rank")),
        Column("pid", spare=True),
        Column(text("state", "状态")),
        Column(text("doing", "正在做"), wrap=True),
        Column(text("where", "位置"), wrap=True),
        *([Column(text("calls", "调用") if calls else text("step", "步"), right=True)] if steps else []),
        *([Column(text("for", "已持续"), right=True, notation=ages)] if since else []),
    ]
    rows = [_row(same, steps=steps, since=since) for same in groups]
    title = text("Workers", "各 worker") if named else text("Ranks", "各 rank")
    return Table(
        title,
        columns,
        rows,
        24,
        text("groups of workers", "组 worker") if named else text("groups of ranks", "组 rank"),
    )


def _looked_at(checks: Sequence[Check]) -> str:
    """``Also looked at: 5 fine, 2 not known``."""
    counts: Counter[str] = Counter(check.state for check in checks)
    words = {
        "trouble": text("not well", "有问题"),
        "fine": text("fine", "正常"),
        "not known": text("not known", "未知"),
    }
    order = [*words, *(state for state in counts if state not in words)]
    told = [f"{counts[state]} {words.get(state, state)}" for state in order if counts[state]]
    return text("Also looked at: ", "其他检查：") + text(", ", "，").join(told)


def _checks(checks: Sequence[Check]) -> Iterator[Block]:
    """What was seen, topic by topic; then what is not known, by the reason."""
    known = [c for c in checks if c.state != "not known"]
    if known:
        yield _seen(known)
    for same in group_by([c for c in checks if c.state == "not known"], lambda c: c.words):
        topics = text(", ", "、").join(c.topic for c in same)
        yield Line(
            [
                Span(text("Not known: ", "未知："), "muted"),
                text(f"{topics} ({same[0].words})", f"{topics}（{same[0].words}）"),
            ]
        )


def _seen(checks: Sequence[Check]) -> Table:
    columns = [
        Column(text("what", "内容")),
        Column(text("verdict", "结论")),
        Column(text("seen", "观察到"), wrap=True),
        Column(text("more by", "详见"), spare=True),
    ]
    said: dict[str, tuple[str, Tone]] = {
        "fine": (text("fine", "正常"), "good"),
        "trouble": (text("not well", "有问题"), "bad"),
    }
    rows: list[list[Inline]] = [
        [c.topic, Span(*said.get(c.state, (c.state, "warn"))), c.words, Span(c.verb, "code")] for c in checks
    ]
    return Table(text("Topic by topic", "逐项"), columns, rows, len(rows), text("topics", "项"))


def _oddness(state: str) -> int:
    return ORDER.index(state) if state in ORDER else len(ORDER)


def _alike(rank: RankState) -> tuple[object, ...]:
    return rank.state, rank.doing, rank.where


def _row(same: Sequence[RankState], *, steps: bool, since: bool) -> list[Inline]:
    rank = same[0]
    pids = [r.pid for r in same if r.pid]
    row: list[Inline] = [
        Span(_names(same), "strong"),
        (rank_list(pids) if len(pids) <= 4 else f"{len(pids)} pids") if pids else DASH,
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
        "stepping": (text("stepping", "步进中"), "good"),
        "computing": (text("computing", "计算中"), "good"),
        "waiting": (text("waiting", "等待"), "plain"),
        "stopped": (text("stopped", "已停止"), "bad"),
        "ended": (text("ended", "已结束"), "bad"),
        "starting": (text("starting", "启动中"), "plain"),
        "idle": (text("idle", "空闲"), "muted"),
        "not seen": (text("not seen", "未见到"), "warn"),
        "not known": (text("not known", "未知"), "muted"),
    }
    words, tone = said.get(state, (state, "plain"))
    return Span(words, tone)


def _range(steps: Sequence[int]) -> Inline:
    if not steps:
        return DASH
    low, high = min(steps), max(steps)
    return Span(str(low) if low == high else f"{low}-{high}", value=low)
