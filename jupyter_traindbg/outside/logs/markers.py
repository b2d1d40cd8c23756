"""The literals that the reader itself looks for, beside those of the knowledge: tracebacks, metrics, stages.

All in lower case, as the automata search the lines in lower case.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...model.logs import LogStageName

if TYPE_CHECKING:
    import ahocorasick_rs

__all__ = ["FRAME", "KEEP", "NONFINITE", "STAGE", "TYPE", "Automaton", "automaton", "metrics"]

KEEP, FRAME, TYPE, NONFINITE, STAGE = 1, 2, 4, 8, 16
"""What a hit means: a line to be kept; a frame of a traceback; the type of an exception; nan or inf; a stage."""

_TRACEBACKS = (
    "traceback (most recent call last)",
    "fatal python error",
    "terminate called after throwing",
    "segmentation fault",
    "direct cause of the following exception",
    "another exception occurred",
    " thread 0x",
    "keyboardinterrupt",
)
_FRAMES = ('file "',)
_TYPES = ("error:", "exception:", "error(", "assertionerror")
_METRICS = (
    "loss",
    "grad_norm",
    "grad norm",
    "gnorm",
    "reward",
    "rew_mean",
    "return",
    "timesteps",
    "score",
    "data",
    "util",
    "perplexity",
    "ppl",
    "accuracy",
    "auc:",
    "auc=",
    "learning_rate",
    "learning rate",
    "loss_scale",
    "loss scale",
    "loss-scale",
    "tokens/s",
    "tokens_per",
    "samples/s",
    "samples_per",
    "it/s",
    "s/it",
    "throughput",
    "entropy",
    "kl_",
    "_kl",
    "/kl",
    "kl:",
    "kl=",
    "kl'",
    'kl"',
    "advantage",
    "step_time",
    "step time",
    "per iteration",
    "tflops",
    "memory",
    "alloc",
    "ram:",
    "cpu:",
    "epoch",
    " avg,",
    "reader_cost",
    "speed",
    "tensor(",
)
_NONFINITES = (
    *("=nan", ": nan", " nan", ":nan", "(nan", "-nan", "[nan", "'nan", "|nan"),
    # what follows is part of it: otherwise every " info" would be one
    *(f"{before}inf{after}" for before in "= :-([|'" for after in ",\n }])|';\t"),
)

STAGES: dict[LogStageName, tuple[str, ...]] = {
    "data": (
        "generating train split",
        "generating test split",
        "generating validation split",
        "running tokenizer on",
        "tokenizing ",
        "map (num_proc",
        "downloading data",
        "loading dataset",
        "building dataset",
        "building train, validation, and test datasets",
        "filtering prompts longer than",
        "dataset len:",
        "packing ",
    ),
    "init": (
        "init_model start",
        "init_process_group",
        "initializing distributed",
        "loading checkpoint shards",
        "loading safetensors",
        "loading model",
        "initializing a v1 llm engine",
        "initializing an llm engine",
        "init_workers",
        "starting to load model",
        "capturing cuda graph",
        "initializing megatron",
        "initializing model parallel",
        "started a local ray instance",
        "connecting to existing ray cluster",
        "deepspeed info: version",
        "nccl info bootstrap",
        "vllm api server version",
    ),
    "rollout": (
        "collecting trajectories",
        "waiting for rollout",
        "generating responses",
        "generate_sequences",
        "processed prompts",
        "make experience",
        "make_experience",
        "generating rollouts",
        "rollout start",
    ),
    "sync": (
        "update_weights",
        "sync weights",
        "syncing weights",
        "weight sync",
        "broadcasting weights",
        "broadcast weights",
        "waking up engine",
        "resharding",
    ),
    "train": (
        "***** running training *****",
        "start training",
        "starting training",
        "begin training",
        "train epoch",
        "update_actor",
        "update_policy",
        "ppo epoch",
        "| epoch ",
        "training epoch",
        "elapsed time per iteration",
        "'train_runtime'",
    ),
    "eval": (
        "***** running evaluation *****",
        "running evaluation",
        "running validation",
        "start evaluation",
        "evaluating:",
        "validation:",
        "sanity checking",
        "validating",
        "'eval_loss'",
    ),
    "save": (
        "saving model checkpoint",
        "saving checkpoint",
        "save checkpoint",
        "saved checkpoint",
        "[torch] saving",
        "model weights saved in",
        "checkpoint saved",
        "saving model to",
    ),
}


@dataclass(frozen=True)
class Automaton:
    """Finds all literals in one pass. By number of the literal: what it means (`kinds`) and the stage that it names (`stages`)."""

    finder: ahocorasick_rs.BytesAhoCorasick
    kinds: tuple[int, ...]
    stages: tuple[LogStageName | None, ...]

    def hits(self, lower: bytes) -> list[tuple[int, int, int]]:
        """(number, start, end) of every literal in `lower`, overlapping ones too, in order of their ends."""
        found: list[tuple[int, int, int]] = self.finder.find_matches_as_indexes(lower, overlapping=True)
        return found


@functools.lru_cache(maxsize=4)
def automaton(anchors: tuple[str, ...]) -> Automaton:
    """The automaton for `anchors` (of the knowledge, any case) and the reader's own literals. About 20 ms for 500."""
    import ahocorasick_rs  # not on every host where logs are only looked for

    kinds: dict[bytes, int] = {}
    stages: dict[bytes, LogStageName] = {}
    for words, kind in _literals(anchors):
        for word in words:
            # an umlaut is found as it is written: only ASCII is folded, as `bytes.lower` does
            literal = word.encode("utf-8").lower()
            if literal.strip():
                kinds[literal] = kinds.get(literal, 0) | kind
    for name, words in STAGES.items():
        stages.update(dict.fromkeys((word.encode() for word in words), name))
    finder = ahocorasick_rs.BytesAhoCorasick(list(kinds), implementation=ahocorasick_rs.Implementation.DFA)
    return Automaton(finder, tuple(kinds.values()), tuple(stages.get(literal) for literal in kinds))


@functools.lru_cache(maxsize=1)
def metrics() -> ahocorasick_rs.BytesAhoCorasick:
    """Finds what the names of metrics consist of."""
    import ahocorasick_rs

    literals = [word.encode() for word in _METRICS]
    return ahocorasick_rs.BytesAhoCorasick(literals, implementation=ahocorasick_rs.Implementation.DFA)


def _literals(anchors: Iterable[str]) -> list[tuple[Iterable[str], int]]:
    return [
        (anchors, KEEP),
        (_TRACEBACKS, KEEP),
        (_FRAMES, KEEP | FRAME),
        (_TYPES, KEEP | TYPE),
        (_NONFINITES, NONFINITE),
        *((words, STAGE) for words in STAGES.values()),
    ]
