"""Metrics in columns: the names stand above."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.outside.logs import read_text
from jupyter_traindbg.outside.logs.columns import Columns, is_row

FASTAI = """epoch     train_loss  valid_loss  accuracy  time
0         0.91        0.72        0.61      00:12
1         0.55        0.60        0.70      00:12"""
BAR_BELOW = """      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size
      1/100      2.25G      1.512      3.201         12        640: 100%|##########| 8/8 [00:03<00:00,  2.61it/s]
      2/100      2.25G      1.402      2.801         14        640: 100%|##########| 8/8 [00:03<00:00,  2.61it/s]"""
BARRED = "   pol_surr |   vf_loss |     kl\n   0.9590 | 1.73e+05 | 0.017\n   0.4272 | 1.67e+05 | 1.757"
TABBED = "Step\tTraining Loss\tValidation Loss\n500\t2.10\t1.90\n1000\t1.80\t1.70"


@each(
    "text, name, values",
    [
        (FASTAI, "valid_loss", [0.72, 0.6]),
        (FASTAI, "epoch", [0, 1]),
        (BAR_BELOW, "box_loss", [1.512, 1.402]),
        (BARRED, "kl", [0.017, 1.757]),
        (TABBED, "training loss", [2.1, 1.8]),
    ],
)
def test_rows_below_a_row_of_names(text: str, name: str, values: list[float]) -> None:
    series = {s.name: [v for _, v in s.points] for s in read_text(text, anchors=()).series}
    assert series[name] == values


@each(
    "text",
    [
        "loss is what we minimise here\n1 2 3 4 5 6",
        "epoch train_loss accuracy\n1 0.5",
        "epoch train_loss accuracy\n1 0.5 apples",
        "name value unit\n1 2 3",
        "loss loss loss\n1 2 3",
    ],
)
def test_what_is_no_table_gives_nothing(text: str) -> None:
    """Another number of cells, words in a row, names without a metric, or names that are not different."""
    columns = Columns()
    assert [columns.read(line) for line in text.splitlines()][-1] == []


def test_the_last_names_count_and_each_writer_has_its_own() -> None:
    text = "\n".join(
        [
            "[rank0]: epoch train_loss acc",
            "[rank1]: epoch val_loss acc",
            "[rank0]: 1 0.50 0.7",
            "[rank1]: 1 0.90 0.6",
            "[rank0]: epoch val_loss acc",
            "[rank0]: 2 0.80 0.65",
        ]
    )
    seen = {(s.rank, s.name): [v for _, v in s.points] for s in read_text(text, anchors=()).series}
    assert seen[0, "train_loss"] == [0.5]
    assert (seen[0, "val_loss"], seen[1, "val_loss"]) == ([0.8], [0.9])


def test_a_row_is_known_by_its_beginning_alone() -> None:
    assert is_row(b"   1/100   2.25G  1.5")
    assert is_row(b"0.95 | 1e5 | 3")
    assert is_row(b"[rank12]: 1 0.5 0.7")
    for line in (b"epoch loss", b"12 monkeys", b"", b"step 3 loss 4", b" " * 100_000):
        assert not is_row(line)
