"""The knowledge that is shipped: every file follows the schema, every example matches, every code exists, the page is not stale."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import hostile
import pytest
from cases import each
from log_evidence import evidence

from jupyter_traindbg.diagnose.log import judge, knowledge
from jupyter_traindbg.diagnose.log.matching import matches
from jupyter_traindbg.diagnose.log.schema import examples_that_fail

REPO = Path(__file__).parents[4]
FAMILIES = knowledge.families()


@each("code", FAMILIES)
def test_every_example_shows_its_signal(code: str) -> None:
    assert examples_that_fail(FAMILIES[code]) == []


@each("code", FAMILIES)
def test_every_code_that_is_named_exists(code: str) -> None:
    family = FAMILIES[code]
    assert set(family.explains) - FAMILIES.keys() == set()
    named = {s for c in family.causes for e in c.when for s in e.signals if "." in s}
    known = {f"{f.code}.{s.id}" for f in FAMILIES.values() for s in (*f.signals, *f.refutes)}
    assert named - known == set()


@pytest.mark.timeout(60)
@each("code", FAMILIES)
def test_hostile_lines_hide_no_signal(code: str) -> None:
    """With the literal at one end, or within what nearly matches; what that costs: benchmarks/bounds.py."""
    for signal in (*FAMILIES[code].signals, *FAMILIES[code].refutes):
        for text in hostile.around(signal, 300) if signal.pattern else ():
            assert matches(signal, f"{text}\n{signal.example}"), f"{signal.id} behind {text[:60]!r}"


@each(
    "code",
    [c for c in FAMILIES if any(s.role == "root" and s.weight >= 0.7 and s.anchors for s in FAMILIES[c].signals)],
)
def test_every_sure_root_alone_gives_its_own_family_first_with_words_in_both_languages(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = FAMILIES[code]
    for signal in family.signals:
        if signal.role == "root" and signal.weight >= 0.7 and signal.anchors:
            said = {}
            for language in ("en", "zh"):
                monkeypatch.setenv("TRAINDBG_LANG", language)
                first = judge(evidence(signal.example), families={code: family}).findings[0]
                assert first.code == code
                assert first.cause
                assert first.next_steps
                assert first.evidence
                assert not re.search(r"\{[a-z_]", first.title)
                said[language] = (first.title, first.cause, first.next_steps)
            assert said["en"][1] != said["zh"][1]
            assert said["en"][2] != said["zh"][2]


def test_the_pages_are_not_stale() -> None:
    pages = runpy.run_path(str(REPO / "scripts" / "failures_page.py"))["pages"]()
    assert len(pages) == 2
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run scripts/failures_page.py"


def test_literals_are_long_enough_to_be_looked_for_in_gigabytes() -> None:
    assert all(len(a.strip().encode()) >= 3 and a == a.lower() for a in knowledge.anchors())


GUIDES = {
    "000": "cuda_oom nvidia_smi_hang_xid ray_workers_pending rollout_stuck",
    "001": "dataset_stuck dist_init_hang engine_weight_sync nccl_timeout rollout_stuck",
    "002": "dataloader_worker_died gpu_memory_leak nan_loss nccl_timeout slow_training",
    "003": "batch_size_config_error checkpoint_disk_full checkpoint_missing_keys checkpoint_not_found_or_corrupt cuda_oom "
    "cuda_version_mismatch dist_init_hang engine_weight_sync generation_slow gpu_memory_leak import_error install_failed "
    "kl_out_of_range kv_cache_oom loss_not_converging low_gpu_utilisation nan_loss nccl_timeout reward_collapse slow_training "
    "uneven_gpu_load vllm_init_fail",
    "004": "checkpoint_missing_keys cli_argument_error cuda_oom low_gpu_utilisation moe_imbalance_or_nan nccl_timeout rank_desync "
    "resume_without_optimizer world_size_gpu_mismatch",
}
"""What the error indexes and problem lists of the usual guides are about."""


@each("guide", GUIDES)
def test_every_entry_of_the_guides_is_in_the_knowledge_with_a_truth_note(guide: str) -> None:
    held = {f.code for f in FAMILIES.values() for g in f.guides if g.guide == guide and g.truth.en and g.truth.zh}
    assert set(GUIDES[guide].split()) - held == set()


ORDINARY = (
    "2026-03-04T10:00:00.000123Z node-3 answered 8f2a of part 12 in 7 ms, 3 waiting, ok",
    "2026-03-04 10:00:00,123 INFO trainer.py:212 step 1200 | loss 2.104 | grad_norm 0.531 | lr 1.0e-05 | tokens/s 20311",
    "{'loss': 1.2345, 'grad_norm': 0.53, 'learning_rate': 1e-05, 'epoch': 0.5}",
    "(WorkerDict pid=4001, ip=10.0.0.1) INFO:2026-03-04 10:00:01,123:log probs of micro batch 3 took 0.112 s, lengths 12 to 524",
    "step:237 - actor/entropy:0.329 - actor/grad_norm:0.11 - critic/rewards/mean:-0.28 - timing_s/gen:40.1",
    "[2026-03-04 10:00:01,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]",
    "Epoch 0:  50%|#####     | 1007/2015 [04:03<04:03,  4.14it/s, loss=1.2, v_num=0, train_loss_step=0.9]",
)


@each("line", ORDINARY)
def test_what_a_job_prints_at_every_step_has_no_literal_of_the_knowledge(line: str) -> None:
    """The reader looks closer at each line that has one: in gigabytes of such lines it would do nothing else."""
    assert [a for a in knowledge.anchors() if a in line.lower()] == []
