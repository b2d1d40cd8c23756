"""The walk of somebody who is called at two in the morning: every verb, on a job that runs, on one that hangs, on logs, plans and a Ray
cluster, and what goes wrong with them. docs/views.md shows the pictures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from browsers import IMAGES, PALE, THEMES, Notebook, photograph, set_theme
from ray_clusters import RAY_TEST_S, Cluster, Submitted
from support import REPO, Start, torchrun

pytestmark = pytest.mark.timeout(600)

Open = Callable[..., Notebook]
PAGE = (REPO / "docs" / "views.md").read_text()
TALL = 3000
"""Pixels of a page on which the longest output is seen whole."""


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they go: into docs/images with TRAINDBG_SCREENSHOTS=1, which is no variable of the jobs that `%environ` shows."""
    wanted = os.environ.get("TRAINDBG_SCREENSHOTS") == "1"
    monkeypatch.delenv("TRAINDBG_SCREENSHOTS", raising=False)
    return IMAGES if wanted else tmp_path


NARROW = """
view => [...view.querySelectorAll('.traindbg-pairs > dd')].filter(dd => dd.checkVisibility() &&
  dd.parentElement.getBoundingClientRect().right - dd.getBoundingClientRect().right > 2).map(dd => dd.textContent.trim().slice(0, 60))
"""
"""What is beside a label and ends before its card does."""


def walk(
    open_notebook: Open, folder: Path, chapter: str, cells: Mapping[str, str], begin: str = "%load_ext traindbg"
) -> None:
    """Run the cells, each of which shows a view, under their names; look at every one of them, and take its picture."""
    book = open_notebook([begin, *cells.values()])
    for index in range(len(cells) + 1):
        book.run(index)
    book.page.set_viewport_size({"width": 1280, "height": TALL})
    for theme in THEMES:
        set_theme(book.page, theme)
        for index, name in enumerate(cells, 1):
            book.show(index)
            views = book.output(index).locator(".traindbg-view")
            assert views.count() == 1, (name, book.output(index).inner_text())
            assert views.evaluate("view => view.clientWidth >= view.scrollWidth"), f"{name}: all of it is in its cell"
            assert views.evaluate(NARROW) == [], f"{name}: text has the room that there is"
            assert views.evaluate(PALE) == [], (name, theme)
            photograph(book.cell(index), folder / f"walk-{chapter}-{name}-{theme}.png")
            assert f"images/walk-{chapter}-{name}-{theme}.png" in PAGE, "docs/views.md shows every view"


def test_a_training_that_runs(open_notebook: Open, start: Start, pictures: Path, free_port: str) -> None:
    program = str(REPO / "notebooks" / "lr_train.py")
    job = start(program, "--minutes", "20", command=torchrun(2, free_port), ready="step 100 ", timeout_s=180)
    cells = {
        "targets": "%targets",
        "attach": f"%attach torchrun:{job.pid}",
        "diagnose": "%diagnose",
        "steps": "%steps",
        "steps-of-a-rank": "%steps --rank 1 --last 6",
        "stacks": "%stacks",
        "threads": "%threads",
        "slow": "%slow",
        "profile": "%profile",
        "nccl-check": "%nccl_check",
        "grads": "%grads",
        "grads-first-nan": "%grads --first-nan --timeout 10",
        "memory": "%memory",
        "gpu": "%gpu",
        "environ": "%environ",
        "lr": "%lr",
        "lr-scaled": "%lr --scale 0.1",
        "lr-in-force": "%lr",
        "lr-undone": "%lr --undo",
        "weight-decay": "%weight_decay",
        "weight-decay-held": "%weight_decay 0.05",
        "clip": "%clip",
        "clip-set": "%clip 1.0",
        "clip-released": "%clip --release",
        "free-memory": "%free_memory",
        "sql-tables": "%sql",
        "sql": "%sql select rank, count(*) as steps, avg(duration_s), avg(data_wait_s), max(rss_bytes) from steps group by rank",
        "sql-modules": "%sql select module, kind, avg(forward_self_s) as forward_s, avg(backward_self_s) as backward_s from modules"
        " group by all order by 4 desc",
        "plot-loss": "%plot",
        "plot-lr": "%plot lr",
        "plot-grads": "%plot grads",
        "plot-memory": "%plot memory",
        "checkpoint": "%checkpoint rescue",
        "checkpoint-verified": "%checkpoint --verify rescue",
        "checkpoint-inspected": "%checkpoint --inspect rescue",
        "checkpoint-compared": "%checkpoint --compare rescue",
        "report": "%report -o run.zip",
        "watch-once": "%watch --once",
        "detach": "%detach",
    }
    walk(open_notebook, pictures, "run", cells)


