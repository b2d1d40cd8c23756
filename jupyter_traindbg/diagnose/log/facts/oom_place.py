"""Where GPU memory ran out: loading, backward, optimizer, evaluation; and after how many good steps. From the frames printed before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_OOM = re.compile(
    r"(?i)(?:CUDA|HIP|XPU|NPU|MPS backend)(?: driver)?(?: error:)? out of memory"
    r"|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|tried to allocate"
)
_FRAME = re.compile(r'File "|^\s+[a-z_]\w*|\bin \w+\(')
_PLACES = {
    "oom_in_evaluation": re.compile(
        r"evaluation_loop|prediction_step|nested_concat|in evaluate\b|\bvalidat(?:e|ion_step)\b|in evaluation\b"
    ),
    "oom_in_optimizer": re.compile(
        r"optimizer\.step\(|_init_group|in step\b.*optim|optim/\w+\.py|exp_avg|initialize_optimizer_states|_take_model_step"
    ),
    "oom_in_backward": re.compile(r"\.backward\(|_engine_run_backward|in backward\b|run_backward\("),
    "oom_at_load": re.compile(
        r"(?i:model|net\w*)\)?\.(?:cuda|to)\(|param_applied = fn\(|from_pretrained|_load_(?:state_dict_into|pretrained)|in load_model\b"
        r"|load_state_dict|convert\(t\)|initialize_model|set_module_tensor"
    ),
}
_REACH = 60
_STEPS = {"global_step", "step", "iteration", "iter", "training/global_step", "global step", "num_updates"}
ENOUGH_STEPS = 50


def facts(evidence: LogEvidence) -> list[Fact]:
    for i, line in enumerate(evidence.lines):
        if ("emory" in line.text or "alloc" in line.text.lower()) and _OOM.search(line.text):
            trained = _steps(evidence, line, {*_STEPS, "loss"}) >= 3
            places = _place(evidence.lines[max(0, i - _REACH) : i], line)
            return [*(p for p in places if not (trained and p.name == "oom_at_load")), *_after(evidence, line)]
    return []


def _place(before: Sequence[LogLine], line: LogLine) -> list[Fact]:
    frames = [x.text for x in before if x.source == line.source and _FRAME.search(x.text)]
    text = "\n".join(frames)
    for name, pattern in _PLACES.items():
        if pattern.search(text):
            return [Fact(name, line)]
    return []


def _steps(evidence: LogEvidence, line: LogLine, names: set[str]) -> int:
    """How many values of these were printed before `line`."""
    known = (s for s in evidence.series if s.source == line.source and s.name in names)
    return max((sum(n <= line.number for n, _ in s.points) for s in known), default=0)


def _after(evidence: LogEvidence, line: LogLine) -> list[Fact]:
    """How many steps the run had made: by its own counter."""
    counts = [
        max(v for n, v in s.points if n <= line.number)
        for s in evidence.series
        if s.source == line.source and s.name in _STEPS and any(n <= line.number for n, _ in s.points)
    ]
    most = max(counts, default=0.0)
    return [Fact("oom_after_steps", line, {"oom_steps_count": most})] if most >= ENOUGH_STEPS else []
