"""A gradient scaler that skips every step: the training runs, and the weights stay as they are."""

from __future__ import annotations

import math

from ...language import text
from ...model import Finding, NotAvailable, Soundness, rank_subjects
from ...words.ranks import ranks_words
from ..hang.case import Case, Hit, View
from .seen import figure, seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = ("gradient scaler", "梯度缩放器")
VERB = "steps"
CODES = frozenset({"scaler_skips"})
EXPLAINS = {"scaler_skips": ("nonfinite_gradient",)}

SETTLING = 17
"""A scale of 65536 is halved so many times until it is below 1: up to here it may merely settle."""


def rule(case: Case) -> list[Hit]:
    """The ranks whose scalers have skipped all that they were asked for, for longer than settling takes."""
    found = [(v, s) for v, s in seen(case) if _skips(s)]
    if not found:
        return []
    sound = found[0][1]
    finding = Finding(
        "scaler_skips",
        "critical",
        text("The gradient scaler skips every step: nothing is trained", "梯度缩放器跳过了每一步：模型没有得到训练"),
        rank_subjects(v.rank for v, _ in found),
        evidence=[_evidence(v, s) for v, s in found[:8]],
        cause=_cause(sound),
        next_steps=[
            text(
                "Find what overflows: `%grads --first-nan` names the first module whose output is not finite; where there is none, it is "
                "the backward pass.",
                "找出溢出的梯度：`%grads --first-nan` 会指出第一个输出非有限的模块；若输出都有限，则溢出发生在反向传播。",
            ),
            text(
                "Train in bfloat16 where the device can: it has the range of float32 and needs no scaler.",
                "若设备支持，请使用 bfloat16 训练：其范围与 float32 相同，不需要缩放器。",
            ),
            text(
                "Weights and inputs that are not finite are beyond any scaler: check them before the forward pass.",
                "若权重或输入已非有限，任何缩放都无济于事：请在前向之前检查。",
            ),
        ],
    )
    return [Hit(finding, [v.rank for v, _ in found])]


def words(case: Case) -> str | NotAvailable:
    """The scale; that there is none is as good."""
    ranks = seen(case)
    if not ranks:
        return unseen(case)
    used = [(v, s) for v, s in ranks if s.scales]
    if not used and case.over:
        return unseen(case)
    if not used:
        return text("none in use", "未使用")
    sound = used[0][1]
    if sound.scaler_skipped and sound.scaler_skipped == sound.scaler_steps:
        return NotAvailable(
            text(
                f"{sound.skipped_in_a_row} steps skipped in a row: up to {SETTLING} it may be settling",
                f"已连续跳过 {sound.skipped_in_a_row} 步：在 {SETTLING} 步以内可能仍在调整",
            )
        )
    skipped = text(
        f"{sound.scaler_skipped} of {sound.scaler_steps} steps skipped",
        f"{sound.scaler_steps} 步中跳过 {sound.scaler_skipped} 步",
    )
    return text(f"scale {figure(sound.scales[0][1])}, {skipped}", f"缩放因子 {figure(sound.scales[0][1])}，{skipped}")


def _skips(sound: Soundness) -> bool:
    """All of the window's, and for too long: by their number, or by a scale that only so many leave behind."""
    if not sound.scaler_steps or sound.scaler_skipped < sound.scaler_steps:
        return False
    tiny = any(last is not None and last < 1 for _, last in sound.scales)
    return sound.skipped_in_a_row >= SETTLING or tiny


def _evidence(view: View, sound: Soundness) -> str:
    scales = ", ".join(f"{figure(first)} -> {figure(last)}" for first, last in sound.scales)
    return text(
        f"{ranks_words([view.rank])}: {sound.scaler_skipped} of {sound.scaler_steps} steps skipped in {sound.window_s:.1f} s, "
        f"{sound.skipped_in_a_row} in a row since the attach; scale {scales}",
        f"{ranks_words([view.rank])}：{sound.window_s:.1f} 秒内 {sound.scaler_steps} 步中跳过 {sound.scaler_skipped} 步，"
        f"attach 以来连续跳过 {sound.skipped_in_a_row} 步；缩放因子 {scales}",
    )


def _cause(sound: Soundness) -> str:
    loss = sound.losses_of_no_step[-1] if sound.losses_of_no_step else None
    if loss is not None and not math.isfinite(loss):
        return text(
            f"The loss itself is {figure(loss)}: every gradient made of it is not finite, whatever the scale.",
            f"loss 本身为 {figure(loss)}：无论缩放因子多大，由它产生的梯度都非有限。",
        )
    finite = "" if loss is None else text(f" although the loss is {figure(loss)}", f"（尽管 loss 为 {figure(loss)}）")
    return text(
        f"Some gradient is not finite at every step{finite}: a scale below 1 says that no overflow of the scaling is to blame.",
        f"每一步都有梯度非有限{finite}：缩放因子已低于 1，说明不是缩放本身造成的溢出。",
    )
