# Every target sets itself up: a fresh machine needs Python >= 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo docs test lint bench clean

help:
	@echo "make demo   install into .venv and reproduce the paper, the default policy beside it (folder reproduction/)"
	@echo "make docs   build the documentation as a site (folder site/); no network needed to read it"
	@echo "make test   install the dev extra, then every check and every test"
	@echo "make lint   ruff, mypy, the import contracts and the limits on length and complexity"
	@echo "make bench  compare speed with peers, in one run (benchmarks/); for regret: conebandit bench"
	@echo "make clean  remove .venv and everything generated"

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "conebandit needs Python 3.11 or newer; try: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv .venv

# One stamp for each set of extras, made anew when pyproject.toml changes.
.venv/installed-%: pyproject.toml .venv/pyvenv.cfg
	@echo "Installing conebandit[$*] into .venv (a minute, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

demo: .venv/installed-plot
	@$(BIN)/conebandit reproduce

# The site needs no network. Pages open as files; search wants a server.
docs: .venv/installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html; or, with search: $(BIN)/python -m http.server --directory site --bind 127.0.0.1"

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/house.py --check

test: lint
	$(BIN)/pytest -n 2 --dist loadfile --cov --cov-report=
	$(BIN)/coverage report --fail-under=98 --skip-covered
	$(BIN)/coverage report --fail-under=98 --show-missing --include='*/conebandit/geometry/*'

bench: .venv/installed-bench
	$(BIN)/python benchmarks/geometry.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/shift.py
	$(BIN)/python benchmarks/readme.py

clean:
	rm -rf .venv .venv-bench reproduction site bench theory shift.html .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
