"""Stands in front of the package of that name, with which jsonschema, and so Ray, checks one more format: see rfc3987_syntax.py."""

raise ImportError("left out: Ray does without it")
