"""Computes in one single C call for some seconds, without the GIL. Prints ``ready`` first and ``through`` after."""

import hashlib
import sys

print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"password", b"salt", int(sys.argv[1]))
print("through", flush=True)
while True:
    sum(range(1000))
