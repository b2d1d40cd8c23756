"""Why keys differ: each rule takes the keys that it explains out of what is left, and says how to mend it. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..language import later, text
from ..model import Finding, things
from .comparing import Difference
from .reasons_config import depth, dtypes, heads, shapes
from .unexplained import ADAPTER, BUFFER, EMBEDDING, FLAT, NAMED, Unexplained, names, some

__all__ = ["explain"]


def explain(
    difference: Difference, left_name: str, right_name: str
) -> tuple[list[Finding], dict[tuple[str, str], str]]:
    """The findings, root cause first, and for each difference ``(kind, name)`` the code of the one that explains it."""
    left = Unexplained(
        difference,
        left_name,
        right_name,
        difference.missing,
        difference.unexpected,
        difference.shapes,
        difference.dtypes,
    )
    found = [f for rule in _RULES for f in rule(left)]
    order = {"critical": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda f: order[f.severity]), left.reasons


# --- another kind of checkpoint ------------------------------------------------------------------------------------------


def _flat_parameters(left: Unexplained) -> list[Finding]:
    flat = [k for k in left.unexpected if FLAT.search(k.name)]
    if not flat:
        return []
    code = "checkpoint_fsdp_flat"
    left.take(code, unexpected=flat, missing=left.missing)
    return [
        Finding(
            code,
            "critical",
            text("It holds FSDP1's flattened parameters: {some}", some=some(flat)),
            who=names(flat),
            cause=text(
                "It was saved as LOCAL_STATE_DICT or SHARDED_STATE_DICT: many parameters lie in one flat tensor, "
                "without their names."
            ),
            next_steps=[
                text(
                    "Load it into the same FSDP wrapping, then save whole: `with FSDP.state_dict_type(model, "
                    "StateDictType.FULL_STATE_DICT): torch.save(model.state_dict(), path)`."
                )
            ],
        )
    ]


def _adapter_only(left: Unexplained) -> list[Finding]:
    ours = list(left.difference.left.values())
    if not ours or not all(ADAPTER.search(k.name) for k in ours) or not left.missing:
        return []
    code = "checkpoint_adapter_only"
    count = len(ours)
    left.take(code, missing=[k for k in left.missing if not ADAPTER.search(k.name)], unexpected=left.unexpected)
    return [
        Finding(
            code,
            "warning",
            text("It holds an adapter alone (LoRA or the like, {count} tensors), no base model", count=count),
            who=names(ours),
            cause=text("PEFT saves only what it trains."),
            next_steps=[
                text(
                    "Load the base model first, then the adapter: `model = PeftModel.from_pretrained(base_model, "
                    "directory)`."
                )
            ],
        )
    ]


def _adapter_missing(left: Unexplained) -> list[Finding]:
    adapter = [k for k in left.missing if ADAPTER.search(k.name)]
    if not adapter:
        return []
    code = "checkpoint_without_adapter"
    left.take(code, missing=adapter)
    return [
        Finding(
            code,
            "info",
            text("The model has an adapter (LoRA) that the checkpoint lacks: {count} tensors", count=len(adapter)),
            who=names(adapter),
            cause=text("The checkpoint is of the base model."),
            next_steps=[
                text(
                    "Load it before the adapter is put on: `base.load_state_dict(sd)`, then `get_peft_model(base, "
                    "config)`."
                )
            ],
        )
    ]


def _nothing_in_common(left: Unexplained) -> list[Finding]:
    d = left.difference
    if not left.missing or not left.unexpected or any(n in d.right for n in d.left):
        return []
    code = "checkpoint_other_model"
    ours, theirs = list(left.unexpected), list(left.missing)
    left.take(code, missing=theirs, unexpected=ours)
    return [
        Finding(
            code,
            "critical",
            text("Not one key is the same: it is of another model"),
            who=names(ours),
            evidence=[f"{left.left_name}: {some(ours)}", f"{left.right_name}: {some(theirs)}"],
            cause=text("Another architecture, or the same one from another library."),
            next_steps=[text("Build the model that the checkpoint was saved from, or map the names by hand.")],
            confidence="medium",
        )
    ]


# --- names ---------------------------------------------------------------------------------------------------------------

ORIGINS = {
    "module.": later("DistributedDataParallel or DataParallel"),
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FSDP",
    "_checkpoint_wrapped_module.": later("activation checkpointing"),
    "_forward_module.": "Lightning Fabric",
    "base_layer.": later("PEFT, which wraps the layers that it adapts"),
    "base_model.model.": "PEFT",
    "model.": later("a LightningModule, or from a head around the bare model"),
}


def _prefixes(left: Unexplained) -> list[Finding]:
    return [_prefix(left, gone, put) for gone, put in left.difference.renamed]


def _prefix(left: Unexplained, gone: str, put: str) -> Finding:
    prefix, of_left = gone or put, bool(gone)
    origin = ORIGINS.get(prefix, later("the module that it was saved from, or loaded into"))
    inside = prefix in ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "base_layer.")
    taken_off = f'k.replace("{prefix}", "")' if inside else f'k.removeprefix("{prefix}")'
    line = taken_off if of_left else f'"{prefix}" + k'
    code_line = f"sd = {{{line}: v for k, v in sd.items()}}; model.load_state_dict(sd)"
    if of_left or not inside:
        steps = [text("Rename the keys: `{code_line}`", code_line=code_line)]
    else:
        steps = [
            text("Load before the model is wrapped, or into what is wrapped: `model._orig_mod.load_state_dict(sd)`.")
        ]
    steps.append(
        text(
            "Save and load the inner module, so that wrappers stay out of the names: "
            "`model.module.state_dict()`, `model._orig_mod.state_dict()`."
        )
    )
    return Finding(
        "checkpoint_key_prefix",
        "warning",
        text("The checkpoint's names have `{prefix}` in them, the other side's do not", prefix=prefix)
        if of_left
        else text("The model's names have `{prefix}` in them, the other side's do not", prefix=prefix),
        who=things([prefix]),
        evidence=_prefix_evidence(left),
        cause=text("It comes from {origin}.", origin=text(origin)),
        next_steps=steps,
    )


def _prefix_evidence(left: Unexplained) -> list[str]:
    changed = [
        (own, new) for new, own in left.difference.original.items() if own != new and new in left.difference.right
    ]
    return [
        text("{count} keys fit once renamed, as {own} -> {new}", count=len(changed), own=own, new=new)
        for own, new in changed[:1]
    ]


def _tied(left: Unexplained) -> list[Finding]:
    """A key that is absent because it is another one's memory: not saved twice, and not needed."""
    d = left.difference
    shapes = {tuple(k.shape) for k in d.left.values() if EMBEDDING.search(k.name)}
    tied = [
        k
        for k in left.missing
        if (k.tied_to is not None and k.tied_to in d.left)
        or (k.tied_to is None and re.search(r"(lm_head|output|decoder)\.weight$", k.name) and tuple(k.shape) in shapes)
    ]
    tied_left = [
        k
        for k in left.unexpected
        if k.tied_to is not None and any(d.left[n].name == k.tied_to for n in d.left if n in d.right)
    ]
    if not tied and not tied_left:
        return []
    code = "checkpoint_tied_weight"
    left.take(code, missing=tied, unexpected=tied_left)
    both = [*tied, *tied_left]
    sure = all(k.tied_to is not None for k in both)
    return [
        Finding(
            code,
            "info",
            text("A tied weight is on one side only: {some}", some=some(both)),
            who=names(both),
            evidence=[f"{k.name} = {k.tied_to}" for k in both if k.tied_to][:NAMED],
            cause=text(
                "It shares its memory with an embedding, so one of the two names is enough; safetensors keeps only one."
            ),
            next_steps=[text("Load with `strict=False`, then `model.tie_weights()`.")],
            confidence="high" if sure else "medium",
        )
    ]


