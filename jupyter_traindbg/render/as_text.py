"""Blocks as text at a terminal, through rich. Every string goes through `clean`: nothing that a name contains can steer the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from ..commands import command, spelled
from ..frames.whose import line_of, short_path, short_place
from ..language import pgettext, text
from ..model import Excerpt
from .blocks import (
    Answer,
    Bar,
    Block,
    Card,
    Cards,
    Column,
    Curve,
    Fold,
    Frames,
    Image,
    Inline,
    Items,
    Line,
    Pair,
    Pairs,
    Source,
    Span,
    Table,
    Tone,
    and_more,
    fitted,
    not_available,
    spans,
)
from .chart import sparkline
from .clean import clean
from .columns import uniform
from .frames import runs
from .links import local

__all__ = ["draw"]

STYLES: dict[Tone, str] = {
    "plain": "",
    "strong": "bold",
    "muted": "dim",
    "good": "green",
    "warn": "bold yellow",
    "bad": "bold red",
    "info": "bold cyan",
    "code": "cyan",
}
BAR_CHARACTERS = "█▓▒░·▪"
BAR_WIDTH = 40
NARROWEST = 40
GAP, WORD, PROSE = 2, 16, 28
BESIDE, INDENT = 40, 4
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def draw(blocks: Sequence[Block], *, width: int, colour: bool, full: bool = False) -> str:
    """`blocks` in lines of at most `width` characters (but at least 40). `full` opens the folds."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(NARROWEST, width),
        height=100,
        force_terminal=colour,
        force_jupyter=False,  # or it would display itself beside the cell's result
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},  # COLUMNS, FORCE_COLOR and NO_COLOR are the caller's to judge
    )
    drawing = _Drawing(max(NARROWEST, width), full)
    for i, block in enumerate(blocks):
        if i and _airy(blocks[i - 1], block):
            console.print()
        console.print(drawing.of(block))
    for note in drawing.footnotes():
        console.print(note)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _airy(before: Block, block: Block) -> bool:
    """An empty line stands before what is large or begins something, not between the lines of one thought."""
    if isinstance(before, Line) and before.title:
        return isinstance(block, (Card, Cards))
    return _is_large(block) or _is_large(before) or (isinstance(block, Line) and block.title)


def _is_large(block: Block) -> bool:
    return isinstance(block, (Table, Card, Cards)) or (isinstance(block, Fold) and block.needed)


