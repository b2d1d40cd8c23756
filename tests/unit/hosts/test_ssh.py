"""The way through ssh: its command, what it says where it does not get in, and our helper at the other end.

What stands for ssh here runs its last word in a shell of this machine, as sshd does. The real one: tests/smoke/test_ssh.py.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg import errors
from jupyter_traindbg.hosts import lines, remote
from jupyter_traindbg.hosts.ssh import COMMAND, PYTHON, SshLine, named_in, open_hosts
from jupyter_traindbg.language import speaking
from jupyter_traindbg.outside import procfs

EXISTS = "jupyter_traindbg.outside.procfs:exists"
SLEEP = "jupyter_traindbg.outside.standing:look"
FOR_EVER_S = 3600.0
DEADLINE_S = 60.0
STAND_IN = """#!/bin/sh
[ -e {folder}/noise ] && cat {folder}/noise
[ -e {folder}/hangs ] && exec sleep 3600
[ -e {folder}/refuses ] && {{ cat {folder}/refuses >&2; exit 255; }}
for last; do :; done
exec {shell} -c "$last"
"""
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what stands for ssh looks how to behave."""
    put(tmp_path, "sh")
    monkeypatch.setenv(COMMAND, str(tmp_path / "ssh"))
    monkeypatch.delenv(PYTHON, raising=False)
    monkeypatch.setattr(remote, "_lines", {})
    return tmp_path


@pytest.fixture
def line(folder: Path) -> Iterator[SshLine]:
    made = SshLine("alpha")
    yield made
    made.end()


def put(folder: Path, shell: str) -> None:
    stand_in = folder / "ssh"
    stand_in.write_text(STAND_IN.format(folder=folder, shell=shell))
    stand_in.chmod(0o755)


def helpers() -> set[str]:
    return {entry.name for entry in os.scandir(tempfile.gettempdir()) if entry.name.startswith("traindbg-helper-")}


def until(what: object, within_s: float = 20.0) -> bool:
    assert callable(what)
    ends = time.monotonic() + within_s
    while not what() and time.monotonic() < ends:
        time.sleep(0.02)
    return bool(what())


# --- the helper ----------------------------------------------------------------------------------------------------


def test_functions_run_there_and_errors_come_back_in_the_readers_language(line: SshLine) -> None:
    assert line.call(EXISTS, os.getpid(), deadline_s=DEADLINE_S) is True
    assert line.call(EXISTS, 2**22 + 1, deadline_s=DEADLINE_S) is False
    with speaking("zh"), pytest.raises(errors.TargetGone) as gone:
        line.call("jupyter_traindbg.attach.process:link", 2**22 + 1, deadline_s=DEADLINE_S)
    assert str(gone.value).startswith(f"没有进程 {2**22 + 1}")
    assert line.starts == 1


def test_what_a_login_shell_prints_is_skipped(folder: Path, line: SshLine) -> None:
    (folder / "noise").write_text("Welcome to alpha!\nYou have new mail.\n" * 100)
    assert line.call(EXISTS, os.getpid(), deadline_s=DEADLINE_S) is True


def test_nothing_stays_when_the_line_is_closed(line: SshLine) -> None:
    before = helpers()
    line.call(EXISTS, 1, deadline_s=DEADLINE_S)
    (made,) = helpers() - before
    assert os.stat(os.path.join(tempfile.gettempdir(), made)).st_mode & 0o777 == 0o700
    line.end()
    assert until(lambda: made not in helpers())


def test_a_helper_that_hears_nothing_ends_by_itself(folder: Path) -> None:
    """As on a host that is cut off: nobody closes its end."""
    words = SshLine("alpha").command({COMMAND: str(folder / "ssh")})
    started = Path(remote.helper.__file__ or "").read_text().replace("IDLE_S = 300.0", "IDLE_S = 0.2")
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    archive = remote.shipping.archive()
    try:
        process.stdin.write(started.encode() + b"\nmain('jupyter_traindbg')\n" + bytes(1))
        for piece in (archive, b""):
            process.stdin.write(len(piece).to_bytes(8, "little") + piece)
        process.stdin.flush()
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


