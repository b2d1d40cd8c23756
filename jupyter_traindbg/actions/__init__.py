"""What changes a job: the only writers. Each says what it will do, does it on all ranks at one step or on none, and verifies it."""
