"""How large a model is: from a config.json, from the configuration, from its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.diagnose.config.estimate import parameters
from jupyter_traindbg.model import Machine, ModelShape
from jupyter_traindbg.preflight.config import parameters_in_words, planning, sources

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 8192,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "n_positions": 1024,
    "vocab_size": 50257,
}
MIXTRAL = {
    "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8, "tie_word_embeddings": False,
}  # fmt: skip


def shape(*words: str, model: str | None = None, size: int | None = None) -> ModelShape:
    return planning.plan_of(sources.read(words, {}), Machine("m"), model=model, parameters=size).model


@pytest.mark.parametrize(
    ("config", "due"), [(LLAMA, 8.03e9), (GPT2, 124.4e6), (MIXTRAL, 46.7e9)], ids=["llama", "gpt2", "mixtral"]
)
def test_parameters_are_counted_as_published(tmp_path: Path, config: dict[str, object], due: float) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert parameters(shape(model=str(tmp_path))) == pytest.approx(due, rel=0.01)


def test_the_part_that_reads_of_a_model_that_sees(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "x_vl", "text_config": LLAMA, "vision_config": {"hidden_size": 64}}))
    assert parameters(shape(model=str(path))) == pytest.approx(8.03e9, rel=0.01)


def test_a_model_that_was_downloaded_before_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "hub" / "models--nobody--nothing" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(GPT2))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    found = shape("python", "t.py", "--model_name_or_path", "nobody/nothing")
    assert found.layers is not None
    assert found.layers.file == "config.json"


def test_the_persons_words_count_most_and_the_configurations_next(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = shape("python", "t.py", "--num_layers", "2", model=str(tmp_path))
    assert found.layers is not None
    assert found.layers.value == 2
    assert parameters(shape(model=str(tmp_path), size=5)) == 5


@each(
    ("name", "due"),
    [
        ("Qwen2.5-7B-Instruct", 7e9),
        ("/m/llama-0.5b", 0.5e9),
        ("opt-350m", 350e6),
        ("mixtral-v2", None),
        ("8bit-model", None),
    ],
)
def test_the_size_in_a_name(name: str, due: float | None) -> None:
    assert parameters(shape("python", "t.py", "--model_name_or_path", name)) == due


@pytest.mark.parametrize(("words", "due"), [("7B", 7e9), ("350M", 350e6), ("1.5 b", 1.5e9), ("42", 42)])
def test_parameters_in_words(words: str, due: float) -> None:
    assert parameters_in_words(words) == due
    with pytest.raises(ValueError, match="seven"):
        parameters_in_words("seven")


def test_a_broken_config_json_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    read = sources.read([], {})
    planning.plan_of(read, Machine("m"), model=str(tmp_path))
    assert "config.json:1 is no JSON" in read.notes[0]
