# ruff: noqa: E501 - a line of a log stays one line
"""What only figures tell: each way to go wrong beside a sound twin that differs by little. Written for this test; no log of anybody."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

from cases import each
from log_evidence import judged, said

STEP = "step {i} loss {v:.4f} lr 1.0e-05"
EPOCH = "Epoch {i}/40 - train loss: {v:.4f} - val loss: {w:.4f} - val acc: {a:.4f}"
SB3 = "-----\n| rollout/             |          |\n|    ep_rew_mean       | {v:<8} |\n| time/                |          |\n|    total_timesteps   | {t:<8} |\n| train/               |          |\n|    value_loss        | {w:<8} |\n-----"


def lines(form: str, values: Iterable[float], **more: object) -> str:
    return "\n".join(form.format(i=i, v=v, **more) for i, v in enumerate(values))


def jumping(count: int, begin: float, end: float, noise: float, seed: int = 3) -> list[float]:
    chance = random.Random(seed)
    return [begin + (end - begin) * i / (count - 1) + noise * chance.uniform(-1, 1) for i in range(count)]


def epochs(losses: Iterable[float], validation: Iterable[float], accuracy: Iterable[float]) -> str:
    rows = zip(losses, validation, accuracy, strict=True)
    return "\n".join(EPOCH.format(i=i, v=v, w=w, a=a) for i, (v, w, a) in enumerate(rows, 1))


def megatron(losses: Iterable[float], start: int = 7000) -> str:
    return "\n".join(
        f" iteration {start + 10 * i:8d}/ 90000 | consumed samples: {i * 96:9d} | elapsed time per iteration (ms): 1800.1 | learning rate: 6.000E-05 | lm loss: {v:.6E} | grad norm: 1.2 |"
        for i, v in enumerate(losses)
    )


SMOOTH = [2.0 / (1 + i / 10) for i in range(40)]
ROUND_CHANCE = [0.6931 + d for d in (0.0, 0.0011, -0.0004, 0.0002, -0.0009, 0.0006, 0.0001, -0.0003, 0.0004, 0.0)]
FALLS_AND_CLIMBS = [*jumping(20, 9.0, 3.0, 0.1), *jumping(40, 3.0, 4.3, 0.1)]
SMI = """+---------------------------------------------------------------------------------------+
|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |
| N/A   30C    P0          {p0:>4}W / 400W |  {m0:>5}MiB / 81920MiB |   {u0:>3}%      Default |
|   1  NVIDIA A100-SXM4-80GB          On  | 00000000:0B:00.0 Off |                    0 |
| N/A   31C    P0          {p1:>4}W / 400W |  {m1:>5}MiB / 81920MiB |   {u1:>3}%      Default |
|   2  NVIDIA A100-SXM4-80GB          On  | 00000000:48:00.0 Off |                    0 |
| N/A   31C    P0          {p1:>4}W / 400W |  {m1:>5}MiB / 81920MiB |   {u1:>3}%      Default |
+---------------------------------------------------------------------------------------+"""
ENGINE = "INFO 01-02 03:04:{i:02d} [loggers.py:99] Engine 000: Avg prompt throughput: 900.0 tokens/s, Avg generation throughput: {v:.1f} tokens/s, Running: 1 reqs, Waiting: 1 reqs, GPU KV cache usage: {u:.1f}%, Prefix cache hit rate: 0.0%"


def smi(**more: int) -> str:
    return SMI.format(**{"p0": 300, "p1": 300, "m0": 40000, "m1": 40000, "u0": 97, "u1": 97, **more})


def engine(rows: Iterable[tuple[float, float]]) -> str:
    return "\n".join(ENGINE.format(i=i, v=v, u=u) for i, (v, u) in enumerate(rows))


WRONG = {
    # the loss
    "a loss that jumps and stays": ("loss_not_converging", megatron([2.71, 2.70, 2.69, 5.10, 5.02, 4.95, 4.88]), "jumped from 2.69"),
    "a loss that climbs with every value": ("loss_not_converging", megatron([6.3, 6.6, 7.3, 9.1, 10.2]), "jumped"),
    "a loss that is a thousand times larger": ("loss_not_converging", megatron([11.7, 8.8, 8712.0, 15806.0]), "8.8"),
    "a loss that explodes again and again": ("loss_not_converging", lines(STEP, [3.1, 2.9, 2.8, 9.1e6, 3.0, 2.7] * 5), "explodes"),
    "a loss that climbs again": ("loss_not_converging", lines(STEP, FALLS_AND_CLIMBS), "rises"),
    "a loss that creeps up": ("loss_not_converging", "\n".join(f"{{‘loss’: {v:.4f}, ‘epoch’: {i / 10}}}" for i, v in enumerate(jumping(12, 1.40, 1.60, 0.01))), "rises"),
    "the loss of a guess": ("loss_not_converging", epochs(ROUND_CHANCE, ROUND_CHANCE, [0.5] * 10), "a guess among 2"),
    "a loss that stands still after it moved": ("loss_not_converging", lines(STEP, [4.2, 3.1, 7.9, 2.5, *([2.3026] * 12)]), "ln 10"),
    "a loss of exactly zero": ("loss_not_converging", lines("epoch {i} avr_loss={v}", [0.0] * 6), "exactly 0"),
    "the losses of actor and critic": ("loss_not_converging", lines("update {i}: actor_loss: {v} critic_loss: {v} mean reward: 3.{i}", [0.0] * 12), "exactly 0"),
    "evaluations that never move": ("loss_not_converging", lines("step: {i} validation loss: {v:.4f}", jumping(10, 11.864, 11.857, 0.001)), "11.86"),
    "evaluations that get worse while nothing is learnt": ("loss_not_converging", epochs([1.03, *jumping(15, 0.82, 0.83, 0.005)], [0.66, 0.83, 0.69, *jumping(13, 2.5, 14.0, 1.0)], jumping(16, 0.78, 0.3, 0.02)), "rises"),
    "one answer for everything": ("loss_not_converging", "\n".join(f"epoch {170 + i} train loss: {1 + (i * 7 % 5) / 3:.3f}; train acc: 0.500{i % 3} val acc: 0.5000" for i in range(9)), "one answer"),
    "an accuracy of exactly zero": ("loss_not_converging", "\n".join(f"total_step {24000 + 50 * i}, total loss is {46 + i % 3} , training accuracy is 0.000000" for i in range(9)), "exactly 0"),
    "as wrong as can be": ("loss_not_converging", lines("Iteration {i}0, loss = {v}", [87.3365] * 4), "87.34"),
    "epochs of a guess, with their accuracy": ("loss_not_converging", epochs([0.711, 0.705, 0.704, 0.7, 0.698, 0.696, 0.693, 0.696, 0.693], [0.693] * 9, [0.486, 0.514, 0.486, 0.514, 0.486, 0.514, 0.514, 0.514, 0.486]), "a guess among 2"),
    "a dozen epochs at the same loss": ("loss_not_converging", "\n".join(f"Epoch {i + 1} Average Training Loss: {v:.4f}" for i, v in enumerate(jumping(16, 1.0, 1.0, 0.05))), "has not fallen"),
    "a thousand steps for a hundredth": ("loss_not_converging", "\n".join(f"Step: {100 * i} | Loss: {v:.3f}" for i, v in enumerate(jumping(24, 9.75, 9.70, 0.005), 1)), "has not fallen"),
    "a loss that is printed alone": ("nan_loss", "\n".join(["tensor(3.2207, device='cuda:0')", *(["tensor(nan, device='cuda:0')"] * 6)]), "nan"),
    "what the model says is no number": ("nan_loss", lines("{{'loss': {v}, 'rewards/chosen': nan, 'logps/chosen': nan, 'logps/rejected': nan, 'logits/chosen': nan}}", [2.4e9, 0.0, 0.0]), "nan"),
    "a nan in brackets": ("nan_loss", "\n".join(f"iter: {i}, loss: [{v}]" for i, v in enumerate(["9.1", "nan", "nan", "nan", "nan"])), "nan"),
    # rewards
    "a reward that falls away": ("reward_collapse", lines("rl_loss: 0.0, total_reward: {v}, total_num: 256", [144, 120, 116, 84, 35, 22, 9, 4, 1, 0, 2, 0]), "fallen from 120"),
    "a reward that sinks": ("reward_collapse", lines("Step: {i}000. Mean Reward: {v:.3f}. Std of Reward: 0.1.", [1.17, 1.32, -3.6, -3.9, -31.7, -88.3]), "1.17"),
    "a reward that is never there": ("reward_collapse", "\n".join(SB3.format(v=0, t=1_000_000 + i, w="2.2e-09") for i in range(9)), "stays at 0"),
    "one score for everything": ("reward_collapse", lines("average reward score: {v:.5f}", [0.2056, 0.2058, 0.2061, 0.2059, 0.2060, 0.2062, 0.2061]), "0.2"),
    "only the form is rewarded": ("reward_collapse", "\n".join(f"{{'loss': 0.01, 'rewards/format_reward_func': 0.{i % 7 + 3}, 'rewards/equation_reward_func': 0.0, 'reward': 0.{i % 7 + 3}}}" for i in range(12)), "equation_reward_func is 0"),
    "groups without a spread": ("reward_collapse", lines("{{'loss': 0.0, 'grad_norm': 0.1{i}, 'reward': 0.{i}, 'reward_std': {v}}}", [0.0] * 6), "at each of 6 printed steps"),
    "a group without a spread": ("reward_collapse", "{'loss': 0.0, 'reward': 0.25, 'frac_reward_zero_std': 1.0}", "in what little was printed"),
    "a policy that becomes random": ("reward_collapse", lines("step:{i} - critic/score/mean:0.1{i} - actor/entropy:{v:.3f}", [0.46, 1.3, 2.6, 2.7, 6.0, 7.5, 8.4, 9.3, 10.6, 10.9]), "random"),
    "a KL that runs away at once": ("kl_out_of_range", "       pol_surr |    pol_entpen |       vf_loss |            kl\n" + lines("        0.9{i} |       0.00000 |      1.73e+05 |       {v:.5f}", [0.017, 1.76, 3.79, 4.34, 4.47]), "0.017"),
    "a KL beyond the program's own limit": ("kl_out_of_range", "reward/mean: 0.4\nINFO:__main__:KL divergence 10.34 exceeds threshold 10.0\nreward/mean: 0.4", "10.34"),
    # speed and data
    "time per batch that nearly doubles": ("slow_training", lines("Batch {i}0/9000 | Loss: 12.{i} | Time: {v:.1f}s", [*jumping(20, 21.7, 21.8, 0.2), 134.0, *jumping(60, 38.0, 38.0, 1.0)]), "times as long"),
    "a rate that breaks down": ("slow_training", lines("Epoch[0] Batch [{i}9]\tSpeed: {v:.2f} samples/sec\taccuracy=0.00{i}", [801.1, 800.7, 800.9, 796.8, 403.1, 108.5]), "times as long"),
    "epochs that take longer and longer": ("slow_training", lines("Epoch: {i} cost= 19.{i}\ntime this epoch= {v:.3f}", [1.75, 1.87, 2.05, 2.40, 2.56, 2.67, 2.64, 2.63, 2.62, 2.66]), "times as long"),
    "meters that are mostly data": ("low_gpu_utilisation", lines("Test: [{i}0/1814] Data {v:.3f} (0.9) Batch 0.950 (1.1).", jumping(12, 0.7, 0.8, 0.05)), "waiting for data"),
    "a mean that is mostly data": ("low_gpu_utilisation", "\n".join(f"Epoch: [1][{6400 + 128 * i}/10010]\tTime 0.428 (2.779)\tData 0.000 (2.399)\tLoss 8.6{i} (9.9)" for i in range(4)), "86%"),
    "a reader that is most of each batch": ("low_gpu_utilisation", lines("iter: {i}0, loss: 4.8, reader_cost: {v:.4f} s, batch_cost: 6.1 s, ips: 16", [5.3, 4.9, 5.2, 5.0]), "waiting for data"),
    "a GPU that has little to do": ("low_gpu_utilisation", lines("{v:.0f} %, 5960 MiB", [28, 29, 28, 30, 29, 28]), "28"),
    "the same, by dmon": ("low_gpu_utilisation", "# gpu    pwr  gtemp  mtemp     sm    mem\n# Idx      W      C      C      %      %\n" + lines("    0     10     52      -     {v:>2}      7", [5, 5, 8, 6, 4, 6]), "GPU"),
    # memory and GPUs
    "host memory, ten steps apart": ("gpu_memory_leak", lines("Step {i}0: 6529 tensors, Process RAM: {v:.0f} MB", [5552, 7159, 8851, 10375, 12000, 13757, 15559]), "process ram"),
    "memory of a process, by epochs": ("gpu_memory_leak", lines("[EPOCH {i}] Allocated: 0.00 MB, Reserved: 0.00 MB, CPU: {v:.2f} MB", [955.1, 1264.1, 1575.1, 1886.1, 2197.1, 2508.1, 2818.6]), "memory cpu"),
    "memory that never falls, by little": ("gpu_memory_leak", lines("Mem memory (MB) | allocated: {v:.1f} | max allocated: 99", [20.4, 20.5, 20.5, 20.6, 20.6, 20.7, 20.8, 20.9, 21.0, 21.1]), "memory allocated"),
    "memory by stairs": ("gpu_memory_leak", lines("[after round] alloc: {v:.3f}, reserved: 92.0", [57.0, 57.0, 114.0, 114.0, 171.0, 171.0, 228.0, 228.0, 285.0]), "alloc"),
    "one GPU that holds more": ("uneven_gpu_load", smi(m0=70000), "68.36 GiB"),
    "the same, as it was asked for": ("uneven_gpu_load", "memory.used [MiB], memory.free [MiB]\n11385 MiB, 822 MiB\n2976 MiB, 9231 MiB\n2976 MiB, 9231 MiB", "GPU 0 holds 11.12 GiB"),
    "GPUs that spin for one": ("uneven_gpu_load", smi(p0=68, u0=0, p1=85, u1=100), "only wait in a collective for GPU 0"),
    "contexts of all ranks on one GPU": ("uneven_gpu_load", "\n".join(f"|    0   N/A  N/A   {2690 + i}      C   python train.py      {26167 if i == 0 else 871}MiB |" for i in range(5)), "4 processes"),
    "a prompt that never fits": ("generation_slow", engine([(0, 98.9), (0, 0.0), (0, 0.0), (0, 98.9), (0, 0.0), (0, 97.0)]), "Nothing is generated"),
}  # fmt: skip


@each("what, code, log, words", [(what, *case) for what, case in WRONG.items()])
def test_figures_that_go_wrong_are_told_without_a_word_of_error(what: str, code: str, log: str, words: str) -> None:
    found = judged(log)
    assert [f.code for f in found[:1]] == [code], f"{what}: {[f.title for f in found]}"
    assert words in said(found[0])


SOUND = {
    "a spike that comes back": megatron([2.71, 2.70, 2.69, 5.10, 3.02, 2.75, 2.69, 2.66]),
    "another run in the same log": megatron([2.71, 2.70, 2.69]) + "\n" + megatron([9.1, 8.2, 7.5, 7.0], start=0),
    "a small loss, rounded": lines("step {i} loss {v:.4f}", [0.0] * 8),
    "a noisy loss": lines(STEP, jumping(80, 2.0, 1.9, 0.6)),
    "batches in the order of their length": lines("Epoch: [11][{i}/48]\tTime 0.5 (1.2)\tData 0.002 (0.004)\tLoss {v:.4f} (37.0)", jumping(12, 3.2, 9.0, 4.0)),
    "a bar that is drawn twice": "\n".join(f"Epoch 12: 1%| | {i}/2455 [00:07<08:55, 4.5it/s, loss={v:.4f}]\nEpoch 12: 1%| | {i + 1}/2455 [00:07<08:55, 4.5it/s, loss={v:.4f}]" for i, v in enumerate(jumping(40, 0.15, 0.16, 0.12))),
    "the first epochs at the loss of a guess": epochs([0.6931, 0.6930, 0.68, 0.61, 0.52, 0.4, 0.33, 0.3, 0.28, 0.27], [0.69, 0.68, 0.66, 0.6, 0.5, 0.4, 0.35, 0.32, 0.3, 0.3], jumping(10, 0.5, 0.9, 0.01)),
    "overfitting": epochs(SMOOTH[:16], jumping(16, 0.6, 2.4, 0.05), [0.8] * 16),
    "a model that has learnt it all": epochs([0.31, 0.1, *([0.0] * 14)], [0.3, 0.1, *([0.01] * 14)], [0.9, 0.98, *([1.0] * 14)]),
    "losses of adversaries": lines("[Epoch {i}/200] [D loss: 0.69] [G loss: {v:.3f}] d_loss: 0.69 g_loss: {v:.3f}", jumping(40, 0.7, 2.4, 0.1)),
    "a reward that is solved": "\n".join(SB3.format(v=0.975, t=500_000 + i, w="2.2e-03") for i in range(14)),
    "sparse rewards, early": "\n".join(SB3.format(v=0, t=2048 * i, w="2.2e-03") for i in range(9)),
    "a reward with noise": lines("mean reward: {v:.3f}", jumping(12, 3.0, 3.1, 1.0)),
    "some groups without a spread": lines("{{'loss': 0.01, 'reward': 0.{i}, 'reward_std': {v}, 'frac_reward_zero_std': 0.5}}", [0.0, 0.2, 0.0, 0.1, 0.3, 0.0]),
    "a part of the reward without a spread": lines("{{'loss': 0.01, 'reward': 0.{i}, 'rewards/format_reward/std': 0.0, 'reward_std': {v}}}", [0.3, 0.2, 0.3, 0.1, 0.3, 0.2]),
    "exploration before learning": lines("INFO episodic returns: {v:.0f}", [*jumping(80, 22, 14, 8), *jumping(60, 14, 120, 20)]),
    "a format that is never strict": "\n".join(f"{{'loss': 0.01, 'rewards/strict_format_reward_func': 0.0, 'rewards/correctness_reward_func': 0.{i % 7 + 3}, 'reward': 0.{i % 7 + 3}}}" for i in range(12)),
    "the KL of a variational model": lines("recons_loss: 0.02{i} gen_loss: 0.9 kl_loss: {v:.1f}", jumping(12, 84000, 79000, 900)),
    "more entropy at the start": lines("step:{i} - reward/mean:0.{i} - actor/entropy:{v:.3f}", jumping(10, 0.30, 0.55, 0.01)),
    "the first batch alone waits": lines("Epoch: [0][{i}/500]\tTime 0.20 (0.3)\tData {v:.3f} (0.2)\tLoss 6.9{i} (7.0)", [9.0 / 60, *([0.001] * 20)]),
    "a time since the beginning": lines("iter {i} loss 2.5{i} time: {v:.1f}", [12.5 * i for i in range(1, 60)]),
    "a rate with a pause": lines("Epoch[0] Batch [{i}9]\tSpeed: {v:.2f} samples/sec\taccuracy=0.00{i}", [801.1, 800.7, 800.9, 796.8, 403.1, 798.5]),
    "an engine with fewer requests": engine((v, 20.0) for v in [*jumping(12, 900, 880, 20), *jumping(12, 3, 1, 1)]),
    "an engine that is full and generates": engine((v, 99.0) for v in jumping(8, 300, 290, 5)),
    "memory that levels off": lines("Step {i}0: Process RAM: {v:.0f} MB", [5552, 6600, 6900, 6950, 6960, 6961, 6961, 6962]),
    "memory in an allocator's report": "BufferAssignment stats:\n" + lines("   part {i} allocation: {v:.2f}MiB", [1, 2, 4, 8, 16, 32]),
    "memory that rises at the start alone": lines("Mem memory (MB) | allocated: {v:.1f} | max allocated: 99", [20.4, 25.5, 28.5, 28.6, 28.6, 28.6, 28.7, 28.7, 28.7, 28.8]),
    "GPUs that share": smi(m0=43000),
    "a GPU that computes at full power": smi(p0=390, u0=100, p1=385, u1=100),
    "one moment of rest": smi(u0=12, u1=9),
    "memory of which nothing is known": lines("step {i} memory: {v} GB", [math.nan] * 10),
    "losses that were printed before the epochs began again": lines("Epoch {i}: critic_loss: {v} actor_loss: {v}", [0.0] * 12) + "\nEpoch 0 begins",
    "the names of a query in a sentence": "I asked for utilization.gpu [%] and memory.used [MiB] here, of each GPU\nstep 5, done",
    "a step that is no number": lines("step: {v} accuracy: 0.0", [math.inf] * 12),
    "processes of one GPU each": "\n".join(f"|    {i}   N/A  N/A   {2690 + i}      C   python train.py      26167MiB |" for i in range(4)),
}  # fmt: skip


@each("what, log", list(SOUND.items()))
def test_figures_of_sound_runs_give_nothing(what: str, log: str) -> None:
    assert [f"{f.code}: {f.title}" for f in judged(log)] == [], what


def test_memory_that_is_told_of_one_that_failed_is_no_progress() -> None:
    log = "step 3 loss 2.1\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.\n"
    log += lines("  total allocation {i}: {v:.2f}GiB", [14.4, 9.6, 4.4, 0.6])
    assert [f.code for f in judged(log)] == ["cuda_oom"]


def test_a_frozen_loss_that_is_no_logarithm_of_a_whole_number_speaks_of_no_classes() -> None:
    found = judged(lines(STEP, [4.2, 3.1, 7.9, 2.5, *([2.45] * 12)]))
    assert "2.45" in found[0].title
    assert "classes" not in found[0].cause
    assert math.isclose(math.log(10), 2.3026, abs_tol=1e-4), "and ln 10 is what the other test has"
