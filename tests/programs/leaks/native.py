"""Memory of C's own, that no object of Python's stands for."""

import ctypes

from training import Training


def main():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    training = Training()
    while training.goes_on:
        x, y = training.batch()
        libc.malloc(16384)  # leaks
        training.step(training.loss(x, y))


main()