def test_a_training_that_hangs(open_notebook: Open, start: Start, pictures: Path, free_port: str) -> None:
    job = start("hangs/rank0_branch.py", command=torchrun(2, free_port), ready="ready", timeout_s=120)
    cells = {
        "attach": f"%attach torchrun:{job.pid}",
        "diagnose": "%diagnose",
        "stacks": "%stacks",
        "nccl-check": "%nccl_check",
        "plot-collectives": "%plot collectives",
        "checkpoint": "%checkpoint rescue-hung",
        "steps": "%steps",
        "grads": "%grads",
        "report": "%report -o hang.zip",
    }
    walk(open_notebook, pictures, "hang", cells)


SHAPE = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
CONFIG = """
data: {{train_batch_size: 100, max_prompt_length: 1024, max_response_length: 8192}}
actor_rollout_ref:
  model: {{path: {model}, enable_gradient_checkpointing: false}}
  actor: {{ppo_mini_batch_size: 50, ppo_micro_batch_size_per_gpu: 8}}
  rollout: {{name: vllm, tensor_model_parallel_size: 8, gpu_memory_utilization: 0.9}}
trainer: {{nnodes: 1, n_gpus_per_node: 8}}
"""


def test_logs_and_plans(open_notebook: Open, pictures: Path, tmp_path: Path) -> None:
    write = f"import pathlib, crash_train; crash_train.write_nights(pathlib.Path({str(tmp_path / 'nights')!r}), 6, counts_from_one=5)"
    subprocess.run([sys.executable, "-c", write], cwd=REPO / "notebooks", check=True, timeout=180)
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    (tmp_path / "train.yaml").write_text(CONFIG.format(model=tmp_path))
    lines = (f"step {n} loss {3 / (1 + n / 50):.4f} lr 0.001\n" for n in range(400))
    (tmp_path / "sound.log").write_text("".join(lines))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", "--tee", "3"]
    command += [
        "--log-dir",
        str(tmp_path / "logs"),
        str(REPO / "notebooks" / "crash_train.py"),
        str(tmp_path / "nights"),
    ]
    with (tmp_path / "train.log").open("w") as log:
        subprocess.run(
            command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False, timeout=180
        )
    cells = {
        "diagnose": f"%cd -q {tmp_path}\n%diagnose train.log",
        "diagnose-directory": "%diagnose logs",
        "diagnose-sound": "%diagnose sound.log",
        "follow": "%diagnose --follow sound.log --for 2",
        "plot": "%plot train.log",
        "report": "%report train.log -o crash.zip",
        "preflight-machine": "%preflight",
        "preflight-config": "%preflight train.yaml --gpus 8 --gpu-memory 80GiB --cpus 96 --memory 1TiB",
        "preflight-command": "%preflight -- NCCL_TIMEOUT=1800 torchrun --nproc-per-node 2 train.py --batch_size 8",
        "preflight-network": "%nccl_check --preflight --nnodes 2 --master-addr 127.0.0.1",
    }
    walk(open_notebook, pictures, "files", cells)


@pytest.mark.timeout(RAY_TEST_S + 300)
def test_a_ray_cluster(
    open_notebook: Open,
    pictures: Path,
    ray_training: tuple[Submitted, Path],
    ray_collector: Submitted,
    ray_cluster: Cluster,
) -> None:
    gcs, job = ray_cluster.gcs, ray_training[0].id
    cells = {
        "workers": f"%ray_workers {gcs}",
        "attach": f"%attach ray:{job}@{gcs}",
        "diagnose": "%diagnose",
        "steps": "%steps",
        "stacks": "%stacks",
        "lr-scaled": "%lr --scale 0.5",
        "lr-undone": "%lr --undo",
        "grads": "%grads",
        "checkpoint": "%checkpoint rescue-ray",
        "detach": "%detach",
        "attach-collector": f"%attach ray:{ray_collector.id}@{gcs}",
        "diagnose-collector": "%diagnose",
        "leftovers": f"%ray_rescue {gcs} --leftovers",
        "interrupt": f"%ray_rescue {gcs} --interrupt SelfPlayWorker[5]",
        "preflight": f"%preflight --ray {gcs} --workers 100",
    }
    walk(open_notebook, pictures, "ray", cells)


