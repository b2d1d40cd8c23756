"""What the probe ``variables`` answers, as `Scope`s, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .frames.whose import frames_of
from .model import Handled, Key, Replica, Scope, Value
from .redact import redact
from .redact.names import is_secret, secret_kind

__all__ = ["handled", "replicas", "scopes"]

HIDDEN = Value("hidden", "str")
SHORTEST_SECRET = 16
"""Of one that is known by its shape alone."""


def scopes(answer: Mapping[str, Any]) -> tuple[Scope, ...]:
    """Innermost first."""
    rows = answer["frames"]
    frames = frames_of((row["file"], row["line"], row["function"]) for row in rows)
    return tuple(
        Scope(
            frame,
            row["depth"],
            None if row["reach"] is None else tuple(row["reach"]),
            _named(row["variables"]),
            _named(row["globals"]),
        )
        for frame, row in zip(frames, rows, strict=True)
    )


def handled(answer: Mapping[str, Any]) -> tuple[Handled, ...]:
    """Innermost first."""
    return tuple(map(_handled, answer["handled"]))


def _handled(told: Mapping[str, Any]) -> Handled:
    values = [_value(one) for one in told["args"]]
    words = [str(value.plain) if value.kind == "plain" else value.words for value in values]
    return Handled(told["type"], " ".join(filter(None, words)), frames_of([told["at"]])[0] if told["at"] else None)


def replicas(answer: Mapping[str, Any]) -> tuple[Replica, ...]:
    return tuple(
        Replica(
            one["class"],
            one["parameters"],
            tuple(one["without"]),
            tuple(one["left_out"]),
            synchronises=one["synchronises"],
            finds_unused=one["finds_unused"],
        )
        for one in answer["models"]
    )


def _named(pairs: Any) -> dict[str, Value]:
    return {name: _value(told, name) for name, told in pairs}


def _value(told: Any, name: str = "") -> Value:
    if not isinstance(told, dict):
        return _plain(told, name)
    kind, about = told["is"], told["type"]
    if kind == "text":
        return HIDDEN if _hides(told["words"], name) else Value("text", about, told["words"], size=told.get("size"))
    if kind == "items":
        parts: dict[Key, Value] = {i: _value(part, name) for i, part in enumerate(told["of"])}
        return Value("items", about, parts=parts, size=told["size"])
    if kind in ("pairs", "object"):
        pairs: dict[Key, Value] = {_key(key): _value(part, str(key)) for key, part in told["of"]}
        return Value(kind, about, parts=pairs, size=told.get("size"), file=told.get("file"))
    if kind == "event":
        return Value("event", about, plain=told["set"])
    return Value(
        kind,
        about,
        told.get("words", ""),
        size=told.get("size"),
        most=told.get("most"),
        op=told.get("op", ""),
        peer=told.get("peer"),
        tag=told.get("tag"),
        ident=told.get("id", 0),
    )


def _key(told: Any) -> Key:
    return tuple(told) if isinstance(told, list) else told


def _plain(value: Any, name: str) -> Value:
    if isinstance(value, str) and _hides(value, name):
        return HIDDEN
    return Value("plain", type(value).__name__, plain=value)


def _hides(words: str, name: str) -> bool:
    kind = secret_kind(name)
    if kind is not None and is_secret(kind, words, name=name, explicit=True):
        return True
    return len(words) >= SHORTEST_SECRET and redact(words) != words
