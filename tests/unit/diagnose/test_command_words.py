"""A command line within a sentence."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.diagnose.hang.words import LONGEST_COMMAND, command_words

WORKER = "/v/lib/python3.11/site-packages/torch/_inductor/compile_worker/__main__.py"


@each(
    ("command", "expected"),
    [
        ("/usr/bin/gzip -dc  shard.gz", "/usr/bin/gzip -dc shard.gz"),
        ("", ""),
        (
            f"/v/bin/python {WORKER} --workers=2 --kind=fork",
            "python compile_worker/__main__.py --workers=2 --kind=fork",
        ),
        (
            "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet " + "-I /a " * 12,
            "cc1plus -quiet " + "-I /a " * 10 + "-I...",
        ),
    ],
)
def test_of_a_long_one_the_program_is_told_without_its_directories(command: str, expected: str) -> None:
    said = command_words(command)
    assert said == expected
    assert len(said) <= LONGEST_COMMAND
