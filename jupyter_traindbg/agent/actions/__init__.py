"""One file per change that can be made to the training. An action is a module with ``run(agent, **params)`` that answers JSON-ready data.

``CHANGES`` says in words what it changes. It raises `Refused` before it has changed anything, or does all of it.
"""
