"""What grows from step to step, and who holds it: counted at safe points, followed up to a name of the program. Runs no code of it."""