class _Drawing:
    """Turns blocks into what rich prints, and remembers the footnotes on the way."""

    def __init__(self, width: int, full: bool) -> None:
        self.width, self.full = width, full
        self.notes: dict[str, int] = {}

    def of(self, block: Block, depth: int = 0) -> RenderableType:
        drawn: RenderableType
        match block:
            case Answer():
                drawn = self._answer(block)
            case Line():
                drawn = self.words(block.content, "bold" if block.title else "")
            case Items():
                drawn = Group(*self._items(block))
            case Table():
                drawn = self._table(block, depth)
            case Frames():
                drawn = Group(*self._frames(block, depth))
            case Pairs():
                drawn = self._pairs(block.pairs, depth)
            case Bar():
                drawn = self._bar(block, depth)
            case Curve():
                drawn = self._curve(block)
            case Image():
                drawn = Group(*(self.of(one, depth) for one in block.instead))
            case Card() | Cards():
                drawn = self._card(block, depth) if isinstance(block, Card) else self._cards(block.cards, depth)
            case Source():
                drawn = _source(block.excerpt)
            case Fold():
                drawn = self._fold(block, depth)
        return drawn

    def words(self, inline: Inline, style: str = "") -> Text:
        text = Text(style=style)
        for span in spans(inline):
            text.append(_shown(span), STYLES[span.tone])
            if span.why:
                text.append(str(self.notes.setdefault(span.why, len(self.notes) + 1)).translate(SUPERSCRIPT), "dim")
        return text

    def footnotes(self) -> Iterator[RenderableType]:
        if self.notes:
            yield Text()
        for why, n in self.notes.items():
            mark = Text(f"{str(n).translate(SUPERSCRIPT)} ", "dim")
            yield _hanging(mark, self.words(not_available(why), "dim"))

    def _indented(self, body: Sequence[Block], depth: int) -> Iterator[RenderableType]:
        for block in body:
            yield Padding(self.of(block, depth + 1), (0, 0, 0, 2))

    def _answer(self, answer: Answer) -> RenderableType:
        words = self.words(answer.words, "bold")
        if answer.tone in ("warn", "bad"):
            words.stylize(STYLES[answer.tone])
        for about in (about for about in answer.about if about):
            words.append(" · ", "dim not bold").append_text(self.words(about, "dim not bold"))
        return _hanging(Text(f"{answer.symbol} ", STYLES[answer.tone]), words) if answer.symbol else words

    def _cards(self, cards: Sequence[Card], depth: int) -> RenderableType:
        """All titles, then the cards."""
        titles = [
            _hanging(Text(f"  {n} {card.symbol or '•'} ", STYLES[card.tone]), self.words(card.title))
            for n, card in enumerate(cards, 1)
        ]
        spaced = [part for card in cards for part in (Text(), self._card(card, depth))]
        return Group(*titles, *spaced)

    def _card(self, card: Card, depth: int) -> RenderableType:
        symbol = Text(f"{card.symbol or '•'} ", STYLES[card.tone])
        return Group(_hanging(symbol, self.words(card.title)), *self._indented(card.body, depth))

    def _curve(self, curve: Curve) -> RenderableType:
        return _pasted(
            Text(f"{clean(curve.label)} "), Text(sparkline(curve.values), "cyan"), Text(f" {clean(curve.words)}")
        )

    def _fold(self, fold: Fold, depth: int) -> RenderableType:
        if fold.needed:
            return Group(self.words(fold.summary), *(self.of(block, depth) for block in fold.body))
        head = _hanging(Text("▾ " if self.full else "▸ ", "dim"), self.words(fold.summary))
        return Group(head, *self._indented(fold.body, depth)) if self.full else head

    def _items(self, block: Items) -> Iterator[RenderableType]:
        if block.lead:
            yield self.words(block.lead)
        for item in block.items:
            yield _hanging(Text("  - ", "dim"), self.words(item))

    def _pairs(self, pairs: Sequence[Pair], depth: int) -> RenderableType:
        grid = RichTable.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for pair in pairs:
            lines = [self._marked(pair, i, line) for i, line in enumerate(pair.lines, 1)]
            grid.add_row(Text(clean(pair.label)), Group(*lines, *(self.of(below, depth) for below in pair.below)))
        return grid

    def _marked(self, pair: Pair, i: int, line: Inline) -> RenderableType:
        mark = {"none": "", "bullets": "- ", "numbers": f"{i}. "}[pair.marks]
        return _hanging(Text(mark), self.words(line)) if mark else self.words(line)

    def _table(self, block: Table, depth: int) -> RenderableType:
        block = uniform(block)
        rows = block.rows if self.full else block.rows[: block.shown]
        width = self.width - 2 * depth
        kept = _fitting(block, rows, width)
        parts: list[RenderableType] = [self.words(block.caption, "dim")] if block.caption else []
        if block.columns[-1].below:
            parts += self._spread(block, rows, kept[:-1], width)
        else:
            parts.append(self._grid(block, rows, kept))
        if len(rows) < len(block.rows):
            parts.append(Text(and_more(block, len(rows)), "dim"))
        if len(kept) < len(block.columns):
            names = pgettext("list", ", ").join(clean(c.name) for i, c in enumerate(block.columns) if i not in kept)
            parts.append(Text(text("(left out, for the narrow terminal: {names})", names=names), "dim"))
        return Group(*parts)

    def _grid(self, block: Table, rows: Sequence[Sequence[Inline]], kept: Sequence[int]) -> RenderableType:
        table = RichTable(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1, 0, 0)
        )
        for i in kept:
            _add_column(table, block.columns[i], [row[i] for row in rows])
        for row in rows:
            table.add_row(*(self.words(row[i]) for i in kept))
        return table

    def _spread(
        self, block: Table, rows: Sequence[Sequence[Inline]], kept: Sequence[int], width: int
    ) -> Iterator[RenderableType]:
        """A table whose last column stands beside the `kept` ones, or, where it would have too little room there, below each row."""
        heads = [Text(clean(block.columns[i].name), "bold") for i in kept]
        columns = [[head, *(self.words(row[i]) for row in rows)] for head, i in zip(heads, kept, strict=True)]
        head, *lines = _aligned(columns, [block.columns[i].right for i in kept])
        room = width - head.cell_len
        beside = room >= min(BESIDE, max((cell_len(_plain(row[-1])) for row in rows), default=0))
        lasts = [self.words(fitted(row[-1], room if beside else width - INDENT)) for row in rows]
        if beside:
            head.append(clean(block.columns[-1].name), "bold")
            lines = [_pasted(line, last) for line, last in zip(lines, lasts, strict=True)]
        for line in (head, *lines):
            line.rstrip()
        rule = Text("─" * max(line.cell_len for line in (head, *lines)))
        for line, below in zip([head, rule, *lines], [None, None, *lasts], strict=True):
            line.truncate(width, overflow="ellipsis")
            yield line
            if below and not beside:
                yield Padding(below, (0, 0, 0, INDENT))

    def _frames(self, block: Frames, depth: int) -> Iterator[RenderableType]:
        room = self.width - 2 * depth - 2
        for run in runs(block.frames):
            if run.folded and not self.full:
                yield _hanging(Text("┆ ", "dim"), Text(f"... {clean(run.summary)}", "dim"))
                continue
            for frame in run.frames:
                if run.folded:
                    yield _hanging(Text("┆ ", "dim"), Text(clean(short_place(frame)), "dim"))
                else:
                    yield _pasted(
                        Text("┆ ", "dim") if frame.library else Text("› ", "bold"),
                        *_user_frame(clean(line_of(frame, short_path(frame))), clean(frame.function), room),
                    )

    def _bar(self, bar: Bar, depth: int) -> RenderableType:
        line, legend = Text(), [""]
        for i, part in enumerate(bar.parts):
            character = BAR_CHARACTERS[min(i, len(BAR_CHARACTERS) - 1)]
            line.append(character * round(part.share * BAR_WIDTH))
            words = f"{character} {clean(part.name)} {clean(part.words)}"
            if legend[-1] and cell_len(legend[-1]) + 3 + cell_len(words) > self.width - 2 * depth:
                legend.append("")
            legend[-1] += f"{'   ' if legend[-1] else ''}{words}"
        return Group(*(text for text in (Text(clean(bar.label)), line, *map(Text, legend)) if text.plain))


