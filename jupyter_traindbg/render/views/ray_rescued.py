"""`RayRescued`: a plan, or what was done and seen to be so; each thing with its state before and after."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import RayRescue, RayRescued
from ..blocks import Block, Card, Fold, Inline, Items, Line, Pair, Pairs, Span, Tone
from ..units import duration, plural

SHOWN = 12
_UNKNOWN: tuple[str, Tone] = ("●", "info")
_STATES: dict[str, tuple[str, Tone]] = {
    "planned": ("○", "info"),
    "verified": ("✔", "good"),
    "not done": ("✖", "bad"),
    "left": ("–", "muted"),
}


def view(result: RayRescued) -> Iterator[Block]:
    yield Line(
        [Span(result.action, "strong"), f" · {_state(result)} · {result.address} · {duration(result.took_s)}"],
        title=True,
    )
    cards = [_card(item) for item in result.items]
    yield from cards[:SHOWN]
    if len(cards) > SHOWN:
        yield Fold(f"... and {len(cards) - SHOWN} more", cards[SHOWN:])
    if result.confirm:
        yield Line(
            [
                Span(text("nothing was changed; to do it, add: ", "尚未做任何更改；要执行，请加上："), "strong"),
                Span(result.confirm, "code"),
            ]
        )
    if result.notes:
        yield Items(list(result.notes))


def _state(result: RayRescued) -> str:
    if not result.items:
        return text("there is nothing", "没有可处理的内容")
    if not result.done:
        planned = sum(item.state == "planned" for item in result.items)
        return text(f"a plan for {plural(planned, 'thing')}", f"计划，共 {planned} 项")
    tried = [item for item in result.items if item.state != "left"]
    good = sum(item.state == "verified" for item in tried)
    if good == len(tried):
        return text("done and verified", "已完成并核实")
    return text(f"{good} of {len(tried)} done and verified", f"{len(tried)} 项中 {good} 项已完成并核实")


def _card(item: RayRescue) -> Card:
    symbol, tone = _STATES.get(item.state, _UNKNOWN)
    title: list[str | Span] = [
        Span(item.state, tone),
        " ",
        Span(item.who, "strong"),
        Span(f"  {item.kind} {item.ident}", "muted"),
    ]
    pairs = [
        Pair(text("before", "之前"), _lines(item.before)),
        Pair(text("to do", "要做"), _lines(item.will)) if item.state == "planned" else None,
        Pair(text("now", "现在"), _lines(item.after)),
        Pair(text("note", "说明"), _lines(item.note)),
        Pair(text("took", "耗时"), [duration(item.took_s)] if item.took_s else []),
    ]
    return Card(title, [Pairs([pair for pair in pairs if pair is not None and pair.lines])], tone, symbol)


def _lines(words: str) -> list[Inline]:
    return [words] if words else []
