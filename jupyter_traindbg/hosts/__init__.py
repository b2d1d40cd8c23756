"""Other machines, as places where functions of this package run: through a process of ours there, which knows nothing but what we send it.

`base.Hosts` is what the rest of the package asks, whichever way leads there: `ssh` here, a Ray cluster's in `jupyter_traindbg.attach.ray`.
A request is a function's name and its arguments (`wire`); the package's source travels ahead (`shipping`), `helper` is what serves it
there, and `lines` is this end: a child process that carries the requests, asked by several threads at once.
"""
