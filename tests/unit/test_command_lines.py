"""What a command line says of a process."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.command_lines import (
    connection_file,
    is_helper,
    is_launcher,
    is_of_a_fork_server,
    is_tracker,
    kernel_name,
    launched_by,
    words,
    written,
)


@each(
    ("command", "line"),
    [
        (["python", "train.py", "--lr", "1e-3"], "python train.py --lr 1e-3"),
        (["python", "-c", "import os\nprint('a b')"], "python -c 'import os\nprint('\"'\"'a b'\"'\"')'"),
        (["python", ""], "python ''"),
        (["ray::Trainer.train (idle)"], "ray::Trainer.train (idle)"),
        ([], ""),
    ],
)
def test_a_command_line_is_written_as_a_shell_reads_it_and_a_title_as_it_is(command: list[str], line: str) -> None:
    assert written(command) == line
    assert len(command) == 1 or words(line) == command


def test_what_is_no_shells_line_is_split_at_its_spaces() -> None:
    assert words("it's a title") == ["it's", "a", "title"]


@each(
    ("line", "launcher"),
    [
        ("python /v/bin/torchrun --nnodes 1 t.py", ("torchrun", "--nnodes 1 t.py")),
        ("/v/bin/python3.11 -u -m torch.distributed.run t.py", ("torchrun", "t.py")),
        ("python /v/bin/accelerate launch --cpu t.py", ("accelerate launch", "--cpu t.py")),
        ("python -m accelerate.commands.launch t.py", ("accelerate launch", "t.py")),
        ("python /v/bin/accelerate-launch t.py", ("accelerate launch", "t.py")),
        ("python -m deepspeed.launcher.launch t.py", ("deepspeed", "t.py")),
        ("python /v/bin/accelerate config", None),
        ("python -m torchrun t.py", None),
        ("bash torchrun", None),
        ("", None),
    ],
)
def test_a_launcher_is_known_with_what_it_was_told(line: str, launcher: tuple[str, str] | None) -> None:
    found = launched_by(line.split())
    assert (None if found is None else (found[0], " ".join(found[1]))) == launcher
    assert is_launcher(line.split()) is (launcher is not None)


@each(
    ("line", "file", "name"),
    [
        ("python -m ipykernel_launcher -f /r/kernel-ab-1.json", "/r/kernel-ab-1.json", "ab-1"),
        ("python -Xfrozen_modules=off -m ipykernel_launcher --f=/r/kernel-v3c.json", "/r/kernel-v3c.json", "v3c"),
        ("python -m ipykernel -f mine.json", "mine.json", "mine.json"),
        ("python train.py -f kernel-1.json", None, ""),
    ],
)
def test_a_kernel_is_known_by_its_connection_file(line: str, file: str | None, name: str) -> None:
    assert connection_file(line.split()) == file
    assert file is None or kernel_name(file) == name


@each(
    ("code", "tracker", "of_a_fork_server"),
    [
        ("from multiprocessing.resource_tracker import main;main(6)", True, False),
        ("from multiprocessing.semaphore_tracker import main;main(6)", True, False),
        (
            "import sys; from multiprocessing.forkserver import main; main(9, 11, ['__main__'], sys_argv=sys.argv[1:])",
            False,
            True,
        ),
        ("from multiprocessing.forkserver import main; main(5, 7, [], **{})", False, True),
        ("from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)", False, False),
    ],
)
def test_what_multiprocessing_starts_for_itself(code: str, tracker: bool, of_a_fork_server: bool) -> None:
    command = ["/v/bin/python", "-B", "-c", code]
    assert is_tracker(command) is is_helper(command) is tracker
    assert is_of_a_fork_server(command) is of_a_fork_server


@each(
    ("command", "helper"),
    [
        (["python", "/v/torch/_inductor/compile_worker/__main__.py", "--workers=8", "--parent=17"], True),
        (["py-spy", "dump", "-p", "17"], True),
        (["/v/bin/python", "/v/bin/py-spy", "record", "-p", "17"], True),
        (["ray-dashboard-MetricsHead"], True),
        (["python", "compile_workers.py"], False),
        (["python", "/home/me/py-spy-notes/train.py", "--profiler", "py-spy"], False),
    ],
)
def test_a_helper_is_known_by_what_it_runs_and_not_by_a_word_in_its_arguments(command: list[str], helper: bool) -> None:
    assert is_helper(command) is helper
