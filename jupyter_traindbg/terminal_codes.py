"""What a terminal obeys and nobody reads: colours, cursor movements, titles, control characters."""

from __future__ import annotations

import re

__all__ = ["plain"]

_CODES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-Z\\^-~]"
    r"|(?:\\x1b|\\033|\\u001b|\^\[)\[[0-9;]*m"  # written out by somebody's repr
)
_LOST = re.compile(r"\[\d{1,2}(?:;\d{1,3})*m")
_ENDS = ("[0m", "[39m")
"""What is left of a colour whose escape character was lost. "[5m ago]" is none: where there are colours, one ends them."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b\ufeff]")


def plain(text: str) -> str:
    """`text` without them; its tabs and line ends stay. Called for every line that is read of a log."""
    if "\x1b" in text or "m" in text:
        text = _CODES.sub("", text)
        if any(end in text for end in _ENDS):
            text = _LOST.sub("", text)
    return _CONTROL.sub("", text)
