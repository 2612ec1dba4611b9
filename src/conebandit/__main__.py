"""``python -m conebandit`` is the same as the ``conebandit`` command."""

from conebandit._garbage import starting

with starting():
    from conebandit.cli import main

if __name__ == "__main__":
    main()
