"""A running experiment: ask for an arm, report a vector outcome days later, lose nothing (``docs/service.md``)."""