@pytest.mark.parametrize("shell", [s for s in ("sh", "bash", "dash", "csh", "tcsh", "fish", "zsh") if shutil.which(s)])
def test_any_login_shell_starts_it(folder: Path, line: SshLine, shell: str) -> None:
    put(folder, shell)
    assert line.call(EXISTS, os.getpid(), deadline_s=DEADLINE_S) is True


def test_a_python_may_be_named(folder: Path, line: SshLine, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = folder / "my python's"
    marked.write_text(f'#!/bin/sh\ntouch {folder}/used\nexec python3 "$@"\n')
    marked.chmod(0o755)
    monkeypatch.setenv(PYTHON, str(marked))
    assert line.call(EXISTS, os.getpid(), deadline_s=DEADLINE_S) is True
    assert (folder / "used").exists()


def test_a_host_without_a_python_says_so(line: SshLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON, "/nowhere/python3")
    monkeypatch.setattr(remote, "FIND", remote.FIND.replace("/proc/[0-9]*/exe", "/nowhere"))
    with pytest.raises(errors.MissingPiece, match=r"alpha has no Python 3\.10 or newer.*TRAINDBG_SSH_PYTHON"):
        line.call(EXISTS, 1, deadline_s=DEADLINE_S)


def test_the_python_of_a_training_will_do(line: SshLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PATH has none that is new enough."""
    monkeypatch.setenv(PYTHON, "/nowhere/python3")
    assert line.call(EXISTS, os.getpid(), deadline_s=DEADLINE_S) is True


def test_what_a_host_lacks_comes_along(line: SshLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """py-spy, for stacks from outside; pynvml, for GPUs."""
    monkeypatch.setenv(PYTHON, str(getattr(sys, "_base_executable", sys.executable)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program = line.call("jupyter_traindbg.outside.stacks:py_spy", deadline_s=DEADLINE_S)
    assert "/traindbg-helper-" in program
    assert os.access(program, os.X_OK)
    assert os.path.exists(os.path.join(os.path.dirname(program), "..", "pynvml.py"))


# --- a bad line ----------------------------------------------------------------------------------------------------


def test_who_is_late_costs_one_deadline_and_the_next_question_a_moment(folder: Path, line: SshLine) -> None:
    (folder / "hangs").touch()
    with pytest.raises(errors.DeadlineExceeded, match=r"alpha did not answer in 0\.2 s"):
        line.call(EXISTS, 1, deadline_s=0.2)
    with pytest.raises(errors.DeadlineExceeded, match=f"in {lines.AGAIN_S} s"):
        line.call(EXISTS, 1, deadline_s=FOR_EVER_S)
    assert line.starts == 1, "connecting goes on meanwhile"


def test_an_answer_that_was_late_does_not_hold_up_the_next(line: SshLine) -> None:
    line.call(EXISTS, 1, deadline_s=DEADLINE_S)
    with pytest.raises(errors.DeadlineExceeded):
        line.call(SLEEP, [os.getpid()], FOR_EVER_S, deadline_s=0.2)
    assert line.call(EXISTS, 1, deadline_s=DEADLINE_S) is True


def test_a_host_that_answered_and_hangs_now_is_given_a_moment(line: SshLine) -> None:
    line.call(EXISTS, 1, deadline_s=DEADLINE_S)
    (helper,) = [p.pid for p in procfs.descendants(os.getpid()) if "exec(bytes" in " ".join(procfs.command(p.pid))]
    os.kill(helper, signal.SIGSTOP)
    try:
        with pytest.raises(errors.DeadlineExceeded):
            line.call(EXISTS, 1, deadline_s=0.2)
        with pytest.raises(errors.DeadlineExceeded):
            line.call(EXISTS, 1, deadline_s=FOR_EVER_S)
    finally:
        os.kill(helper, signal.SIGCONT)
    assert until(lambda: answers(line))


def answers(line: SshLine) -> bool:
    try:
        return bool(line.call(EXISTS, 1, deadline_s=DEADLINE_S))
    except errors.DeadlineExceeded:
        return False


def test_a_refusal_is_told_at_once_and_stands_for_a_while(
    folder: Path, line: SshLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks ten times a second must not look like an attack."""
    (folder / "refuses").write_text("ada@alpha: Permission denied (publickey).\n")
    monkeypatch.setattr(SshLine, "retry_s", FOR_EVER_S)
    for _ in range(3):
        with pytest.raises(errors.NotPermitted, match=r"Permission denied \(publickey\).*without a question"):
            line.call(EXISTS, 1, deadline_s=DEADLINE_S)
    assert line.starts == 1
    monkeypatch.setattr(SshLine, "retry_s", 0.0)
    (folder / "refuses").unlink()
    assert line.call(EXISTS, 1, deadline_s=DEADLINE_S) is True


def test_a_program_in_place_of_ssh_that_is_not_there(line: SshLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND, "/nowhere/ssh -v")
    with pytest.raises(errors.CannotAttach, match=r"alpha cannot be reached.*/nowhere/ssh"):
        line.call(EXISTS, 1, deadline_s=DEADLINE_S)


def test_a_helper_that_is_killed_is_told_and_the_next_call_starts_another(line: SshLine) -> None:
    line.call(EXISTS, 1, deadline_s=DEADLINE_S)
    before = helpers()
    (helper,) = [p.pid for p in procfs.descendants(os.getpid()) if "exec(bytes" in " ".join(procfs.command(p.pid))]
    os.kill(helper, signal.SIGKILL)
    assert until(lambda: not line.alive)
    assert line.call(EXISTS, 1, deadline_s=DEADLINE_S) is True
    assert line.starts == 2
    assert until(lambda: not (before & helpers())), "its directory goes with it"


def test_hosts_are_shared_by_all_who_ask_them_and_kept_for_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LINGER_S", 0.05)
    one, other = open_hosts(["alpha", "beta"]), open_hosts(["alpha"])
    try:
        answers = one.run_everywhere({"alpha": ((1,), {}), "beta": ((1,), {})}, EXISTS, deadline_s=DEADLINE_S)
        assert answers == {"alpha": True, "beta": True}
        one.close()
        assert until(lambda: not one.answering("beta"))
        assert other.answering("alpha")
        other.close()
        assert until(lambda: not other.answering("alpha"))
    finally:
        remote.hang_up()


# --- words ---------------------------------------------------------------------------------------------------------


def test_the_command_is_one_that_never_asks_and_whose_host_is_no_option() -> None:
    words = SshLine("me@alpha").command({COMMAND: "ssh -F /tmp/config"})
    assert words[:3] == ["ssh", "-F", "/tmp/config"]
    assert "BatchMode=yes" in words
    assert words[-3:-1] == ["--", "me@alpha"]
    assert len(shlex.split(words[-1])) == 4, "exec sh -c SCRIPT, for whichever shell reads it"


@each(
    "said, kind, hint",
    [
        ("ssh: Could not resolve hostname nowhere: Name or service not known", errors.CannotAttach, "~/.ssh/config"),
        ("ada@b: Permission denied (publickey,password).", errors.NotPermitted, "ssh-agent"),
        ("No ED25519 host key is known\nHost key verification failed.", errors.NotPermitted, "look at the key"),
        ("ssh: connect to host b port 22: Connection refused", errors.CannotAttach, "ssh b"),
        ("", errors.CannotAttach, "ssh said nothing"),
    ],
)
def test_why_it_does_not_get_in(said: str, kind: type[errors.TraindbgError], hint: str) -> None:
    why = SshLine("b").not_reached(said)
    assert type(why) is kind
    assert why.cause.startswith("b cannot be reached")
    assert hint in str(why)


def test_the_hosts_of_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a b\n  HostName 10.0.0.1\nhost = c\nHost *.org !d ?\n  User ada\nMatch host e\n#Host f\n")
    assert named_in(config) == ["a", "b", "c"]
    assert named_in(tmp_path / "none") == []
