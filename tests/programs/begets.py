"""One thread that computes in the interpreter alone, and every now and then forks, runs a program, and starts a thread.

Prints ``ready``, then the number of each round in which all of them ended as they should.
"""

import itertools
import os
import subprocess
import threading


def compute(n):
    number = 0
    for _ in range(n):
        number = (number + 7) & 255
    return number


def fork():
    pid = os.fork()
    if not pid:
        os._exit(compute(20_000) & 1)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == compute(20_000) & 1


def in_a_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(compute(20_000)))
    thread.start()
    thread.join()
    return seen == [compute(20_000)]


def main():
    print("ready", flush=True)
    for count in itertools.count(1):
        assert fork()
        compute(50_000)
        assert subprocess.run(["true"], check=False).returncode == 0
        compute(50_000)
        assert in_a_thread()
        compute(50_000)
        print(count, flush=True)


if __name__ == "__main__":
    main()
