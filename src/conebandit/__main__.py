"""``python -m conebandit`` is the same as the ``conebandit`` command."""

from conebandit.cli import main

if __name__ == "__main__":
    main()
