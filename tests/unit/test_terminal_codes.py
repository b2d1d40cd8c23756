"""What a terminal obeys is taken out, and nothing else."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.terminal_codes import plain


@each(
    ("text", "left"),
    [
        ("\x1b[1;31mred\x1b[0m and \x1b[38;5;9mredder\x1b[K", "red and redder"),
        ("\x1b[?25l\x1b[2Jcursor", "cursor"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;a title that never ends\nthe next line", "\nthe next line"),
        ("\x1b(Bcharset\x1b=", "charset"),
        (r"\x1b[31mwritten\033[0m out\u001b[1m", "written out"),
        ("[31mescape lost[0m", "escape lost"),
        ("[5m ago] saved", "[5m ago] saved"),
        ("bell\x07, back\x08space, \x00, zero\u200bwidth\ufeff", "bell, backspace, , zerowidth"),
        ("\ttab, line\nend, [PG 1] m[0] x[12]m", "\ttab, line\nend, [PG 1] m[0] x[12]m"),
    ],
)
def test_plain(text: str, left: str) -> None:
    assert plain(text) == left
