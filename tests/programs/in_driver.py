"""In uninterruptible sleep (state D), as in a driver that hangs: until its vfork child ends. Prints ``ready`` before."""

import ctypes


def call_the_driver():
    libc = ctypes.CDLL(None)
    print("ready", flush=True)
    if libc.vfork() == 0:
        libc.sleep(600)


if __name__ == "__main__":
    call_the_driver()
