"""The log and what follows from it: events, the fold, snapshots, verification."""