SCENES = {
    "gpu": ("SMALL", "gpu"),
    "gpu-driver-hangs": ("SMALL", "gpu driver hangs"),
    "gpu-64": ("LARGE", "gpu"),
    "memory-gpu": ("SMALL", "memory"),
    "unsound": ("SMALL", "diagnosis, unsound"),
    "grads-not-finite": ("SMALL", "grads"),
    "rank-lost": ("SMALL", "watched, a rank lost"),
    "lr-on-one-rank": ("SMALL", "lr changed, but on one rank"),
    "diagnosis-300-ranks": ("LARGE", "diagnosis"),
    "collectives-stopped": ("SMALL", "collectives, two GPUs stopped"),
    "collectives-300-ranks": ("LARGE", "collectives"),
    "grads-300-ranks": ("LARGE", "grads"),
    "steps-300-ranks": ("LARGE", "steps"),
    "stacks-300-ranks": ("LARGE", "stacks"),
    "threads-deadlock": ("SMALL", "threads, a deadlock"),
    "threads-300-ranks": ("LARGE", "threads"),
    "slow-starved-loader": ("SMALL", "slow, a starved loader"),
    "slow-late-rank": ("SMALL", "slow, a late rank"),
    "slow-300-ranks": ("LARGE", "slow"),
    "profile-one-rank": ("SMALL", "profile"),
    "profile-slower-rank": ("SMALL", "profile, one slower in one operator"),
    "profile-waited-for": ("SMALL", "profile, one that all wait for"),
    "profile-gpu": ("SMALL", "profile, on a GPU"),
    "profile-stacks": ("SMALL", "profile, stacks alone"),
    "profile-300-ranks": ("LARGE", "profile"),
    "plot-profile": ("SMALL", "picture of a profile"),
    "plot-profile-two-ranks": ("SMALL", "picture of a profile of two ranks"),
    "ray-1000-workers": ("LARGE", "a thousand ray workers"),
}
"""What cannot be had here, or not for hours: GPUs, hundreds of ranks, trainings that go wrong in many ways."""


def test_scenes_that_cannot_be_played_here(open_notebook: Open, pictures: Path) -> None:
    cells = {name: f"{group}[{scene!r}]" for name, (group, scene) in SCENES.items()}
    begin = f"import sys\nsys.path.insert(0, {str(REPO / 'tests')!r})\nfrom render_scenes import LARGE, SMALL\n%load_ext traindbg"
    walk(open_notebook, pictures, "scene", cells, begin)


