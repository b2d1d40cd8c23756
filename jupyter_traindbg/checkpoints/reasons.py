"""Why keys differ: each rule takes the keys that it explains out of what is left, and says how to mend it. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..language import text
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
            text(f"It holds FSDP1's flattened parameters: {some(flat)}", f"它含有 FSDP1 的扁平参数：{some(flat)}"),
            who=names(flat),
            cause=text(
                "It was saved as LOCAL_STATE_DICT or SHARDED_STATE_DICT: many parameters lie in one flat tensor, without their names.",
                "保存时用了 LOCAL_STATE_DICT 或 SHARDED_STATE_DICT：许多参数合在一个扁平张量中，没有各自的名字。",
            ),
            next_steps=[
                text(
                    "Load it into the same FSDP wrapping, then save whole: "
                    "`with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT): torch.save(model.state_dict(), path)`.",
                    "先加载到同样的 FSDP 包装中，再完整保存："
                    "`with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT): torch.save(model.state_dict(), path)`。",
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
            text(
                f"It holds an adapter alone (LoRA or the like, {count} tensors), no base model",
                f"它只含适配器（LoRA 等，{count} 个张量），没有基座模型",
            ),
            who=names(ours),
            cause=text("PEFT saves only what it trains.", "PEFT 只保存它训练的部分。"),
            next_steps=[
                text(
                    "Load the base model first, then the adapter: `model = PeftModel.from_pretrained(base_model, directory)`.",
                    "先加载基座模型，再加载适配器：`model = PeftModel.from_pretrained(base_model, directory)`。",
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
            text(
                f"The model has an adapter (LoRA) that the checkpoint lacks: {len(adapter)} tensors",
                f"模型有检查点所没有的适配器（LoRA）：{len(adapter)} 个张量",
            ),
            who=names(adapter),
            cause=text("The checkpoint is of the base model.", "该检查点属于基座模型。"),
            next_steps=[
                text(
                    "Load it before the adapter is put on: `base.load_state_dict(sd)`, then `get_peft_model(base, config)`.",
                    "在加上适配器之前加载：先 `base.load_state_dict(sd)`，再 `get_peft_model(base, config)`。",
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
            text("Not one key is the same: it is of another model", "没有任何相同的键：它属于另一个模型"),
            who=names(ours),
            evidence=[f"{left.left_name}: {some(ours)}", f"{left.right_name}: {some(theirs)}"],
            cause=text(
                "Another architecture, or the same one from another library.", "架构不同，或同一架构来自不同的库。"
            ),
            next_steps=[
                text(
                    "Build the model that the checkpoint was saved from, or map the names by hand.",
                    "构建保存该检查点时的模型，或手工映射键名。",
                )
            ],
            confidence="medium",
        )
    ]


# --- names ---------------------------------------------------------------------------------------------------------------

ORIGINS = {
    "module.": ("DistributedDataParallel or DataParallel", "DistributedDataParallel 或 DataParallel"),
    "_orig_mod.": ("torch.compile", "torch.compile"),
    "_fsdp_wrapped_module.": ("FSDP", "FSDP"),
    "_checkpoint_wrapped_module.": ("activation checkpointing", "激活检查点"),
    "_forward_module.": ("Lightning Fabric", "Lightning Fabric"),
    "base_layer.": ("PEFT, which wraps the layers that it adapts", "PEFT（包装了所适配的层）"),
    "base_model.model.": ("PEFT", "PEFT"),
    "model.": ("a LightningModule, or from a head around the bare model", "LightningModule，或在裸模型外加了头"),
}


def _prefixes(left: Unexplained) -> list[Finding]:
    return [_prefix(left, gone, put) for gone, put in left.difference.renamed]


def _prefix(left: Unexplained, gone: str, put: str) -> Finding:
    prefix, of_left = gone or put, bool(gone)
    en, zh = ORIGINS.get(prefix, ("the module that it was saved from, or loaded into", "保存或加载时外层的模块"))
    inside = prefix in ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "base_layer.")
    taken_off = f'k.replace("{prefix}", "")' if inside else f'k.removeprefix("{prefix}")'
    line = taken_off if of_left else f'"{prefix}" + k'
    code_line = f"sd = {{{line}: v for k, v in sd.items()}}; model.load_state_dict(sd)"
    side_en, side_zh = ("checkpoint", "检查点") if of_left else ("model", "模型")
    if of_left or not inside:
        steps = [text(f"Rename the keys: `{code_line}`", f"重命名这些键：`{code_line}`")]
    else:
        steps = [
            text(
                "Load before the model is wrapped, or into what is wrapped: `model._orig_mod.load_state_dict(sd)`.",
                "在包装模型之前加载，或加载到被包装的模块：`model._orig_mod.load_state_dict(sd)`。",
            )
        ]
    steps.append(
        text(
            "Save and load the inner module, so that wrappers stay out of the names: `model.module.state_dict()`, "
            "`model._orig_mod.state_dict()`.",
            "保存与加载内层模块，使包装不进入键名：`model.module.state_dict()`、`model._orig_mod.state_dict()`。",
        )
    )
    return Finding(
        "checkpoint_key_prefix",
        "warning",
        text(
            f"The {side_en}'s names have `{prefix}` in them, the other side's do not",
            f"{side_zh}的键名带有 `{prefix}`，另一侧没有",
        ),
        who=things([prefix]),
        evidence=_prefix_evidence(left),
        cause=text(f"It comes from {en}.", f"它来自 {zh}。"),
        next_steps=steps,
    )


def _prefix_evidence(left: Unexplained) -> list[str]:
    changed = [
        (own, new) for new, own in left.difference.original.items() if own != new and new in left.difference.right
    ]
    return [
        text(
            f"{len(changed)} keys fit once renamed, as {own} -> {new}",
            f"重命名后 {len(changed)} 个键可对应，例如 {own} -> {new}",
        )
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
            text(f"A tied weight is on one side only: {some(both)}", f"共享权重只出现在一侧：{some(both)}"),
            who=names(both),
            evidence=[f"{k.name} = {k.tied_to}" for k in both if k.tied_to][:NAMED],
            cause=text(
                "It shares its memory with an embedding, so one of the two names is enough; safetensors keeps only one.",
                "它与嵌入层共享内存，一个名字即可；safetensors 只保留其一。",
            ),
            next_steps=[
                text(
                    "Load with `strict=False`, then `model.tie_weights()`.",
                    "用 `strict=False` 加载，再调用 `model.tie_weights()`。",
                )
            ],
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
            text(
                f"Buffers are on one side only: {some([*missing, *unexpected])}",
                f"部分缓冲区只在一侧：{some([*missing, *unexpected])}",
            ),
            who=names([*missing, *unexpected]),
            cause=text(
                "Batch-norm statistics are not in it: evaluation will be off."
                if statistics
                else "Library versions save different constant buffers; the module makes them anew.",
                "缺少批归一化的统计量：评估结果会有偏差。"
                if statistics
                else "不同版本的库保存的常量缓冲区不同；模块会自行重建。",
            ),
            next_steps=[text("Load with `strict=False`.", "用 `strict=False` 加载。")],
        )
    ]


def _rest(left: Unexplained) -> list[Finding]:
    found = []
    for keys, code, en, zh in (
        (left.missing, "checkpoint_missing_keys", "Keys of the model that it lacks", "模型有而它没有的键"),
        (left.unexpected, "checkpoint_unexpected_keys", "Keys that the model does not have", "模型没有的键"),
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
                    text(f"{en}: {some(kept)}", f"{zh}：{some(kept)}"),
                    who=names(kept),
                    cause=text("The two were built from different code.", "两者由不同的代码构建。"),
                    next_steps=[
                        text(
                            "Compare the two model classes; `load_state_dict(sd, strict=False)` leaves these out.",
                            "比较两个模型类；`load_state_dict(sd, strict=False)` 会忽略它们。",
                        )
                    ],
                    confidence="low",
                )
            )
    return found


_RULES: tuple[Callable[[Unexplained], list[Finding]], ...] = (
    _flat_parameters, _adapter_only, _adapter_missing, _nothing_in_common, _prefixes, _tied, _buffers, depth, shapes, dtypes, heads, _rest,
)  # fmt: skip
