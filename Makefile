# make run     the page on the embedded demo rig        make test    linter, types, every test
# make setup   the venv and its packages, Chromium      make lint    linter and types only
# make bench   the speed table on the demo rig

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RIG ?= demo
ARGS ?=

.PHONY: setup run test lint bench chromium

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.txt requirements-ray.txt requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

# A browser for the browser tests: the one that is there, else the distribution's package, else Playwright's own.
chromium: setup
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	  $(BIN)/python -m playwright install chromium

run: setup
	$(BIN)/python app.py --rig $(RIG) $(ARGS)

lint: setup
	$(BIN)/ruff check --config .ruff.toml .
	$(BIN)/mypy --config-file .mypy.ini engine explorer app.py

test: lint chromium
	$(BIN)/python -m pytest -c .pytest.ini

bench: setup
	$(BIN)/python -m engine.bench --prompts assets/prompts/bench.jsonl $(ARGS)
