# ruff: noqa: E501 - a line of a log stays one line
"""Memory, data, files, training: logs in which the words mislead and the numbers decide. Written for this test; no log of anybody."""

from __future__ import annotations

import math
import random

import pytest
from cases import each
from log_evidence import said

from jupyter_traindbg.model import Finding
from jupyter_traindbg.questions.jobless.log import diagnose_log


def first(log: str) -> Finding:
    found = diagnose_log(log)
    assert found, "nothing was found"
    return found[0]


def codes(log: str) -> list[str]:
    return [f.code for f in diagnose_log(log)]


def steps(count: int, start: int = 0, **series: list[float]) -> str:
    """Lines of a training: ``step 7 loss 1.25 lr 0.001``."""
    return "\n".join(
        " ".join(["step", str(start + i), *(f"{name} {values[i]:.6g}" for name, values in series.items())])
        for i in range(count)
    )


def noisy(count: int, begin: float, end: float, noise: float = 0.01, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [begin + (end - begin) * i / max(1, count - 1) + noise * chance.uniform(-1, 1) for i in range(count)]


# --- GPU memory: the same words, four causes -------------------------------------------------------------------------

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 3 has a total capacity of 79.10 GiB of which {free} is free. "
OWN = "Including non-PyTorch memory, this process has {used} memory in use. Of the allocated memory {held} is allocated by PyTorch, and {spare} is reserved by PyTorch but unallocated."


def test_a_card_that_somebody_else_fills_is_no_job_that_is_too_large() -> None:
    found = first(
        (OOM + OWN).format(asked="32.00 MiB", free="12.50 MiB", used="9.20 GiB", held="8.10 GiB", spare="310.00 MiB")
    )
    assert found.code == "cuda_oom"
    assert "69.89 GiB" in said(found)
    assert "other processes" in found.title
    assert "micro batch" not in said(found)


def test_memory_that_is_reserved_in_pieces_is_fragmentation() -> None:
    found = first(
        (OOM + OWN).format(asked="2.00 GiB", free="0.40 GiB", used="78.70 GiB", held="61.00 GiB", spare="16.90 GiB")
    )
    assert "expandable_segments" in said(found)
    assert "16.9 GiB" in found.title


def test_one_tensor_larger_than_the_card_is_told_as_that() -> None:
    found = first(
        (OOM + OWN).format(asked="512.00 GiB", free="60.00 GiB", used="19.00 GiB", held="18.00 GiB", spare="500.00 MiB")
    )
    assert "512 GiB" in found.title
    assert "79.1 GiB" in found.title


def test_what_ran_out_in_the_optimizer_is_its_state() -> None:
    log = """Traceback (most recent call last):
  File "/app/fit.py", line 88, in train
    optimizer.step()
  File "/env/lib/python3.11/site-packages/torch/optim/adamw.py", line 150, in _init_group
    state["exp_avg_sq"] = torch.zeros_like(
""" + (OOM + OWN).format(asked="3.00 GiB", free="1.20 GiB", used="77.90 GiB", held="76.00 GiB", spare="900.00 MiB")
    found = first(log)
    assert "optimizer" in found.title
    assert found.where == "/app/fit.py:88 train"


def test_memory_of_one_line_of_an_old_torch() -> None:
    log = "RuntimeError: CUDA out of memory. Tried to allocate 48.00 MiB (GPU 1; 15.78 GiB total capacity; 3.10 GiB already allocated; 20.00 MiB free; 3.40 GiB reserved in total by PyTorch)"
    assert "12.36 GiB" in said(first(log))


# --- arithmetic ------------------------------------------------------------------------------------------------------


def test_the_batch_arithmetic_is_done_for_the_reader() -> None:
    log = "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 96 != 4 * 2 * 8"
    found = first(log)
    assert "4 x 2 x 8 = 64" in found.title
    assert "written for 12 GPUs" in found.cause
    one = first(log.replace("4 * 2 * 8", "4 * 6 * 1"))
    assert "sees one GPU" in one.title
    assert "--nproc_per_node=4" in said(one)


def test_rollouts_are_counted_from_the_command_line() -> None:
    log = """python train_rl.py --train_batch_size 256 --rollout_batch_size 64 --n_samples_per_prompt 8
AssertionError: num_rollouts_per_episodes should be > 0"""
    found = first(log)
    assert "fewer than 64 prompts" in found.title
    assert "64 x 8 = 512" in said(found)
    wide = first(log.replace("train_batch_size 256", "train_batch_size 1024"))
    assert "fewer than 128 prompts" in wide.title


def test_vocabulary_prefix_and_shards_are_told_apart_by_shapes_and_names() -> None:
    rows = "size mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([32000, 4096]) from checkpoint, the shape in current model is torch.Size([32016, 4096])."
    assert "16 more" in first(f"RuntimeError: Error(s) in loading state_dict for LM:\n\t{rows}").cause
    names = """RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "trunk.a.weight", "trunk.b.weight", "head.weight".
\tUnexpected key(s) in state_dict: "student.trunk.a.weight", "student.trunk.b.weight", "student.head.weight"."""
    found = first(names)
    assert 'removeprefix("student.")' in said(found)
    assert "3 of the unexpected" in found.cause
    shards = "RuntimeError: The size of tensor a (81920000) must match the size of tensor b (10240000) at non-singleton dimension 0"
    assert (first(shards).code, "ratio 8" in first(shards).cause) == ("resume_mismatch", True)


# --- figures over the run --------------------------------------------------------------------------------------------


def test_nan_behind_cheerful_lines_is_found_with_its_step() -> None:
    good = noisy(30, 2.0, 1.5)
    log = (
        steps(60, loss=good + [math.nan] * 30, lr=[0.0004] * 60)
        + "\nBest model saved!\nTraining finished successfully."
    )
    found = first(log)
    assert found.code == "nan_loss"
    assert "line 31" in found.title
    assert "step 30" in found.cause
    assert "0.0004" in found.cause
    assert "30 of the 60" in found.cause


def test_a_loss_that_rose_before_it_broke_diverged() -> None:
    values = noisy(40, 2.0, 1.2) + noisy(10, 1.5, 30.0) + [math.nan] * 5
    found = first(steps(55, loss=values))
    assert "rose" in found.cause
    assert "divergence" in found.cause


def test_one_nan_that_the_run_got_over_is_none() -> None:
    assert codes(steps(40, loss=[*noisy(20, 2.0, 1.8), math.nan, *noisy(19, 1.8, 1.6)])) == []


def test_a_zero_loss_beside_a_nan_gradient_is_nan() -> None:
    log = "\n".join(
        f"{{'loss': {1.2 if i < 4 else 0.0}, 'grad_norm': {3.1 if i < 4 else 'nan'}, 'learning_rate': 2e-05, 'epoch': 0.0{i}}}"
        for i in range(9)
    )
    assert first(log).code == "nan_loss"
    assert "0.0" in first(log).title


OVERFLOW = "[2031-05-02 10:00:{:02d},000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}"


def overflows(powers: range) -> list[str]:
    return [OVERFLOW.format(n % 60, 2**p, max(1, 2 ** (p - 1))) for n, p in enumerate(powers)]


def test_the_search_for_a_loss_scale_is_no_failure_and_one_without_end_is() -> None:
    search = "\n".join(overflows(range(32, 16, -1)))
    assert codes(search) == []
    assert codes(search + "\n" + steps(20, loss=noisy(20, 3.0, 2.5))) == []
    floor = first("\n".join(overflows(range(16, -1, -1))))
    assert (floor.code, "65536" in floor.cause, "17 overflows" in floor.cause) == ("grad_scaler_underflow", True, True)


def test_a_constant_scale_of_one_belongs_to_bf16() -> None:
    log = "\n".join(
        f" iteration {i}/ 500 | lm loss: {3 - i / 100:.4f} | loss scale: 1.0 | grad norm: 0.9 | number of nan iterations: 0 |"
        for i in range(60)
    )
    assert codes(log) == []


def test_a_run_that_became_slower_and_one_with_longer_answers() -> None:
    slow = "\n".join(f"step {i} loss {2 - i / 300:.4f} step_time: {1.0 if i < 100 else 4.2:.2f}" for i in range(200))
    found = first(slow)
    assert found.code == "slow_training"
    assert "4.2 times" in found.title
    steady = "\n".join(f"step {i} loss {2 - i / 300:.4f} step_time: {1 + (i % 7) / 10:.2f}" for i in range(200))
    assert codes(steady) == []
    longer = "\n".join(
        f"step:{i} - response_length/mean:{200 + 6 * i} - step_time:{1 + i / 50:.3f}" for i in range(200)
    )
    assert "longer" in said(first(longer)) or "grew" in first(longer).cause


def test_reward_flat_and_kl_running_away() -> None:
    flat = "\n".join(f"step:{i} - critic/rewards/mean:0.0 - actor/entropy:0.{400 + i % 9}" for i in range(40))
    assert first(flat).code == "reward_collapse"
    away = "\n".join(
        f"step:{i} - critic/rewards/mean:{0.2 + (i % 13) / 50} - actor/ppo_kl:{0.01 if i < 45 else 2.0 ** (i - 44)}"
        for i in range(60)
    )
    assert "kl_out_of_range" in codes(away)
    rising = "\n".join(
        f"step:{i} - critic/rewards/mean:{0.2 + i / 100:.3f} - actor/ppo_kl:{0.01 + (i % 5) / 500:.4f}"
        for i in range(60)
    )
    assert codes(rising) == []


def test_memory_that_grows_and_memory_that_levels_off() -> None:
    leak = "\n".join(f"step {i} loss {2 - i / 400:.4f} gpu_mem_gb: {10 + i / 20:.3f}" for i in range(120))
    found = first(leak)
    assert found.code == "gpu_memory_leak"
    assert "MiB a step" in found.title
    level = "\n".join(
        f"step {i} loss {2 - i / 400:.4f} gpu_mem_gb: {30 - 20 * math.exp(-i / 5):.3f}" for i in range(120)
    )
    assert codes(level) == []


def test_experts_that_get_nothing() -> None:
    found = first("layer 4 tokens_per_expert: [2011, 3, 0, 1988, 1, 0, 2040, 2]")
    assert found.code == "moe_imbalance_or_nan"
    assert "5 of 8" in found.title
    assert codes("layer 4 tokens_per_expert: [1011, 990, 1024, 1001, 998, 1017, 1003, 1020]") == []


# --- what is said and is none ----------------------------------------------------------------------------------------

HEALTHY = {
    "the scale of a DeepSpeed config": '"fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000}',
    "experts in use": "router_entropy: 1.9 max_vio: 0.2 dead_experts: 0\nexpert utilization: 61/64 experts active\ntopk_idx: [3, 7, 1, 9, 3, 4, 2, 8]",
    "an optimizer that was loaded": "Resumed: optimizer.load_state_dict(saved['optimizer'])\n"
    + steps(6, loss=noisy(6, 0.9, 0.8)),
    "a check for nan": "checking for NaN in loss: enabled\nno NaN or Inf found in outputs\n0 NaN values detected in the data",
    "a rule of batches in a help text": "  --batch_size  must be divisible by the number of GPUs\n"
    + steps(6, loss=noisy(6, 0.9, 0.8)),
    "an engine's optional kernel": "WARNING 01-02 03:04:05 [interface.py:10] Failed to import from vllm._C: ModuleNotFoundError(\"No module named 'vllm._C'\")",
    "a checkpoint that is not there at a first start": "No checkpoint found at out/last.pt, training from scratch\nstep 0 loss 2.31\nstep 1 loss 2.30",
    "new layers": "Some weights of TinyBert were not initialized from the model checkpoint at base and are newly initialized: ['head.weight']\nYou should probably TRAIN this model",
    "an optional package": "WARNING: No module named 'apex', falling back to the native optimizer\nstep 0 loss 2.3\nstep 1 loss 2.2",
    "0 examples for a moment": "Generating train split: 0 examples [00:00, ? examples/s]\nGenerating train split: 8000 examples [00:02, 3900.00 examples/s]\nstep 1 loss 2.2",
    "workers killed after the end": "step 900 loss 0.4\nTraining completed in 3600 s\nRuntimeError: DataLoader worker (pid 812) is killed by signal: Killed.",
    "a worker that ends with the run": "Traceback (most recent call last):\n  File \"/app/main.py\", line 9, in run\n    loop()\nRuntimeError: DataLoader worker (pid 812) is killed by signal: Killed.\nstep:9 - loss:0.4\nFinal validation metrics: {'acc': 0.5}",
    "a destructor in the wrong process": "AssertionError: can only test a child process",
    "a directory that is made": "Checkpoint directory ./runs/9 does not exist, creating it",
    "a hint about workers": "The 'train_dataloader' does not have many workers which may be a bottleneck. Consider increasing the value of the `num_workers` argument` to `num_workers=31`",
    "one overflow": "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 65536.0",
    "handled memory": "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\nretrying with batch size 16\n"
    + steps(30, loss=noisy(30, 2.0, 1.0)),
    "a random state that is not there": "Didn't find an RNG file, if you are resuming a training that was launched in a distributed fashion, reproducibility is not guaranteed.",
    "a plateau late in a long run": steps(400, start=90000, loss=noisy(400, 1.803, 1.801, 0.05)),
}


@each("scene", HEALTHY)
def test_frightening_lines_of_a_sound_run_give_nothing(scene: str) -> None:
    assert codes(HEALTHY[scene]) == []


# --- wordings ---------------------------------------------------------------------------------------------------------

FRAMES = """Traceback (most recent call last):
  File "/app/run.py", line 12, in main
    engine.resume(path)
  File "/app/engine.py", line 88, in resume
    self.optimizer.load_state_dict(saved["optimizer"])
  File "/opt/py/fancy/optimizer.py", line 40, in load_state_dict
    self.inner.load(state)
  File "/opt/py/fancy/inner.py", line 7, in load
    one()
  File "/opt/py/fancy/inner.py", line 9, in one
    two()
  File "/opt/py/fancy/inner.py", line 11, in two
    return state["state"]
"""

WORDINGS = {
    "the optimizer in the frames": ("resume_mismatch", FRAMES + "KeyError: 'state'"),
    "memory while the optimizer is loaded": (
        "cuda_oom",
        FRAMES + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "placeholders of ZeRO-3": (
        "resume_mismatch",
        "size mismatch for enc.1.w: copying a param with shape torch.Size([1]) from checkpoint, the shape in current model is torch.Size([640, 320]).",
    ),
    "another argument": (
        "resume_mismatch",
        "AssertionError: num_layers value from checkpoint (24) is not equal to the input argument value (30).",
    ),
    "one expert for all": (
        "moe_imbalance_or_nan",
        "layer: 1 topk_idx: [6, 6, 6, 6, 6, 6, 6, 6]\nlayer: 2 topk_idx: [11, 11, 11, 11, 11, 11, 11, 11]",
    ),
    "few experts in use": ("moe_imbalance_or_nan", "step 90 expert utilization: 3/64 experts active"),
    "nothing to dispatch": (
        "moe_imbalance_or_nan",
        "  File \"/app/moe/token_dispatcher.py\", line 310, in combine\nRuntimeError: shape '[64, 1, 512]' is invalid for input of size 0",
    ),
    "a scale that only falls": (
        "grad_scaler_underflow",
        "\n".join(
            f"OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {2**n}, reducing to {2 ** (n - 1)}"
            for n in (6, 5, 4, 3)
        ),
    ),
    "a preparation that somebody waits for": (
        "dataset_stuck",
        "Indexing shards  [##################-]  811/812  00:00:09\nfor more than 2 days.",
    ),
    "no locks": ("dataset_stuck", "OSError: [Errno 37] No locks available"),
    "rollouts in mini-batches": (
        "batch_size_config_error",
        "SystemExit: bad spec: ['rollout_steps (90) must be divisible by num_mini_batches (4)']",
    ),
    "an assertion of batches": (
        "batch_size_config_error",
        "    assert self.n_batch % self.nminibatches == 0\nAssertionError",
    ),
    "whatever argparse says": (
        "cli_argument_error",
        "fit.py: error: argument --bf16: Truthy value expected: got ye but expected one of yes/no",
    ),
    "a line that does not continue": ("cli_argument_error", "run.sh: line 14: --warmup_steps: command not found"),
    "semaphores in a full /dev/shm": (
        "dataloader_worker_died",
        '  File "/usr/lib/python3.10/multiprocessing/synchronize.py", line 57, in __init__\n    sl = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device',
    ),
    "boxes that are not finite": (
        "nan_loss",
        "FloatingPointError: Predicted masks contain Inf/NaN. Training has diverged.",
    ),
}


@each("scene", WORDINGS)
def test_other_wordings_of_the_same_failure(scene: str) -> None:
    code, log = WORDINGS[scene]
    assert codes(log)[:1] == [code]


def test_a_process_that_is_not_ours_is_told_by_what_we_hold() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.10 GiB is free. Process 9 has {} GiB memory in use. Of the allocated memory {} GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated."
    theirs, ours = first(log.format("60.00", "16.20")), first(log.format("77.50", "76.10"))
    assert "process 9" in theirs.title
    assert "GPU 3" in theirs.title
    assert "process 9" not in said(ours)


# --- words that mislead ----------------------------------------------------------------------------------------------


def test_no_space_left_is_shared_memory_where_the_path_says_so() -> None:
    assert (
        first("RuntimeError: unable to write to file </torch_77_3>: No space left on device (28)").code
        == "dataloader_worker_died"
    )
    assert first("OSError: [Errno 28] No space left on device: '/ckpt/step_9/model.pt'").code == "checkpoint_disk_full"


def test_a_file_that_torch_refuses_is_not_damaged() -> None:
    log = "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded.\n\tWeightsUnpickler error: Unsupported global: GLOBAL shop.Config was not an allowed global by default."
    found = first(log)
    assert "not damaged" in found.cause
    assert "shop.Config" in found.cause


def test_the_option_that_was_meant_is_named() -> None:
    log = """usage: fit.py [-h] --data DATA [--learning-rate LR] [--epochs N]
fit.py: error: unrecognized arguments: --learning_rate 0.1"""
    found = first(log)
    assert found.code == "cli_argument_error"
    assert "--learning-rate" in found.title


def test_a_crash_at_0_examples_is_no_slow_disk() -> None:
    log = "Generating train split: 0 examples [00:00, ? examples/s]\nFatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):"
    found = first(log)
    assert (found.code, "crashed" in found.title) == ("dataset_stuck", True)
    assert first("Generating train split: 0 examples [00:00, ? examples/s]").confidence == "low"


def test_texts_are_chinese_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    found = first(
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 32 != 4 * 2 * 2"
    )
    assert "该配置是为 4 张 GPU 写的" in found.cause
    assert "world size" not in found.title


# --- tf.data's shuffle buffer --------------------------------------------------------------------------------------

FILLING = "2024-05-06 07:{minute:02}:{second:02}.123456: I tensorflow/core/kernels/data/shuffle_dataset_op.cc:422] ShuffleDatasetV3:7: Filling up shuffle buffer (this may take a while): {held} of {whole}"


def filling(per_line: int, whole: int, lines: int = 6) -> str:
    return "\n".join(
        FILLING.format(minute=n // 6, second=n % 6 * 10, held=n * per_line, whole=whole) for n in range(1, lines + 1)
    )


def test_a_shuffle_buffer_that_will_take_long_is_told_with_its_arithmetic() -> None:
    found = first(filling(400, 100_000))
    assert (found.code, found.severity) == ("slow_training", "warning")
    assert "2400 of 100000" in found.title
    assert "about 40.7 min" in found.title, "97,600 at 40 a second"


@pytest.mark.parametrize(
    "goes_on",
    ["", "\n2024-05-06 07:02:00.5: I tensorflow/core/kernels/data/shuffle_dataset_op.cc:452] Shuffle buffer filled."],
)
def test_a_shuffle_buffer_that_is_nearly_or_quite_full_is_none(goes_on: str) -> None:
    assert codes(filling(400, 100_000 if goes_on else 5_000) + goes_on) == []


def test_a_shuffle_buffer_below_which_the_training_goes_on_is_none() -> None:
    assert codes(filling(400, 100_000) + "\nEpoch 2/9\n99/99 [====] - 3s 22ms/step - loss: 1.25") == []