def _buffers(left: Unexplained) -> list[Finding]:
    missing, unexpected = ([k for k in keys if BUFFER.search(k.name)] for keys in (left.missing, left.unexpected))
    if not missing and not unexpected:
        return []
    code = "checkpoint_buffers"
    left.take(code, missing=missing, unexpected=unexpected)
    statistics = [k for k in missing if k.name.endswith(("running_mean", "running_var"))]
    return [
        Finding(
            code,
            "warning" if statistics else "info",
            text("Buffers are on one side only: {some}", some=some([*missing, *unexpected])),
            who=names([*missing, *unexpected]),
            cause=(
                text("Batch-norm statistics are not in it: evaluation will be off.")
                if statistics
                else text("Library versions save different constant buffers; the module makes them anew.")
            ),
            next_steps=[text("Load with `strict=False`.")],
        )
    ]


def _rest(left: Unexplained) -> list[Finding]:
    found = []
    for keys, code, title in (
        (left.missing, "checkpoint_missing_keys", text("Keys of the model that it lacks")),
        (left.unexpected, "checkpoint_unexpected_keys", text("Keys that the model does not have")),
    ):
        if keys:
            kept = list(keys)
            left.take(
                code, missing=kept if keys is left.missing else (), unexpected=() if keys is left.missing else kept
            )
            found.append(
                Finding(
                    code,
                    "warning",
                    text("{title}: {names}", title=title, names=some(kept)),
                    who=names(kept),
                    cause=text("The two were built from different code."),
                    next_steps=[
                        text("Compare the two model classes; `load_state_dict(sd, strict=False)` leaves these out.")
                    ],
                    confidence="low",
                )
            )
    return found


_RULES: tuple[Callable[[Unexplained], list[Finding]], ...] = (
    _flat_parameters, _adapter_only, _adapter_missing, _nothing_in_common, _prefixes, _tied, _buffers, depth, shapes, dtypes, heads, _rest,
)  # fmt: skip
