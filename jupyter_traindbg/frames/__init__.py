"""What the frames of a stack mean: `whose` code they are and where somebody is, what a thread `waits` for, in which of the `phases` of a
training it is; many stacks as one `tree`. Pure functions of the frames, no I/O.
"""
