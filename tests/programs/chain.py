"""One thread that computes a chain of numbers without a pause. Prints ``ready``, then lines ``STEP NUMBER SIGUSR1S INTERRUPTS``.

The argument says where it is busy: ``python`` (in the interpreter and its functions), ``loop`` (in the interpreter, which from 3.14 on
calls none for that), ``library`` (in zlib), ``libc`` (in a search). A SIGINT interrupts a step, which is then done again, so the numbers
do not depend on signals.
"""

import ctypes
import signal
import sys
import zlib

BLOCK = bytes(range(256)) * 256
LIBC = ctypes.CDLL(None)


def python(number):
    table = {}
    for i in range(300):
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
        table[str(number % 97)] = [number, i / 7]
    return number ^ len(table)


def loop(number):
    for _ in range(5000):
        number = (number + 7) & 255
    return number + 1


def library(number):
    for _ in range(20):
        number = zlib.crc32(BLOCK, number)
    return number


def libc(number):
    count = ctypes.c_size_t(
        600_000_000
    )  # one to some seconds: of elements of size 0, none of which is what is looked for
    LIBC.lfind(b"a", b"b", ctypes.byref(count), ctypes.c_size_t(0), LIBC.strcmp)
    return number + 1


class Signals:
    user = interrupts = 0
    inside = False

    def on_user(self, number, frame):
        self.user += 1

    def on_interrupt(self, number, frame):
        self.interrupts += 1
        if self.inside:
            self.inside = False  # here already: the next signal may come before anything else is done
            raise KeyboardInterrupt


def main():
    step = {"python": python, "loop": loop, "library": library, "libc": libc}[sys.argv[1]]
    signals = Signals()
    signal.signal(signal.SIGUSR1, signals.on_user)
    signal.signal(signal.SIGINT, signals.on_interrupt)
    count, number = 0, 1
    print("ready", flush=True)
    while True:
        try:
            signals.inside = True
            result = step(number)
            signals.inside = False
        except KeyboardInterrupt:
            continue
        count, number = count + 1, result
        print(count, number, signals.user, signals.interrupts, flush=True)


if __name__ == "__main__":
    main()
