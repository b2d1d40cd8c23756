"""Ray: a job's workers as the ranks of a `Job` (`job`), what each of them does (`report`, `workers`), what is wrong (`diagnosing`)."""
