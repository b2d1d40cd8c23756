"""Checkpoints as results: written, verified, looked into, compared; and the Findings that scenes share."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_traindbg.model import (
    CheckedFile,
    Checkpoint,
    CheckpointFile,
    CheckpointPart,
    CheckpointRank,
    Compared,
    Finding,
    Inspected,
    KeyDifference,
    NotAvailable,
    Subject,
    TensorKey,
    Verified,
)

GIB = 1024**3
MIB = 1024**2
JOB = "/home/ada/experiments/char-transformer"

FINDING = Finding(
    code="grad_nan",
    severity="critical",
    title="the gradient of 2 parameters is NaN on rank 1",
    who=[Subject("rank", 1), Subject("thing", "decoder.layers.3.attention.out.weight")],
    where="train.py:88 training_step",
    evidence=["total norm NaN at step 1204", "rank 0 had 3.1 at the same step\nboth read after optimizer step 1204"],
    cause="a division by a standard deviation of zero in the loss's normalisation",
    next_steps=["run %grads --first-nan to name the first module", "clamp the deviation: `x / (x.std() + 1e-6)`"],
    reference="https://pytorch.org/docs/stable/notes/autograd.html",
    confidence="medium",
)
WARNING = Finding(
    "memory_growth", "warning", "resident memory grows by 12 MiB a step", who=[Subject("rank", 0)], confidence="high"
)
INFO = Finding("gpu_shared", "info", "GPU 0 is shared with another job")


def keys(layers: int) -> tuple[TensorKey, ...]:
    """A transformer's, nine a layer, its head tied to its embedding."""
    parts = {"self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"), "mlp": ("gate_proj", "up_proj", "down_proj")}
    of_layer = [f"{m}.{p}" for m, ps in parts.items() for p in ps]
    made = [TensorKey("model.embed_tokens.weight", (32000, 512), "bfloat16", 32000 * 1024)]
    for i in range(layers):
        made += [TensorKey(f"model.layers.{i}.{p}.weight", (512, 512), "bfloat16", 512 * 1024) for p in of_layer]
        made += [TensorKey(f"model.layers.{i}.{p}.weight", (512,), "float32", 2048) for p in ("norm_1", "norm_2")]
    return (*made, TensorKey("lm_head.weight", (32000, 512), "bfloat16", 32000 * 1024, "model.embed_tokens.weight"))


def verified(files: int, bad: bool = True) -> Verified:
    made = [CheckedFile(f"rank-{i}.pt", "good", 40 * MIB, 40 * MIB, i) for i in range(files)]
    if bad:
        made[0] = CheckedFile("model.pt", "damaged", GIB, GIB, 0, "sha256 differs")
        made.append(CheckedFile("optimizer.pt", "missing", 2 * GIB, NotAvailable("it is not there"), 0))
        made.append(CheckedFile("notes.txt", "extra", NotAvailable("it is not in the manifest"), 12))
    return Verified(
        "/ckpt/step-1204", "replicated", 1204, tuple(made), 3 * GIB, 4.2, ("taken hung",), (FINDING,) if bad else ()
    )


def inspected(layers: int) -> Inspected:
    all_keys = keys(layers)
    parts = (
        CheckpointPart("model", True, "last.ckpt: state_dict", len(all_keys), GIB, "a pickled thing"),
        CheckpointPart("optimizer", True, "last.ckpt: optimizer_states", 2 * len(all_keys), 2 * GIB),
        CheckpointPart("rng", False, "", 0, 0, "not found"),
    )
    return Inspected(
        "/ckpt/last.ckpt", "Lightning, torch.save (zip)", 3 * GIB, ("last.ckpt", "rank-0.pt"), 1204, "global_step in last.ckpt",
        all_keys, parts, False, ("numpy.dtype", "mymodel.Config"), {"epoch": "3"}, ("a note",), (INFO,),
    )  # fmt: skip


def compared(layers: int) -> Compared:
    known = keys(layers)
    differences = [
        KeyDifference("missing", k.name, None, k, "checkpoint_other_depth") for k in known[: len(known) // 2]
    ]
    differences += [KeyDifference("unexpected", k.name, k, None) for k in known[len(known) // 2 : -1]]
    differences += [KeyDifference("shape", "lm_head.weight", known[-1], known[1], "checkpoint_other_config")]
    return Compared(
        "/ckpt/last.ckpt",
        "rank 0",
        len(known),
        len(known),
        0,
        tuple(differences),
        (("module.", ""), ("", "model.")),
        (WARNING,),
    )


def checkpoint(ranks: int, missing: Sequence[int] = (), *, hung: bool = False, kind: str = "replicated") -> Checkpoint:
    """The ranks of a checkpoint; rank 5, where there is one, paused for longest, and of rank 7 no step had been seen."""
    there = [r for r in range(ranks) if r not in missing]
    blind = NotAvailable("no step of it was seen before it stopped")
    inexact = [f"rank {r} did not answer: random generators and loader positions are not in it" for r in missing[:1]]
    inexact += ["rank 7: random generators and loader positions of the last boundary are not known"] * (7 in there)
    made = [
        CheckpointRank(
            rank=r,
            pid=1000 + r,
            step=812,
            steps=(12_812,),
            boundary=blind if r == 7 else "before the next batch",
            pause_s=NotAvailable("it made no steps anyway") if hung else 0.004 + 0.03 * (r == 5),
            written_bytes=GIB if r == there[0] else 40_000,
        )
        for r in there
    ]
    files = [
        CheckpointFile("model.pt", 410 * MIB, "3f" * 32, there[0]),
        CheckpointFile("optimizer.pt", 820 * MIB, "9c" * 32, there[0]),
    ]
    files += [CheckpointFile(f"rank-{r}.pt", 40_000, "d1" * 32, r) for r in there]
    return Checkpoint(
        directory=f"{JOB}/rescued",
        kind=kind,
        taken="hung" if hung else "loop boundary",
        mixed=False,
        exact=not inexact,
        inexact=tuple(inexact),
        world_size=ranks,
        ranks=tuple(made),
        missing_ranks=tuple(missing),
        contents=("model", "optimizer", "scheduler", "random generators", "loader positions"),
        files=tuple(files),
        bytes=sum(f.bytes for f in files),
        duration_s=2.31,
        notes=("it was making steps when asked, and then none came any more",) * hung,
        verdict=(WARNING,) * bool(inexact),
    )
