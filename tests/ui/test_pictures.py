"""Pictures in JupyterLab: drawn in the colours of the theme, named for screen readers, and there where a notebook is not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from browsers import Notebook, set_theme
from playwright.sync_api import Locator, expect
from support import REPO, Start, torchrun

pytestmark = pytest.mark.timeout(600)

Open = Callable[..., Notebook]
Shot = Callable[..., None]


def picture(book: Notebook, index: int) -> Locator:
    return book.output(index).locator("figure.traindbg-picture")


def colours(book: Notebook, index: int) -> tuple[str, str]:
    """Of a letter in the picture, and of the page's text."""
    letters = picture(book, index).locator("svg g[style*=currentColor]").last
    box = letters.bounding_box()
    assert box is not None
    assert box["height"] > 6, "it can be read"
    found = letters.evaluate("e => [getComputedStyle(e).fill, getComputedStyle(e.closest('.traindbg-view')).color]")
    return tuple(found)


def test_pictures_of_a_training(open_notebook: Open, start: Start, screenshot: Shot) -> None:
    training = start(str(REPO / "notebooks" / "demo_train.py"), "--minutes", "15", ready="step 20 ", timeout_s=180)
    wait = (
        f"import time, traindbg\\njob = traindbg.attach({training.pid})\\nfirst = job.steps(last=1).ranks[0].steps[-1].step\\n"
        "while job.steps(last=1).ranks[0].steps[-1].step < first + 150: time.sleep(0.1)"
    ).replace("\\n", "\n")
    book = open_notebook(
        [
            f"%load_ext traindbg\n%attach {training.pid}",
            wait,
            "%lr --scale 0.3;\n%clip 1.0;",
            wait,
            "%plot",
            "%plot lr",
            "%plot grads",
            "%plot memory",
        ]
    )
    for index in range(8):
        book.run(index)
    for index, name in enumerate(("loss", "lr", "grads", "memory"), 4):
        svg = picture(book, index).locator("svg[role=img]")
        expect(svg).to_be_visible()
        assert svg.get_attribute("aria-label")
        expect(picture(book, index).locator("img.traindbg-instead")).to_be_hidden()
        wide, room = picture(book, index).evaluate(
            "e => [e.querySelector('svg').getBoundingClientRect().width, e.clientWidth]"
        )
        assert wide <= room
        screenshot(f"picture-{name}", book.output(index))
    book.output(4).get_by_text("the same in words").click()
    expect(book.output(4).get_by_text("the schedule x 0.3")).to_be_visible()


def test_text_has_the_colour_of_the_theme(open_notebook: Open, start: Start) -> None:
    training = start("train.py", "--sleep", "0.02")
    book = open_notebook([f"%load_ext traindbg\n%attach {training.pid}", "%plot memory"])
    book.run(0)
    book.run(1)
    seen = set()
    for theme in ("light", "dark"):
        set_theme(book.page, theme)
        letters, page = colours(book, 1)
        assert letters == page, theme
        seen.add(letters)
    assert len(seen) == 2


def test_collectives_of_a_hang(open_notebook: Open, start: Start, free_port: str, screenshot: Shot) -> None:
    launcher = start("hung_gloo.py", command=torchrun(3, free_port), ready=None)
    launcher.wait_for("ready")
    book = open_notebook(["%load_ext traindbg", f"%plot collectives torchrun:{launcher.pid}"])
    book.run(0)
    book.run(1)
    expect(book.output(1)).to_contain_text("has not issued all_reduce")
    screenshot("picture-collectives", book.output(1))


def test_the_course_of_a_log_and_estimates(open_notebook: Open, tmp_path: Path, screenshot: Shot) -> None:
    log = tmp_path / "train.log"
    log.write_text(crash_log())
    shape = {
        "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(shape))
    (tmp_path / "run.yaml").write_text(
        f"actor_rollout_ref:\n  model: {{path: {tmp_path}, enable_gradient_checkpointing: false}}\n"
        "  actor: {ppo_mini_batch_size: 64, ppo_micro_batch_size_per_gpu: 8}\n  rollout: {name: vllm, n: 5}\n"
        "data: {train_batch_size: 104, max_prompt_length: 1024, max_response_length: 3072}\ntrainer: {nnodes: 1, n_gpus_per_node: 8}\n"
    )
    book = open_notebook(
        [
            "%load_ext traindbg",
            f"%plot {log}",
            f"found = %preflight {tmp_path / 'run.yaml'} --gpus 8 --gpu-memory 80GiB\nfound.plot()",
        ]
    )
    for index in range(3):
        book.run(index)
    expect(book.output(1)).to_contain_text(": line 1")
    screenshot("picture-log", book.output(1))
    expect(book.output(2)).to_contain_text("too much")
    screenshot("picture-estimate", book.output(2))


def crash_log() -> str:
    """Three ranks; rank 1's label is out of range, the others wait for it in vain."""
    steps = "".join(
        f"[default{rank}]:step {step} loss {3.2 / (1 + step / 9):.4f}\n" for step in range(1, 40) for rank in range(3)
    )
    raised = "".join(
        f"[default1]:{line}\n"
        for line in (
            "Traceback (most recent call last):",
            '  File "/home/ann/lights/train.py", line 88, in <module>',
            "    main()",
            '  File "/home/ann/lights/train.py", line 71, in main',
            "    loss = F.cross_entropy(logits, labels)",
            "IndexError: Target 5 is out of bounds.",
        )
    )
    timed_out = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 60000ms for recv operation to complete"
    waited = "".join(f"[default{rank}]:[rank{rank}]: {timed_out}\n" for rank in (0, 2))
    torchrun = "torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 1 (pid: 4712) of binary: python"
    return f"{steps}{raised}{waited}E0101 10:00:00.000000 4711 {torchrun}\n"


def test_where_a_notebook_is_not_trusted_there_is_a_png(open_notebook: Open, start: Start) -> None:
    training = start("train.py", "--sleep", "0.02")
    book = open_notebook([f"%load_ext traindbg\n%attach {training.pid}", "%plot memory"])
    book.run(0)
    book.run(1)
    book.save()
    file = book.lab.root / book.name
    saved = json.loads(file.read_text())
    saved["cells"][1]["metadata"].pop("trusted", None)
    saved["cells"][1]["source"] = "%plot memory  # changed by somebody else"
    file.write_text(json.dumps(saved))
    book.reload()
    shown = book.output(1).locator(".jp-OutputArea-output")
    expect(shown.locator("img")).to_be_visible()
    expect(shown.locator("svg")).to_have_count(0)
    drawn = shown.locator("img").evaluate("e => [e.naturalWidth, e.alt]")
    assert drawn[0] == 990
    assert drawn[1].startswith("memory of rank 0")
