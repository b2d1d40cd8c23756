"""What a trainee, a driver or a log wrote is shown, never obeyed: characters that steer a terminal or reorder a line become visible."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["LONGEST", "clean", "finalize"]

LONGEST = 2000
"""Characters of one name or sentence that are shown; a name of a megabyte is no name."""

_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: escape sequences, line breaks, bells
    "\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or they reorder the line
    "\U000e0000-\U000e007f"  # invisible tags
    "\ud800-\udfff]"  # lone surrogates (undecodable file names): no stream can encode them
)


def clean(text: str) -> str:
    """`text` with every steering character spelled out (``\\x1b``, ``\\u202e``, ``\\n``), cut at `LONGEST` characters."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    return _STEERING.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def finalize(value: Any) -> Any:
    """For Jinja2: clean whatever a template is about to print, before autoescape sees it. Finished markup passes."""
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
