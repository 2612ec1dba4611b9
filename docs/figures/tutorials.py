"""Run the code of the tutorials, and keep the pictures that it writes beside this file.

python docs/figures/tutorials.py
"""

from __future__ import annotations

import doctest
import os
import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def main() -> None:
    """Run each page in a folder of its own, which has the data where a checkout has it."""
    for page in sorted((HERE.parent / "tutorials").glob("*.md")):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(HERE.parent / "data", Path(folder, "docs", "data"))
            os.chdir(folder)
            print(page.name, doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8"))
            for picture in Path(folder).glob("tutorial-*"):
                shutil.copy(picture, HERE / picture.name)
            os.chdir(HERE)


if __name__ == "__main__":
    main()
