"""`compare`: for every usual reason why a checkpoint does not load, the finding that names it and the way to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import each
from checkpointing import keys, renamed

from jupyter_traindbg import checkpoints
from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.model import Compared, Finding, TensorKey

WIDTH = 16


def without(old: list[list[Any]], word: str) -> list[list[Any]]:
    return [k for k in old if word not in k[0]]


def found(result: Compared) -> list[str]:
    return [f.code for f in result.findings]


def only(result: Compared) -> Finding:
    (finding,) = result.findings
    assert finding.cause
    assert finding.next_steps
    return finding


def kinds(result: Compared) -> list[str]:
    return [d.kind for d in result.differences]


def test_the_same_keys_fit() -> None:
    result = checkpoints.compare(keys(), keys())
    assert (result.findings, result.differences, result.same) == ((), (), 17)
    assert str(result).startswith("✔ all 17 keys fit")


PREFIXES = {
    "DDP": "module.",
    "compile": "_orig_mod.",
    "DDP and compile": "module._orig_mod.",
    "a LightningModule": "net.",
    "PEFT": "base_model.model.",
    "Fabric": "_forward_module.",
    "two unknown ones": "trainer.student.",
}


@each("prefix", PREFIXES.values(), ids=PREFIXES)
@each("side", ["left", "right"])
def test_a_prefix_on_either_side_is_named_and_seen_through(prefix: str, side: str) -> None:
    wrapped = renamed(keys(), lambda n: prefix + n)
    result = checkpoints.compare(wrapped, keys()) if side == "left" else checkpoints.compare(keys(), wrapped)
    assert result.differences == ()
    assert result.same == 17
    assert set(found(result)) == {"checkpoint_key_prefix"}
    assert "".join(gone + put for gone, put in result.renamed).count(".") == prefix.count(".")
    steps = " ".join(s for f in result.findings for s in f.next_steps)
    assert "load_state_dict" in steps
    assert "seen through" in str(result)


def test_the_code_line_of_a_prefix_works() -> None:
    finding = only(checkpoints.compare(renamed(keys(), lambda n: f"module.{n}"), keys()))
    assert finding.who == ["module."]
    line = finding.next_steps[0].split("`")[1].split(";")[0]
    scope: dict[str, Any] = {"sd": {f"module.{name}": name for name, *_ in keys()}}
    exec(line, scope)
    assert scope["sd"] == {name: name for name, *_ in keys()}


def test_compiled_layers_inside_a_model_are_seen_through() -> None:
    result = checkpoints.compare(renamed(keys(), lambda n: n.replace("self_attn.", "self_attn._orig_mod.")), keys())
    assert only(result).who == ["_orig_mod."]
    assert result.differences == ()


def test_the_bare_model_against_one_with_a_head() -> None:
    bare = renamed(without(keys(), "lm_head"), lambda n: n.removeprefix("model."))
    result = checkpoints.compare(bare, keys())
    assert set(found(result)) == {"checkpoint_key_prefix", "checkpoint_tied_weight"}
    result = checkpoints.compare(
        bare, [*without(keys(), "lm_head"), ["classifier.weight", [3, WIDTH], "float32", None]]
    )
    assert set(found(result)) == {"checkpoint_key_prefix", "checkpoint_missing_head"}
    assert kinds(result) == ["missing"]


def test_a_tied_weight() -> None:
    tied = [*keys()[:-1], ["lm_head.weight", [64, WIDTH], "float32", "model.embed_tokens.weight"]]
    result = checkpoints.compare(keys()[:-1], tied)
    assert (only(result).code, only(result).severity, only(result).confidence) == (
        "checkpoint_tied_weight",
        "info",
        "high",
    )
    assert result.differences[0].reason == "checkpoint_tied_weight"
    assert only(checkpoints.compare(tied, keys()[:-1])).code == "checkpoint_tied_weight"
    guessed = only(checkpoints.compare(keys()[:-1], keys()))
    assert (guessed.code, guessed.confidence) == ("checkpoint_tied_weight", "medium")


def test_another_vocabulary() -> None:
    result = checkpoints.compare(keys(vocabulary=64), keys(vocabulary=72))
    assert (only(result).code, only(result).severity) == ("checkpoint_other_config", "critical")
    assert "vocabulary 64 -> 72" in only(result).title
    assert "resize_token_embeddings(64)" in only(result).next_steps[0]
    assert kinds(result) == ["shape", "shape"]


def test_another_width() -> None:
    finding = only(checkpoints.compare(keys(width=16), keys(width=24)))
    assert finding.code == "checkpoint_other_config"
    assert "hidden size 16 -> 24" in finding.title
    assert "model.layers.0.self_attn.q_proj.weight: [16, 16], [24, 24]" in finding.evidence


def test_labels_and_positions() -> None:
    base = [
        ["wpe.weight", [128, 16], "float32", None],
        ["classifier.weight", [2, 16], "float32", None],
        ["h.0.w", [4], "float32", None],
    ]
    other = [
        ["wpe.weight", [256, 16], "float32", None],
        ["classifier.weight", [5, 16], "float32", None],
        ["h.0.w", [4], "float32", None],
    ]
    title = only(checkpoints.compare(base, other)).title
    assert "longest sequence 128 -> 256" in title
    assert "number of labels 2 -> 5" in title


@each(("ours", "theirs"), [(2, 4), (4, 2)])
def test_another_depth(ours: int, theirs: int) -> None:
    result = checkpoints.compare(keys(layers=ours), keys(layers=theirs))
    assert (only(result).code, only(result).who) == ("checkpoint_other_depth", ["model.layers"])
    assert f"{ours} in model.layers of the checkpoint, {theirs} in the model's" in only(result).title
    assert {d.reason for d in result.differences} == {"checkpoint_other_depth"}
    assert len(result.differences) == 14


def test_another_depth_behind_a_prefix() -> None:
    result = checkpoints.compare(renamed(keys(layers=4), lambda n: f"module.{n}"), keys(layers=2))
    assert set(found(result)) == {"checkpoint_other_depth", "checkpoint_key_prefix"}
    assert {d.reason for d in result.differences} == {"checkpoint_other_depth"}


def test_another_depth_of_a_bare_model() -> None:
    bare = renamed(without(keys(layers=4), "lm_head"), lambda n: n.removeprefix("model."))
    result = checkpoints.compare(bare, keys(layers=2))
    assert set(found(result)) == {"checkpoint_other_depth", "checkpoint_key_prefix", "checkpoint_tied_weight"}


def test_an_adapter_alone() -> None:
    lora = [
        [f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{x}.weight", [8, WIDTH], "float32", None]
        for i in range(2)
        for x in "AB"
    ]
    result = checkpoints.compare(lora, keys())
    assert only(result).code == "checkpoint_adapter_only"
    assert "PeftModel.from_pretrained" in only(result).next_steps[0]
    assert {d.reason for d in result.differences} == {"checkpoint_adapter_only"}


def test_a_base_model_into_one_with_an_adapter() -> None:
    lora = [
        [f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{x}.default.weight", [8, 16], "float32", None]
        for i in range(2)
        for x in "AB"
    ]
    peft = renamed(keys(), lambda n: "base_model.model." + n.replace("q_proj.", "q_proj.base_layer."))
    result = checkpoints.compare(keys(), [*peft, *lora])
    assert set(found(result)) == {"checkpoint_key_prefix", "checkpoint_without_adapter"}
    assert len(result.differences) == 4


def test_flattened_parameters_of_fsdp() -> None:
    flat = [
        ["_flat_param", [9000], "float32", None],
        ["layers.0._fsdp_wrapped_module._flat_param", [500], "float32", None],
    ]
    result = checkpoints.compare(flat, keys())
    assert only(result).code == "checkpoint_fsdp_flat"
    assert "FULL_STATE_DICT" in only(result).next_steps[0]


def test_another_model_altogether() -> None:
    result = checkpoints.compare(
        [["conv1.weight", [3, 3], "float32", None], ["conv2.weight", [3, 3], "float32", None]], keys()
    )
    assert only(result).code == "checkpoint_other_model"
    assert only(result).severity == "critical"


def test_other_dtypes() -> None:
    result = checkpoints.compare(keys(dtype="bfloat16"), keys())
    assert (only(result).code, only(result).severity) == ("checkpoint_other_dtype", "info")
    assert set(kinds(result)) == {"dtype"}
    assert result.same == 0


def test_transposed_and_reshaped() -> None:
    ours = [["a.weight", [4, 8], "float32", None], ["b.weight", [6, 4], "float32", None]]
    theirs = [["a.weight", [8, 4], "float32", None], ["b.weight", [24], "float32", None]]
    assert found(checkpoints.compare(ours, theirs)) == ["checkpoint_transposed", "checkpoint_reshaped"]


def test_buffers_that_come_and_go() -> None:
    more = [*keys(), ["model.rotary_emb.inv_freq", [8], "float32", None]]
    assert (only(checkpoints.compare(more, keys())).code, only(checkpoints.compare(more, keys())).severity) == (
        "checkpoint_buffers",
        "info",
    )
    statistics = [*keys(), ["bn.running_mean", [8], "float32", None]]
    assert only(checkpoints.compare(keys(), statistics)).severity == "warning"


def test_what_nothing_explains_is_listed() -> None:
    result = checkpoints.compare(
        [*keys(), ["gizmo.weight", [3], "float32", None]], [*keys(), ["widget.weight", [5], "float32", None]]
    )
    assert found(result) == ["checkpoint_missing_keys", "checkpoint_unexpected_keys"]
    assert [d.name for d in result.differences] == ["widget.weight", "gizmo.weight"]
    assert {f.confidence for f in result.findings} == {"low"}


def test_one_chance_resemblance_is_no_prefix() -> None:
    ours = [
        *keys(),
        *([f"left.{i}.only", [2], "float32", None] for i in range(9)),
        ["odd.thing.weight", [2], "float32", None],
    ]
    theirs = [
        *keys(),
        *([f"right.{i}.other", [2], "float32", None] for i in range(9)),
        ["thing.weight", [2], "float32", None],
    ]
    assert checkpoints.compare(ours, theirs).renamed == ()


def test_three_thousand_keys_are_readable() -> None:
    result = checkpoints.compare(renamed(keys(layers=500), lambda n: f"module.{n}"), keys(layers=430, vocabulary=65))
    assert set(found(result)) == {"checkpoint_key_prefix", "checkpoint_other_depth", "checkpoint_other_config"}
    assert len(str(result).splitlines()) < 70


# --- sides -----------------------------------------------------------------------------------------------------------------


def test_files_and_directories(made: Path) -> None:
    for other in ("legacy.pt", "model.safetensors", "dcp", "dcp_weights", "checkpoint-500", "sharded", "deepspeed"):
        result = checkpoints.compare(made / "full.pt", made / other)
        assert (result.same, result.findings) == (9, ()), other
        assert (result.left, result.right) == (str(made / "full.pt"), str(made / other))
    assert found(checkpoints.compare(made / "last.ckpt", made / "weights.pth")) == ["checkpoint_key_prefix"]


def test_a_checkpoint_without_weights_is_said(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no model weights \(optimizer\)"):
        checkpoints.compare(made / "checkpoint-500" / "optimizer.pt", keys())


def test_keys_of_the_probe_and_of_the_model_are_the_same(made: Path) -> None:
    as_keys = checkpoints.keys_from(keys())
    assert all(isinstance(k, TensorKey) for k in as_keys)
    assert (as_keys[0].shape, as_keys[0].bytes) == ((64, WIDTH), 64 * WIDTH * 4)
    sides: Sequence[Any] = (as_keys, keys())
    assert [checkpoints.compare(side, keys()).same for side in sides] == [17, 17]


def test_both_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert "词表 64 -> 72" in checkpoints.compare(keys(vocabulary=64), keys(vocabulary=72)).findings[0].title
