"""Runtime shared by all parts of a broker: deferred results, cooperative steps, purgatories, executors and the log."""
