"""Stands in front of the package of that name, which takes 1 to 2 s to import and which jsonschema, and with it Ray, imports where it is.

Jupyter's event schemas want it; every worker of Ray would pay for it, on a machine that has both.
"""

raise ImportError("left out: Ray does without it")
