"""`RayRescued`: what was done and seen to be so, or a plan; each thing with its state before and after, what was not done first."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import counted, later, named, text
from ...model import RayRescue, RayRescued
from ...words.durations import duration
from ..blocks import Answer, Block, Card, Fold, Inline, Items, Line, Pair, Pairs, Span, Tone

SHOWN = 12
_ORDER = ("not done", "planned", "verified", "left")
_UNKNOWN: tuple[str, Tone] = ("●", "info")
_STATES: dict[str, tuple[str, Tone]] = {
    "planned": ("○", "info"),
    "verified": ("✔", "good"),
    "not done": ("✖", "bad"),
    "left": ("–", "muted"),
}

_WORDS = {
    "planned": later("planned"),
    "verified": later("verified"),
    "not done": later("not done"),
    "left": later("left"),
}


def view(result: RayRescued) -> Iterator[Block]:
    state, tone = _state(result)
    yield Answer([result.action, text(": "), state], [result.address, duration(result.took_s)], tone)
    order = {state: i for i, state in enumerate(_ORDER)}
    cards = [_card(item) for item in sorted(result.items, key=lambda item: order.get(item.state, 0))]
    yield from cards[:SHOWN]
    if len(cards) > SHOWN:
        yield Fold(counted("... and {n} more", "... and {n} more", len(cards) - SHOWN), cards[SHOWN:])
    if result.confirm:
        yield Line(
            [
                Span(text("to do it, add: "), "strong"),
                Span(result.confirm, "code"),
            ]
        )
    if result.notes:
        yield Items(list(result.notes))


def _state(result: RayRescued) -> tuple[str, Tone]:
    tried = [item for item in result.items if item.state != "left"]
    n, left = len(tried), len(result.items) - len(tried)
    if not tried:
        kept = counted(", {n:,} left as it is", ", {n:,} left as they are", left) if left else ""
        return text("there is nothing to do") + kept, "plain"
    if not result.done:
        words = counted("{n:,} thing to do, nothing was changed yet", "{n:,} things to do, nothing was changed yet", n)
        return words, "info"
    good = sum(item.state == "verified" for item in tried)
    if good == n:
        return text("all {n:,} done and verified", n=n) if n > 1 else text("done and verified"), "good"
    if not good:
        return text("not done") if n == 1 else text("none of {n:,} done", n=n), "bad"
    return text("{good:,} of {n:,} done and verified", good=good, n=n), "warn"


def _card(item: RayRescue) -> Card:
    symbol, tone = _STATES.get(item.state, _UNKNOWN)
    title: list[str | Span] = [
        Span(named(_WORDS, item.state), tone),
        " ",
        Span(item.who, "strong"),
        Span(f"  {item.kind} {item.ident}", "muted"),
    ]
    pairs = [
        Pair(text("before"), _lines(item.before)),
        Pair(text("to do"), _lines(item.will)) if item.state == "planned" else None,
        Pair(text("now"), _lines(item.after)),
        Pair(text("note"), _lines(item.note)),
        Pair(text("took"), [duration(item.took_s)] if item.took_s else []),
    ]
    return Card(title, [Pairs([pair for pair in pairs if pair is not None and pair.lines])], tone, symbol)


def _lines(words: str) -> list[Inline]:
    return [words] if words else []
