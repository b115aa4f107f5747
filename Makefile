# Every target works on a clean clone: it makes .venv first, by the same script as the launcher.
PYTHON := .venv/bin/python
SECONDS ?= 600
ROUNDS ?= 1000

FORMAT ?= claude_code

.PHONY: help test test-full check accept bench compare fuzz crash crash-index disconnects nodes soak agents dist hashes clean ready

help:
	@echo 'make test       lint, types and tests'
	@echo 'make test-full  tests that need more packages or more time'
	@echo 'make check      lint and types only'
	@echo 'make accept     rewrite golden files and console blocks; read the change before you commit it'
	@echo 'make bench      the figures of the README, ours beside those of the peers'
	@echo 'make compare    sessions in PATHS=... folded independently of the reader, beside its export; FORMAT=claude_code'
	@echo 'make fuzz       random input for every fuzz target, SECONDS=600 each'
	@echo 'make crash      a writing server killed ROUNDS=1000 times; nothing acknowledged may be lost; STORE=postgres for that one'
	@echo 'make crash-index  an update of the search index killed ROUNDS=200 times; no wrong result, no lost update'
	@echo 'make disconnects  connections lost ROUNDS=1000 times at random; every event once at every client'
	@echo 'make nodes      nodes killed, paused and cut off ROUNDS=48 times while agents speak; SEED=, LEASE=3 seconds'
	@echo 'make soak       10,000 sessions, 500 sockets, 50 agents for SECONDS=1200: memory and delivery; STORE=postgres'
	@echo 'make agents     the real agents go on with conversations handed over to them, run recorded ones again, call hooks, write sessions that we read; needs npm; WORDS="codex FILE"'
	@echo 'make dist       wheel, source distribution and bill of materials in dist/, built twice, installed and tried'
	@echo 'make hashes     the hashes of all dependencies, after a change of constraints.txt'
	@echo 'make clean      remove everything that was made here'

ready:
	@scripts/setup dev server dataset

check: ready
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

# No limit on the whole run: a busy machine must be slow, not red. A test that hangs is ended by name
# (faulthandler_timeout in pyproject.toml). What fails is run once more, alone: a test of times and processes may
# fail on a machine that is busy with others.
AGAIN := --last-failed --last-failed-no-failures none

test: check
	$(PYTHON) -m pytest -n auto --dist worksteal || $(PYTHON) -m pytest $(AGAIN)

test-full: ready
	scripts/full.sh
	$(PYTHON) -m pytest -n auto --dist worksteal -m full || $(PYTHON) -m pytest $(AGAIN) -m full

accept: ready
	$(PYTHON) -m pytest --accept tests/test_golden.py tests/writers/test_exchange_formats.py tests/test_commands.py tests/test_readers_page.py tests/test_server_page.py tests/test_settings_page.py tests/test_spec_coverage.py tests/test_dependencies_page.py tests/test_conformance.py

bench: ready
	@[ -d bench/out/peers ] || sh bench/peers.sh
	@for file in $$(grep -l '^if __name__' bench/*.py); do echo "== $$file"; $(PYTHON) "$$file" || exit 1; done

compare: ready
	PYTHONPATH=src:scripts $(PYTHON) -m compare_readers $(FORMAT) $(PATHS) --show 3

fuzz:
	@scripts/setup dev fuzz
	@for file in $(wildcard tests/longrun/fuzz_*.py); do echo "== $$file"; PYTHONPATH=tests $(PYTHON) "$$file" $(SECONDS) || exit 1; done

crash: ready
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/crash_store.py $(ROUNDS) $(or $(SEED),-) $(STORE)

crash-index: ready
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/crash_index.py $(if $(filter file,$(origin ROUNDS)),200,$(ROUNDS)) $(or $(SEED),-)

disconnects: ready
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/disconnects.py $(ROUNDS) $(SEED)

nodes: ready
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/node_faults.py $(if $(filter file,$(origin ROUNDS)),48,$(ROUNDS)) $(or $(SEED),-) $(LEASE)

soak: ready
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/soak.py $(if $(filter file,$(origin SECONDS)),1200,$(SECONDS)) $(STORE)

agents: ready
	PYTHONPATH=tests $(PYTHON) tests/longrun/real_agents.py $(WORDS)
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/real_replays.py $(WORDS)
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/real_hooks.py $(WORDS)
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/real_sessions.py $(WORDS)
	PYTHONPATH=src:tests $(PYTHON) tests/longrun/real_plugins.py $(WORDS)

dist: ready
	scripts/release.sh
	.venv.release/bin/python scripts/make_dist.py

# Markers and hashes only: no address of an index goes into the file.
hashes: ready
	scripts/release.sh
	.venv.release/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		-c constraints.txt --no-header --no-annotate --no-emit-index-url --quiet -o hashes.txt

clean:
	rm -rf .venv .venv.release .venv.full .venv.schemathesis .venv.datasets .venv.harbor .node.full .venv.lock .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
