"""What one types for a target."""

from __future__ import annotations

from dataclasses import replace

from cases import each
from render_scenes import kernel, ranks_of

from jupyter_traindbg.model import names_to_type


@each(
    ("notebook", "other", "typed"),
    [
        ("/a/train.ipynb", None, "kernel:train.ipynb"),
        ("/a/训练-v2.ipynb", None, "kernel:训练-v2.ipynb"),
        ("/a/train.ipynb", "/b/eval.ipynb", "kernel:train.ipynb"),
        ("/a/train.ipynb", "/b/train.ipynb", "kernel:7f3a21b0-1"),
        ("/a/my runs.ipynb", None, "kernel:7f3a21b0"),
        ("/a/ada's.ipynb", None, "kernel:7f3a21b0"),
        ("/a/run{lr}.ipynb", None, "kernel:7f3a21b0"),
        ("/a/" + "very-" * 10 + "long.ipynb", None, "kernel:7f3a21b0"),
        (None, None, "kernel:7f3a21b0"),
    ],
)
def test_a_kernel_is_typed_by_its_notebook_or_by_as_much_of_its_id_as_tells_it(
    notebook: str | None, other: str | None, typed: str
) -> None:
    one = kernel("7f3a21b0-1234", 1, notebook)
    two = [kernel("7f3a21b0-9876", 2, other)] if other else []
    assert names_to_type([one, *two])[one.name] == typed


def test_whatever_is_no_kernel_is_typed_as_it_is_and_a_connection_file_stays_whole() -> None:
    seen = [*ranks_of(900, 1), replace(kernel("x", 1, None), name="kernel:/tmp/mine.json")]
    assert names_to_type(seen) == {t.name: t.name for t in seen}
