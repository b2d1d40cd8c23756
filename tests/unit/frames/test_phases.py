"""Which part of a training a stack is in. `recorded_stacks.json`: of real programs, one of each phase that they were seen in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cases import each

from jupyter_traindbg.frames.phases import COMPILING, EXPORTING, caller, phase_of, phases_of, telling
from jupyter_traindbg.frames.whose import bare, frames_of
from jupyter_traindbg.model import Frame

SITE = "/venv/lib/python3.11/site-packages/"
RECORDED = json.loads((Path(__file__).parent / "recorded_stacks.json").read_text())
MAIN = "/home/ann/train.py main"
FORWARD = "torch/nn/modules/module.py Module._call_impl"
BACKWARD = "torch/autograd/graph.py _engine_run_backward"


def stack(*frames: str) -> tuple[Frame, ...]:
    """Of ``"file function"``, a library's file from its package on, innermost first."""
    parted = (frame.rpartition(" ") for frame in frames)
    return frames_of((file if file[0] in "/<" else SITE + file, 1, function) for file, _, function in parted)


def phase(*frames: str) -> str:
    found = phase_of(stack(*frames))
    return found.english if found is not None else ""


@each("recorded", RECORDED)
def test_real_stacks(recorded: dict[str, Any]) -> None:
    frames = stack(*recorded["frames"])
    found = phase_of(frames)
    assert found is not None
    assert (found.english, [bare(f.function) for f in telling(frames)]) == (recorded["phase"], recorded["telling"])


def test_real_stacks_of_every_kind_are_there() -> None:
    told = {recorded["phase"] for recorded in RECORDED}
    assert told >= {
        "compiling",
        "in a forward pass",
        "in its backward pass",
        "evaluating",
        "generating",
        "saving a checkpoint",
    }
    steady = [r["phase"] for r in RECORDED if r["of"].startswith(("a model compiled", "FSDP2"))]
    assert "compiling" not in steady
    assert len(steady) >= 9


