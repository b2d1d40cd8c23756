"""Profiles, to be shown: of one rank on a CPU, of a rank that is slower in one operator, on a GPU, of stacks alone; two ranks or 300."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from render_scenes_checkpoints import JOB

from jupyter_traindbg.model import (
    Frame,
    Profile,
    ProfiledLine,
    ProfiledOperator,
    RankProfile,
    SampledStack,
    StepNumber,
)

__all__ = ["on_gpu", "one_rank", "sampled", "slower_in_one", "unseen", "waited_for"]

SITE = "/home/ada/.venv/lib/python3.12/site-packages"
CUT = "torch's profiler is in use by the program itself: nothing was recorded"


def library(path: str, line: int, function: str) -> Frame:
    return Frame(f"{SITE}/{path}", line, function, library=True)


MAIN, LOOP = Frame(f"{JOB}/train.py", 131, "<module>"), Frame(f"{JOB}/train.py", 58, "Trainer.epoch")
FORWARD, BACKWARD = Frame(f"{JOB}/train.py", 40, "Trainer.step"), Frame(f"{JOB}/train.py", 41, "Trainer.step")
OPTIMIZER, LOGS = Frame(f"{JOB}/train.py", 42, "Trainer.step"), Frame(f"{JOB}/train.py", 61, "Trainer.epoch")
HIDDEN, ATTENDS = Frame(f"{JOB}/model.py", 27, "Block.forward"), Frame(f"{JOB}/model.py", 24, "Block.forward")
MASKS, COLLATES = Frame(f"{JOB}/model.py", 19, "causal_mask"), Frame(f"{JOB}/data.py", 33, "collate")
CALLS = (
    library("torch/nn/modules/module.py", 1787, "Module._call_impl"),
    library("torch/nn/modules/module.py", 1776, "Module._wrapped_call_impl"),
)
LINEAR = library("torch/nn/modules/linear.py", 134, "Linear.forward")
ENGINE = (
    library("torch/autograd/graph.py", 869, "_engine_run_backward"),
    library("torch/autograd/__init__.py", 353, "backward"),
    library("torch/_tensor.py", 630, "Tensor.backward"),
)
ADAM = (
    library("torch/optim/adam.py", 463, "_single_tensor_adam"),
    library("torch/optim/adam.py", 949, "adam"),
    library("torch/optim/adamw.py", 91, "AdamW.step"),
    library("torch/optim/optimizer.py", 526, "Optimizer.profile_hook_step.<locals>.wrapper"),
)
FETCHES = (
    library("torch/utils/data/_utils/fetch.py", 55, "_MapDatasetFetcher.fetch"),
    library("torch/utils/data/dataloader.py", 788, "_SingleProcessDataLoaderIter._next_data"),
    library("torch/utils/data/dataloader.py", 732, "_BaseDataLoaderIter.__next__"),
)
BLOCK = (*CALLS, Frame(f"{JOB}/model.py", 36, "Model.forward"), *CALLS, FORWARD, LOOP, MAIN)


def stacks(backward: float = 0.31) -> tuple[SampledStack, ...]:
    """Innermost first; what `backward` has more than usual the others have less, all alike."""
    others = (1 - backward) / 0.69
    usual: Sequence[tuple[Sequence[Frame], float]] = (
        ((LINEAR, *CALLS, HIDDEN, *BLOCK), 0.17),
        ((LINEAR, *CALLS, ATTENDS, *BLOCK), 0.08),
        ((MASKS, ATTENDS, *BLOCK), 0.14),
        ((HIDDEN, *BLOCK), 0.03),
        ((library("torch/nn/functional.py", 3458, "cross_entropy"), FORWARD, LOOP, MAIN), 0.02),
        ((*ADAM, OPTIMIZER, LOOP, MAIN), 0.15),
        ((library("torch/optim/adam.py", 481, "_single_tensor_adam"), *ADAM[1:], OPTIMIZER, LOOP, MAIN), 0.03),
        ((COLLATES, *FETCHES, LOOP, MAIN), 0.03),
        ((LOGS, MAIN), 0.03),
        ((library("json/encoder.py", 261, "JSONEncoder.iterencode"), LOGS, MAIN), 0.01),
    )
    seen = (SampledStack((*ENGINE, BACKWARD, LOOP, MAIN), backward), *(SampledStack(f, s * others) for f, s in usual))
    return tuple(sorted(seen, key=lambda stack: -stack.share))


def lines(step_s: float | None, backward: float = 0.31) -> tuple[ProfiledLine, ...]:
    others = (1 - backward) / 0.69
    seen = (
        (BACKWARD, backward, "autograd::engine::evaluate_function: AddmmBackward0", 0.94),
        (HIDDEN, 0.2 * others, "aten::addmm", 0.78),
        (OPTIMIZER, 0.18 * others, "aten::addcdiv_", 0.41),
        (MASKS, 0.14 * others, "", 0.0),
        (ATTENDS, 0.08 * others, "aten::addmm", 0.8),
        (LOGS, 0.04 * others, "", 0.0),
        (COLLATES, 0.03 * others, "aten::stack", 0.52),
        (FORWARD, 0.02 * others, "aten::log_softmax", 0.6),
    )
    return tuple(
        ProfiledLine(frame, share, None if step_s is None else share * step_s, operator, of_looks)
        for frame, share, operator, of_looks in sorted(seen, key=lambda one: -one[1])
    )


def operators(addmm_s: float = 1.07e-3) -> tuple[ProfiledOperator, ...]:
    evaluated = "autograd::engine::evaluate_function: AddmmBackward0"
    told = (
        ("aten::addmm", "operator", 24.0, addmm_s, 1.16 * addmm_s),
        ("aten::mm", "operator", 36.0, 0.62e-3, 0.66e-3),
        ("Optimizer.step#AdamW.step", "range", 1.0, 0.41e-3, 0.83e-3),
        ("aten::addcdiv_", "operator", 52.0, 0.19e-3, 0.19e-3),
        ("aten::mul_", "operator", 104.0, 0.12e-3, 0.13e-3),
        ("aten::gelu", "operator", 8.0, 0.11e-3, 0.11e-3),
        ("aten::_softmax", "operator", 8.0, 98e-6, 99e-6),
        ("aten::copy_", "operator", 61.0, 91e-6, 91e-6),
        ("aten::bmm", "operator", 16.0, 88e-6, 92e-6),
        ("aten::lerp_", "operator", 52.0, 74e-6, 76e-6),
        ("AddmmBackward0", "operator", 24.0, 61e-6, 0.71e-3),
        (evaluated, "operator", 24.0, 52e-6, 0.79e-3),
        ("aten::sqrt", "operator", 52.0, 49e-6, 51e-6),
        ("aten::sum", "operator", 24.0, 43e-6, 44e-6),
        ("aten::gelu_backward", "operator", 8.0, 41e-6, 41e-6),
        ("aten::_log_softmax", "operator", 1.0, 22e-6, 22e-6),
        ("aten::stack", "operator", 0.8, 12e-6, 19e-6),
        ("aten::embedding", "operator", 1.0, 9e-6, 14e-6),
    )
    return tuple(ProfiledOperator(*one) for one in told)  # type: ignore[arg-type]


def rank(number: int = 0, *, addmm_s: float = 1.07e-3) -> RankProfile:
    """All else is the same on all of them."""
    step_s = 5.1e-3 + (addmm_s - 1.07e-3) + 1e-5 * (number % 5)
    operators_s = 3.16e-3 + (addmm_s - 1.07e-3)
    backward = 0.31 if addmm_s < 2e-3 else 0.48
    return RankProfile(
        number,
        1000 + number,
        5,
        StepNumber(812, 9812),
        step_s,
        step_s / (1.12 + 0.001 * (number % 3)),
        0.052 - 0.001 * (number % 4),
        operators_s,
        0.0,
        step_s - operators_s,
        None,
        5 * 1240,
        412,
        2.06,
        operators(addmm_s),
        lines(step_s, backward),
        stacks(backward),
        2e-4 * number,
        5e-5,
    )


def one_rank() -> Profile:
    return Profile((rank(),), (), 3.1)


def slower_in_one(ranks: int, slow: int = 1) -> Profile:
    """One of them takes twice as long for its matrices. All have been written down."""
    told = tuple(rank(n, addmm_s=2.9e-3 if n == slow else 1.07e-3 + 1e-5 * (n % 4)) for n in range(ranks))
    return Profile(told, (), 4.2, f"{JOB}/run.json.gz")


def waited_for(ranks: int, late: int = 1) -> Profile:
    """All steps take as long: in one of them the others wait, in collective calls, until one of them comes, too."""
    step_s = 25.1e-3
    told = []
    for n in range(ranks):
        waits_s, one = (0.1e-3 if n == late else 20e-3), rank(n)
        python_s = step_s - waits_s - (one.operators_s or 0.0)
        told.append(
            dataclasses.replace(
                one, step_s=step_s, usual_step_s=25e-3, collectives_s=waits_s, python_s=python_s, lines=lines(step_s)
            )
        )
    return Profile(tuple(told), (), 3.1)


def on_gpu() -> Profile:
    """Of a step half is the host's: the GPU waits for it."""
    gemm = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align8>(cutlass::Params)"
    adam = (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >(TensorList)"
    )
    host = (
        ProfiledOperator("cudaLaunchKernel", "runtime", 940.0, 6.2e-3, 6.2e-3),
        ProfiledOperator("aten::addmm", "operator", 96.0, 4.1e-3, 7.3e-3, 9.6e-3),
        ProfiledOperator("AddmmBackward0", "operator", 96.0, 3.8e-3, 9.9e-3, 0.0, training_thread=False),
        ProfiledOperator("aten::mm", "operator", 192.0, 3.1e-3, 5.2e-3, 17.2e-3, training_thread=False),
        ProfiledOperator("cudaStreamSynchronize", "runtime", 2.0, 2.9e-3, 2.9e-3),
        ProfiledOperator("Optimizer.step#AdamW.step", "range", 1.0, 1.2e-3, 3.1e-3, 0.0),
        ProfiledOperator("aten::_fused_adamw_", "operator", 1.0, 0.9e-3, 1.4e-3, 2.2e-3),
    )
    kernels = (
        ProfiledOperator(gemm, "kernel", 288.0, 26.8e-3, 26.8e-3, 26.8e-3, training_thread=False),
        ProfiledOperator(
            "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>",
            "kernel",
            24.0,
            5.1e-3,
            5.1e-3,
            5.1e-3,
            training_thread=False,
        ),
        ProfiledOperator(adam, "kernel", 1.0, 2.2e-3, 2.2e-3, 2.2e-3, training_thread=False),
        ProfiledOperator(
            "Memcpy HtoD (Pinned -> Device)", "kernel", 3.0, 0.4e-3, 0.4e-3, 0.4e-3, training_thread=False
        ),
    )
    one = dataclasses.replace(
        rank(),
        step_s=84e-3,
        usual_step_s=78e-3,
        operators_s=31e-3,
        python_s=53e-3,
        gpu_busy_s=34.4e-3,
        events=5 * 9800,
        operators=(*kernels[:1], *host, *kernels[1:]),
        lines=lines(84e-3),
    )
    return Profile((one,), (), 4.0)


def sampled(ranks: int = 1) -> Profile:
    """Nothing was recorded: only stacks were looked at."""
    told = []
    for n in range(ranks):
        seen = rank(n)
        bare = tuple(dataclasses.replace(line, operator="", operator_share=0.0) for line in seen.lines)
        told.append(
            RankProfile(
                n, 1000 + n, usual_step_s=5.1e-3, looks=412, window_s=2.06, lines=bare, stacks=seen.stacks, note=CUT
            )
        )
    return Profile(tuple(told), (), 2.6)


def unseen() -> Profile:
    return Profile((RankProfile(0, 1000, note="no step came in 30 s"),), (), 30.4)