ERRORS = {
    "targets": {
        "%detach": "NoTarget: this notebook is attached to nothing",
        "%attach 4194000": "TargetGone: there is no process 4194000",
        "%attach nonsense": "UnknownTarget: 'nonsense' is not a target",
        "%attach pid:{one}": "UnknownTarget: 'pid:{one}' is not a target; a pid stands alone: {one}",
        "%attach torchrun:{one}": "NoTarget: process {one} has no training ranks below it",
        "%attach kernel:nothing.ipynb": "UnknownTarget: no kernel 'nothing.ipynb' runs here",
        "%attach ray:auto": "NoTarget: no Ray cluster runs on this machine",
        "%attach /tmp/no.sock": "TargetGone: there is no agent at /tmp/no.sock",
        "%ray_workers 127.0.0.1:1": "CannotAttach: nothing answers at 127.0.0.1:1",
        "%ray_rescue --interrupt X[1]": "NoTarget: no Ray cluster runs on this machine",
        "%gpu 4194000": "TargetGone: there is no process 4194000",
        "%targets 5": "UsageError: 5 means nothing here",
    },
    "changes": {
        "%lr banana": "UsageError: 'banana' is neither a number nor a target",
        "%lr -1": "UsageError: the learning rate must not be negative",
        "%lr nan": "UsageError: the learning rate must be finite",
        "%lr 1e-4 --scale 0.1": "UsageError: a value and --scale exclude each other",
        "%lr {one} --undo": "ActionRefused: nothing has been changed",
        "%lr {one} 1e-4 --group 7": "ActionRefused: optimizer 0 (AdamW) has no group 7",
        "%lr 1e-4 --optimizer Lion": "UsageError: --optimizer: 'Lion' is no whole number",
        "%clip -3": "UsageError: the norm to clip at must not be negative",
        "%checkpoint": "UsageError: a directory to save to is missing",
        "%checkpoint {one} full": "ActionRefused: rank 0: {here}/full exists already",
        "%checkpoint {one} /proc/1/rescue": "ActionRefused: rank 0: cannot write in /proc/1",
    },
    "files": {
        "%checkpoint --verify empty": "UsageError: empty is not a checkpoint of traindbg's",
        "%checkpoint --inspect garbage.pt": "BadCheckpoint: the pickle in garbage.pt cannot be read",
        "%checkpoint --inspect nowhere.pt": "UsageError: nothing is at nowhere.pt",
        "%diagnose nowhere.log": "BadLog: there is no file nowhere.log",
        "%diagnose empty": "BadLog: empty is a directory without logs",
        "%diagnose garbage.png": "BadLog: garbage.png is not text",
        "%plot loss -o loss.bmp": "UsageError: loss.bmp has no ending that says what to write",
        "%plot loss -o /no/such/loss.svg": "UsageError: there is no directory /no/such",
        "%nccl_check empty": "BadDump: empty has no flight-recorder dumps",
        "%preflight broken.yaml": "BadConfig: broken.yaml:3 is no YAML",
        "%preflight nowhere.yaml": "UsageError: there is no file nowhere.yaml",
        "%report -o full": "UsageError: full is a directory",
    },
    "options": {
        "%lr --scal 0.1": "UsageError: --scal means nothing here; did you mean `--scale`?",
        "%grads --detial": "UsageError: --detial means nothing here; did you mean `--detail`?",
        "%lr --timeout": "UsageError: --timeout: a value must follow it",
        "%stacks --timeout abc": "UsageError: --timeout: 'abc' is no number of seconds",
        "%stacks | head": "UsageError: head means nothing here",
        "%steps --last -1": "UsageError: --last: '-1' is no whole number from 0 on",
        "%steps {one} --rank 5": "UsageError: there is no rank 5; the job has rank 0",
        "%plot banana": "UsageError: there is no picture of 'banana'",
        "%watch --view banana": "UsageError: there is no view 'banana' here",
        "%watch --rate 0": "UsageError: --rate is a number of rounds a second",
        "%preflight --gpu-memory lots": "UsageError: --gpu-memory: 'lots' is no size such as 80GiB",
    },
}


def test_errors_are_one_line_that_says_what_to_do(
    open_notebook: Open, start: Start, pictures: Path, tmp_path: Path
) -> None:
    training = start(str(REPO / "notebooks" / "demo_train.py"), "--minutes", "15", ready="step 20 ", timeout_s=180)
    (tmp_path / "broken.yaml").write_text("trainer:\n  nnodes: 1\n   n_gpus_per_node: 8\n")
    (tmp_path / "garbage.pt").write_bytes(b"no checkpoint at all")
    (tmp_path / "garbage.png").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    known = {"one": training.pid, "here": tmp_path}
    for chapter, errors in ERRORS.items():
        book = open_notebook([f"%load_ext traindbg\n%cd -q {tmp_path}", *(cell.format(**known) for cell in errors)])
        for index in range(len(errors) + 1):
            book.run(index)
        saved = book.save()
        for cell, said in zip(saved.cells[1:], errors.values(), strict=True):
            (error,) = cell.outputs
            assert error.output_type == "error", cell.source
            assert f"{error.ename}: {error.evalue}".startswith(said.format(**known)), (cell.source, error.evalue)
            assert "; " in error.evalue, "what to do"
            assert len(error.traceback) == 1
        book.page.set_viewport_size({"width": 1280, "height": TALL})
        for theme in THEMES:
            set_theme(book.page, theme)
            file = pictures / f"walk-errors-{chapter}-{theme}.png"
            photograph(book.page.locator(".jp-WindowedPanel-viewport"), file)
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"