@each(
    ("frames", "expected"),
    [
        (["torch/_inductor/compile_fx.py run", "torch/_dynamo/eval_frame.py _fn", MAIN], ""),
        (["torch/_inductor/codecache.py CompiledFxGraph.__call__", FORWARD, MAIN], "in a forward pass"),
        (["torch/_inductor/runtime/triton_heuristics.py CachingAutotuner.run", FORWARD, MAIN], "in a forward pass"),
        (["torch/_inductor/runtime/triton_heuristics.py CachingAutotuner.benchmark_all_configs", FORWARD, MAIN], "compiling"),
        (["torch/_inductor/compile_fx.py compile_fx_backward", BACKWARD, MAIN], "compiling"),
        (["triton/runtime/jit.py JITFunction.run", FORWARD, MAIN], "in a forward pass"),
        (["torch/_inductor/async_compile.py AsyncCompile.wait", FORWARD, MAIN], "compiling"),
        ([FORWARD, "torch/fx/experimental/proxy_tensor.py wrapped", "torch/export/_trace.py _export", MAIN], "exporting a model"),
        (["torch/_dynamo/convert_frame.py _compile", "torch/export/__init__.py export", MAIN], "exporting a model"),
        (["torch/export/__init__.py load", MAIN], ""),
        (["triton/compiler/compiler.py compile", "triton/runtime/jit.py JITFunction._do_compile", FORWARD, MAIN], "compiling"),
        (["torchvision/datasets/folder.py ImageFolder.__getitem__", "torch/utils/data/_utils/fetch.py fetch", MAIN], "reading its data"),
        (["torchvision/datasets/folder.py make_dataset", "torchvision/datasets/vision.py __init__", MAIN], "preparing its dataset"),
        (["tokenizers/__init__.py encode", "datasets/arrow_dataset.py Dataset.map", MAIN], "preparing its dataset"),
        (["torch/utils/checkpoint.py forward", FORWARD, BACKWARD, MAIN], "in its backward pass"),
        ([FORWARD, "/home/ann/train.py closure", "torch/optim/lbfgs.py LBFGS.step", MAIN], "in a forward pass"),
        (["torch/optim/lr_scheduler.py CosineAnnealingLR.step", MAIN], ""),
        (["torch/serialization.py _save", "torch/serialization.py save", MAIN], "saving a checkpoint"),
        (["torch/serialization.py _load", "torch/serialization.py load", MAIN], "loading a checkpoint"),
        (["torch/serialization.py load", "transformers/modeling_utils.py PreTrainedModel.from_pretrained", MAIN], "loading its model"),
        (["torch/nn/init.py normal_", "transformers/modeling_utils.py PreTrainedModel._init_weights", MAIN], "building its model"),
        (["vllm/v1/engine/llm_engine.py LLMEngine.step", "vllm/entrypoints/llm.py LLM.generate", MAIN], "generating"),
        (["trl/trainer/grpo_trainer.py GRPOTrainer._calculate_rewards", MAIN], "computing rewards"),
        (["huggingface_hub/file_download.py http_get", "transformers/utils/hub.py cached_file", MAIN], "downloading files"),
        (["<frozen importlib._bootstrap> _find_and_load", MAIN], "importing modules"),
        (["/home/ann/layers.py <module>", "<frozen importlib._bootstrap> _find_and_load", MAIN], "importing modules"),
        (["/home/ann/job.py tokenise", "/home/ann/job.py <module>", "<frozen importlib._bootstrap> _find_and_load", MAIN], ""),
        (["datasets/builder.py <module>", "<frozen importlib._bootstrap> _find_and_load", MAIN], "importing modules"),
        (["<frozen importlib.util> find_spec", "accelerate/utils/imports.py _is_package_available", MAIN], ""),
        (["/home/ann/train.py Task.validate_epoch", MAIN], "evaluating"),
        (["/home/ann/train.py generate_samples", MAIN], "generating"),
        (["/home/ann/train.py saveModel", MAIN], "saving a checkpoint"),
        (["/home/ann/train.py load_checkpoint", MAIN], "loading a checkpoint"),
        (["/home/ann/train.py retrieval_loss", MAIN], ""),
        (["/home/ann/gan.py generator_step", MAIN], ""),
        (["/home/ann/diffusion.py predict_noise", MAIN], ""),
        (["/home/ann/train.py predict", MAIN], "evaluating"),
        (["deepspeed/runtime/engine.py DeepSpeedEngine._take_model_step", MAIN], "in its optimizer step"),
        (["/home/ann/train.py train_and_evaluate", MAIN], ""),
        ([FORWARD, "/home/ann/train.py checkpoint_forward", MAIN], "in a forward pass"),
        ([FORWARD, "/home/ann/train.py evaluate", MAIN], "evaluating"),
        ([MAIN], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_a_phase_is_told_by_what_the_functions_do(frames: list[str], expected: str) -> None:
    assert phase(*frames) == expected


def test_the_part_of_an_evaluation_is_told_too() -> None:
    evaluates = "lightning/pytorch/loops/evaluation_loop.py _EvaluationLoop.run"
    within = phases_of(stack("torch/utils/data/_utils/fetch.py fetch", evaluates, MAIN))
    assert [p.english for p in within] == ["evaluating", "reading its data"]
    saves = phases_of(stack("torch/serialization.py save", FORWARD, MAIN))
    assert [p.english for p in saves] == ["saving a checkpoint"]


def test_python_before_3_11_has_bare_names() -> None:
    for recorded in RECORDED:
        found = phase_of(
            stack(*(f"{file} {bare(name)}" for file, _, name in (f.rpartition(" ") for f in recorded["frames"])))
        )
        assert found is not None
        assert found.english == recorded["phase"], recorded["of"]


def test_what_tells_are_the_librarys_frames_from_the_inside_out() -> None:
    frames = stack(
        FORWARD,
        "transformers/trainer.py Trainer.training_step",
        "transformers/trainer.py Trainer._inner_training_loop",
        "/home/ann/train.py evaluate",
        MAIN,
    )
    assert [f.function for f in telling(frames)] == ["Trainer.training_step"]


def test_who_has_asked_for_it_is_outside_of_all_that_is_done_for_it() -> None:
    """An export runs the model's own lines to trace them."""
    traced = "/home/ann/model.py Net.forward"
    frames = stack(
        traced, "torch/export/_trace.py _export", "torch/export/__init__.py export", "/home/ann/a.py to_file", MAIN
    )
    asked = caller(frames, EXPORTING)
    assert asked is not None
    assert asked.function == "to_file"
    assert caller(frames, COMPILING) is None
    assert caller(stack(MAIN), EXPORTING) is None
