"""Where the log is kept: one ordered log for each experiment, in SQLite or PostgreSQL."""