def _source(excerpt: Excerpt) -> RenderableType:
    """Each line cut at the margin: code that wraps cannot be read."""
    digits = len(str(excerpt.first + len(excerpt.lines) - 1))
    numbered = [(n == excerpt.line, n, clean(line)) for n, line in enumerate(excerpt.lines, excerpt.first)]
    return Group(
        *(
            Text(
                f"{'>' if meant else ' '} {n:>{digits}} │ {line}",
                "bold" if meant else "dim",
                no_wrap=True,
                overflow="ellipsis",
            )
            for meant, n, line in numbered
        )
    )


def _fitting(table: Table, rows: Sequence[Sequence[Inline]], width: int) -> list[int]:
    """Which columns to show: all, or all but as many spare ones, the last first, as have to go."""
    kept = list(range(len(table.columns)))
    wanted = [_wanted(column, [row[i] for row in rows]) for i, column in enumerate(table.columns)]
    spare = [i for i in kept if table.columns[i].spare]
    while spare and sum(wanted[i] + GAP for i in kept) - GAP > width:
        kept.remove(spare.pop())
    return kept


def _aligned(columns: Sequence[Sequence[Text]], right: Sequence[bool]) -> list[Text]:
    """The rows of a table as lines, each with the gap that separates it from what comes after it."""
    for column, to_right in zip(columns, right, strict=True):
        widest = max(cell.cell_len for cell in column)
        for cell in column:
            pad = widest - cell.cell_len
            (cell.pad_left if to_right else cell.pad_right)(pad)
            cell.pad_right(GAP)
    return [_pasted(*cells) for cells in zip(*columns, strict=True)]


def _wanted(column: Column, cells: Sequence[Inline]) -> int:
    """The width at which a column reads well: its widest cell, or half a line of prose; none, nor a gap, where it may stand below."""
    if column.below:
        return -GAP
    widest = max((cell_len(_plain(cell)) + sum(bool(s.why) for s in spans(cell)) for cell in cells), default=0)
    return max(cell_len(clean(column.name)), min(widest, PROSE) if column.wrap else widest)


def _add_column(table: RichTable, column: Column, cells: Sequence[Inline]) -> None:
    """A column that may wrap keeps room for its longest word, within reason."""
    longest = max((cell_len(word) for cell in cells for word in _plain(cell).split()), default=1)
    table.add_column(
        Text(clean(column.name)),
        justify="right" if column.right else "left",
        no_wrap=not column.wrap,
        overflow="fold" if column.wrap else "ellipsis",
        min_width=min(longest, WORD) if column.wrap else None,
    )


def _plain(inline: Inline) -> str:
    return "".join(map(_shown, spans(inline)))


def _shown(span: Span) -> str:
    if isinstance(span.link, str):
        return clean(local(span.text))
    return clean(command(span.text) if span.tone == "code" else spelled(span.text))


def _user_frame(path: str, function: str, room: int) -> Iterable[Text]:
    """The `path`, with its line, is cut on the left, where it says least."""
    space = max(12, room - len(function) - 1)
    shown = path if len(path) <= space else f"…{path[-space + 1 :]}"
    return Text(f"{shown} "), Text(function, "bold")


def _pasted(*parts: Text) -> Text:
    return Text().join(parts)


def _hanging(mark: Text, body: Text) -> RenderableType:
    """`body` after `mark`, its further lines below its first."""
    grid = RichTable.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, body)
    return grid
