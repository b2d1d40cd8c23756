"""Why keys differ although their names are of one model: other depth, width, vocabulary, head, dtype. Rules for `reasons`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ..language import text
from ..model import Finding, TensorKey, things
from .unexplained import EMBEDDING, HEAD, LAYER, NAMED, POSITION, Pair, Unexplained, names, numel, sizes, some

__all__ = ["depth", "dtypes", "heads", "shapes"]


def depth(left: Unexplained) -> list[Finding]:
    """More layers on one side than on the other."""
    ours, theirs = (_layers(side) for side in (left.difference.left, left.difference.right))
    found = []
    for stem in sorted(ours.keys() & theirs.keys()):
        a, b = max(ours[stem]) + 1, max(theirs[stem]) + 1
        if a == b:
            continue
        beyond = re.compile(rf"{re.escape(stem)}\.(\d+)\.")

        def is_beyond(name: str, least: int = min(a, b), pattern: re.Pattern[str] = beyond) -> bool:
            match = pattern.match(name)
            return match is not None and int(match[1]) >= least

        code = "checkpoint_other_depth"
        new_name = {own: new for new, own in left.difference.original.items()}
        left.take(
            code,
            missing=[k for k in left.missing if is_beyond(k.name)],
            unexpected=[k for k in left.unexpected if is_beyond(new_name.get(k.name, k.name))],
        )
        found.append(
            Finding(
                code,
                "critical",
                text(
                    "Another number of layers: {a} in {stem} of the checkpoint, {b} in the model's", a=a, stem=stem, b=b
                ),
                who=things([stem]),
                cause=text("It was saved from another configuration."),
                next_steps=[text("Build the model with {a} layers (num_hidden_layers, n_layer).", a=a)],
            )
        )
    return found


def _layers(side: dict[str, TensorKey]) -> dict[str, set[int]]:
    """Numbered modules: ``model.layers`` -> {0, 1, ...}."""
    found: dict[str, set[int]] = {}
    for name in side:
        for match in LAYER.finditer(name):
            found.setdefault(name[: match.start(2) - 1], set()).add(int(match[2]))
    return found


def heads(left: Unexplained) -> list[Finding]:
    missing, unexpected = ([k for k in keys if HEAD.search(k.name)] for keys in (left.missing, left.unexpected))
    found = []
    if missing and len(missing) == len(left.missing):
        left.take("checkpoint_missing_head", missing=missing)
        found.append(
            Finding(
                "checkpoint_missing_head",
                "warning",
                text("The model's head is not in it: {some}", some=some(missing)),
                who=names(missing),
                cause=text("It is of the bare model, or of one for another task; this head would start untrained."),
                next_steps=[text("Load with `strict=False` and train the head, or use a checkpoint of this task.")],
                confidence="medium",
            )
        )
    if unexpected and len(unexpected) == len(left.unexpected):
        left.take("checkpoint_unused_head", unexpected=unexpected)
        found.append(
            Finding(
                "checkpoint_unused_head",
                "info",
                text("It has a head that the model does not: {some}", some=some(unexpected)),
                who=names(unexpected),
                cause=text("It is of a model for another task."),
                next_steps=[text("Load with `strict=False`: these are left out.")],
                confidence="medium",
            )
        )
    return found


def shapes(left: Unexplained) -> list[Finding]:
    if not left.shapes:
        return []
    transposed = [p for p in left.shapes if tuple(p[0].shape) == tuple(p[1].shape)[::-1]]
    flat = [p for p in left.shapes if p not in transposed and numel(p[0]) == numel(p[1])]
    rest = [p for p in left.shapes if p not in transposed and p not in flat]
    found = [_other_size(left, rest)] if rest else []
    for pairs, code, title in (
        (transposed, "checkpoint_transposed", text("Shapes are the other way round")),
        (flat, "checkpoint_reshaped", text("The same number of elements in another shape")),
    ):
        if pairs:
            left.take(code, shapes=pairs)
            found.append(
                Finding(
                    code,
                    "critical",
                    text("{title}: {names}", title=title, names=pairs[0][0].name),
                    who=names([a for a, _ in pairs]),
                    evidence=[_shape_words(p) for p in pairs[:NAMED]],
                    cause=text("One side has Linear where the other has Conv1D, or it comes from another framework."),
                    next_steps=[text("Transpose or reshape these tensors before loading.")],
                    confidence="medium",
                )
            )
    return found


def _shape_words(pair: Pair) -> str:
    a, b = pair
    return f"{a.name}: {sizes(a.shape)}, {sizes(b.shape)}"


def _other_size(left: Unexplained, pairs: list[Pair]) -> Finding:
    code = "checkpoint_other_config"
    left.take(code, shapes=pairs)
    changes: Counter[tuple[int, int]] = Counter()
    for a, b in pairs:
        changes.update({(x, y) for x, y in zip(a.shape, b.shape, strict=False) if x != y})
    what = [_dimension(change, pairs) for change, _ in changes.most_common(3)]
    title = ", ".join(what) or text("other numbers of dimensions")
    return Finding(
        code,
        "critical",
        text("Another configuration: {title}", title=title),
        who=names([a for a, _ in pairs]),
        evidence=[_shape_words(p) for p in pairs[:NAMED]],
        cause=text("The names fit and the sizes do not: the model was built with other settings."),
        next_steps=_size_steps(changes, pairs),
    )


def _dimension(change: tuple[int, int], pairs: Sequence[Pair]) -> str:
    """What a change of sizes is likely to be, in words."""
    a, b = change
    touched = [(k, o) for k, o in pairs if any((x, y) == change for x, y in zip(k.shape, o.shape, strict=False))]
    first = all(k.shape[:1] == (a,) and o.shape[:1] == (b,) for k, o in ((_tuple(k), _tuple(o)) for k, o in touched))
    names = [k.name for k, _ in touched]
    if first and all(EMBEDDING.search(n) and not POSITION.search(n) for n in names):
        return text("vocabulary {a} -> {b}", a=a, b=b)
    if first and all(POSITION.search(n) for n in names):
        return text("longest sequence {a} -> {b}", a=a, b=b)
    if first and all(HEAD.search(n) for n in names):
        return text("number of labels {a} -> {b}", a=a, b=b)
    if len(touched) * 2 > len(pairs) and len(touched) > 2:
        return text("hidden size {a} -> {b}", a=a, b=b)
    return f"{a} -> {b}"


def _tuple(key: TensorKey) -> TensorKey:
    return TensorKey(key.name, tuple(key.shape), key.dtype, key.bytes, key.tied_to)


def _size_steps(changes: Counter[tuple[int, int]], pairs: Sequence[Pair]) -> list[str]:
    steps = [
        text(
            "Build the model with the settings that the checkpoint was trained with (its config.json or "
            "training arguments)."
        )
    ]
    if all(EMBEDDING.search(a.name) for a, _ in pairs) and changes:
        (a, _), _ = changes.most_common(1)[0]
        steps.insert(
            0,
            text("`model.resize_token_embeddings({a})` before loading.", a=a),
        )
    return steps


def dtypes(left: Unexplained) -> list[Finding]:
    if not left.dtypes:
        return []
    kinds = Counter((a.dtype, b.dtype) for a, b in left.dtypes).most_common(3)
    words = ", ".join(f"{a} -> {b} ({n})" for (a, b), n in kinds)
    left.reasons.update({("dtype", a.name): "checkpoint_other_dtype" for a, _ in left.dtypes})
    return [
        Finding(
            "checkpoint_other_dtype",
            "info",
            text("Other dtypes: {words}", words=words),
            who=names([a for a, _ in left.dtypes]),
            cause=text("load_state_dict converts them silently to the model's."),
            next_steps=[text("Convert the model first if its precision is to be kept: `model.to(torch.float32)`.")],
        )
    ]
