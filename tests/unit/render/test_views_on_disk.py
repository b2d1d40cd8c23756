"""What is shown of a checkpoint on disk, and what is shown first."""

from __future__ import annotations

import dataclasses
import re

import render_scenes as scenes

from jupyter_traindbg import render
from jupyter_traindbg.model import Inspected, NotAvailable, TensorKey
from jupyter_traindbg.render.views.inspected import folded_name, repeated


def row(words: str, start: str) -> str:
    (line,) = [line.lstrip() for line in words.splitlines() if line.lstrip().startswith(start)]
    return re.sub(r"\s+", " ", line)


def test_damaged_files_come_before_good_ones() -> None:
    words = render.text(scenes.verified(3), 120)
    assert words.startswith("✖ 2 files are not what was written: 1 damaged, 1 missing")
    names = [line.split()[0] for line in words.splitlines()[1:] if re.search(r" (good|damaged|missing|extra) ", line)]
    assert names == ["model.pt", "optimizer.pt", "notes.txt", "rank-1.pt", "rank-2.pt"]
    assert row(words, "optimizer.pt") == "optimizer.pt missing 2,147,483,648 –¹ 0"
    assert "every byte is what was written" in render.text(scenes.verified(3, bad=False), 120)


def test_layers_that_repeat_share_a_row() -> None:
    words = render.text(scenes.inspected(330), 120, full=True)
    assert (
        row(words, "model.layers.{0-329}.self_attn.q_proj.weight")
        == "model.layers.{0-329}.self_attn.q_proj.weight 330 512x512 bfloat16 165.00 MiB"
    )
    assert "lm_head.weight: 32000x512 bfloat16, 31.2 MiB (shares memory with model.embed_tokens.weight)" in words
    assert "▸ model.layers: 2970 tensors".replace("2970", "2,970") in render.text(scenes.inspected(330), 120)


def test_what_is_missing_is_in_the_table() -> None:
    words = render.text(scenes.inspected(2), 120)
    assert row(words, "rng") == "rng no – – – not found"
    assert row(words, "optimizer") == "optimizer yes 40 2 GiB last.ckpt: optimizer_states –"
    unknown = dataclasses.replace(scenes.inspected(2), step=NotAvailable("nothing in it tells the step"))
    assert "not available: nothing in it tells the step" in render.text(unknown, 120)


def test_keys_of_one_name_and_two_shapes_stay_apart() -> None:
    keys = [TensorKey(f"h.{i}.w", (4 + (i == 2),), "float32", 16) for i in range(4)]
    assert [(s.name, len(s.keys)) for s in repeated(keys)] == [("h.{0, 1, 3}.w", 3), ("h.2.w", 1)]
    assert folded_name(["a.1.b.2", "a.1.b.3"]) == "a.1.b.{2, 3}"
    assert folded_name([f"x{10**12 + i}" for i in range(2)]) == "x{...}"


def test_one_module_is_a_table_of_its_own() -> None:
    one = dataclasses.replace(scenes.inspected(2), keys=[TensorKey(f"net.{i}", (2,), "float32", 8) for i in range(3)])
    assert isinstance(one, Inspected)
    assert row(render.text(one, 120), "net.{0-2}") == "net.{0-2} 3 2 float32 24 B"


def test_differences_are_grouped_by_kind_with_the_reason() -> None:
    words = render.text(scenes.compared(330), 120)
    assert words.index("Missing: ") < words.index("Unexpected: ") < words.index("Other shapes")
    assert "seen through: without module. on the left" in words
    assert (
        row(words, "lm_head.weight") == "lm_head.weight 1 32000x512 bfloat16 512x512 bfloat16 checkpoint_other_config"
    )
