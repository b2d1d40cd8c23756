"""The seal of a manifest: a SHA-256 over its content, kept in the manifest itself. The writer seals, the reader checks.

A seal over the *content* would miss a flipped bit that changes the text and not the content (``1e-05`` and ``1E-05`` are one number), so
there is exactly one text for each content, `file_bytes`: the writer writes that, and whatever else is on disk is damaged.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict

__all__ = ["SEAL", "canonical_bytes", "file_bytes", "seal"]

SEAL = "self_sha256"
"""The manifest's key that holds the seal."""


def canonical_bytes(content: Dict[str, Any]) -> bytes:
    """`content` without its seal as the JSON text that is hashed: sorted keys, no spaces, ASCII."""
    plain = json.loads(json.dumps({key: value for key, value in content.items() if key != SEAL}))
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode(
        "ascii"
    )  # keys are text by now, as when read back


def seal(content: Dict[str, Any]) -> Dict[str, Any]:
    """A copy of `content` with its seal, which replaces any that it had. Raises TypeError where it is not JSON-ready."""
    return {**content, SEAL: hashlib.sha256(canonical_bytes(content)).hexdigest()}


def file_bytes(content: Dict[str, Any]) -> bytes:
    """What is written to ``manifest.json``: the sealed `content`, indented for people, byte for byte the same for the same content."""
    plain = json.loads(json.dumps(seal(content)))
    return json.dumps(plain, sort_keys=True, indent=1).encode("ascii") + b"\n"
