"""What the rules of `reasons` share: the keys that none of them has explained yet, and words for keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..model import Subject, TensorKey, things
from .comparing import Difference

__all__ = [
    "ADAPTER",
    "BUFFER",
    "EMBEDDING",
    "FLAT",
    "HEAD",
    "LAYER",
    "NAMED",
    "POSITION",
    "Pair",
    "Unexplained",
    "names",
    "numel",
    "sizes",
    "some",
]

NAMED = 20
Pair = tuple[TensorKey, TensorKey]
Severity = Literal["critical", "warning", "info"]

ADAPTER = re.compile(
    r"(^|\.)(lora_[AB]|lora_embedding_[AB]|lora_magnitude_vector|ia3_l|prompt_embeddings|modules_to_save|adapter_\w+)(\.|$)"
)
FLAT = re.compile(r"(^|\.)_?flat_param(_\d+)?$")
HEAD = re.compile(
    r"(^|\.)(lm_head|classifier|score|qa_outputs|head|heads|cls|fc|output_projection|pooler|classification_head|out_proj|predictions)(\.|$)"
)
BUFFER = re.compile(
    r"(^|\.)(num_batches_tracked|running_mean|running_var|position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias|rotary_emb\.\w+"
    r"|relative_position_index|attn_mask)$"
)
LAYER = re.compile(r"(?:^|\.)(layers?|h|blocks?|block|encoder|decoder|resblocks|stages?)\.(\d+)\.")
EMBEDDING = re.compile(
    r"(embed_tokens|wte|word_embeddings|tok_embeddings|token_embedding|embedding|embed|lm_head|tokens?_emb)"
)
POSITION = re.compile(r"(position|wpe|pos_emb)")


@dataclass
class Unexplained:
    """What no rule has explained yet."""

    difference: Difference
    left_name: str
    right_name: str
    missing: list[TensorKey]
    unexpected: list[TensorKey]
    shapes: list[Pair]
    dtypes: list[Pair]
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)

    def take(
        self,
        code: str,
        *,
        missing: Sequence[TensorKey] = (),
        unexpected: Sequence[TensorKey] = (),
        shapes: Sequence[Pair] = (),
    ) -> None:
        """These are explained by the finding `code`."""
        taken = (
            {("missing", k.name) for k in missing}
            | {("unexpected", k.name) for k in unexpected}
            | {("shape", a.name) for a, _ in shapes}
        )
        self.reasons.update(dict.fromkeys(taken, code))
        self.missing = [k for k in self.missing if ("missing", k.name) not in taken]
        self.unexpected = [k for k in self.unexpected if ("unexpected", k.name) not in taken]
        self.shapes = [p for p in self.shapes if ("shape", p[0].name) not in taken]


def names(keys: Sequence[TensorKey]) -> list[Subject]:
    return things(k.name for k in keys[:NAMED])


def some(keys: Sequence[TensorKey]) -> str:
    names = ", ".join(k.name for k in keys[:3])
    return f"{names}, ... ({len(keys)})" if len(keys) > 3 else names


def sizes(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def numel(key: TensorKey) -> int:
    n = 1
    for size in key.shape:
        n *= size
    return n
