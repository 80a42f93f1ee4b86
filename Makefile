# Two commands are enough: `make run` and `make test`. Everything lives in .venv.
PYTHON ?= python3
BIN := .venv/bin
# In .venv: pip would first install Numba and others once more, into an environment for the build alone.
PRECOMPILE := $(BIN)/python -m ddol.precompile --ship src/ddol/compiled/shipped
# Many tests wait for processes: twice as many workers as the smallest machine has cores. Slow files come first.
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder

.PHONY: run test messages test-oldest test-memory hostile lint unit bench dist release docs clean

run: .venv/.installed
	$(BIN)/ddol train --agents 4

# Side by side: many tests wait for processes, and linters use one core.
test: .venv/.installed-dev
	$(MAKE) -j 2 lint unit

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/typos
	$(BIN)/zizmor --offline --quiet .github/workflows

unit: .venv/.installed-dev
	$(BIN)/pytest $(PARALLEL)

# The tests with the oldest supported version of every dependency, which compiles what it runs: code made
# beforehand would be that of the newest.
test-oldest: .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear .venv-oldest
	DDOL_PRECOMPILE=0 $(BIN)/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct \
	  --only-binary :all: --no-binary ddol -e '.[test]'
	.venv-oldest/bin/python -m pytest $(PARALLEL)

# The compiled parts with an allocator that ends at a write beyond an array, and hands out rubbish (glibc's).
test-memory: .venv/.installed-dev
	LD_PRELOAD=libc_malloc_debug.so.0 MALLOC_CHECK_=3 MALLOC_PERTURB_=165 PYTHONMALLOC=malloc \
	  $(BIN)/pytest -n 2 --dist loadfile --capture=sys tests/update tests/communicate tests/schedules tests/streams \
	  tests/engines tests/estimators tests/hostile tests/test_model.py tests/test_checkpoint.py \
	  $(foreach room,ray mpi launch hosts,--ignore-glob='*/engines/test_$(room)*')

# Damaged files, killed processes and cut networks, at length: make hostile ARGS="--tries 10000"
hostile: .venv/.installed-dev
	$(BIN)/python -m tests.hostile $(ARGS)
	$(BIN)/pytest -m hostile

# Every error message on one page of Markdown, for review.
messages: .venv/.installed-dev
	@$(BIN)/python tests/error_messages.py

bench: .venv/.installed-dev
	$(BIN)/pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks $(ARGS)

# Into site/: no network is needed to read it; a dead link or a missing name fails.
docs: .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs site

# What users would install, tried alone: no extras, no source tree, none of .venv's packages. The wheel is
# built from the source distribution, so that this one is whole, too.
dist: .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check build
	rm -rf dist build/alone
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/alone
	build/alone/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/alone && bin/ddol --version && bin/ddol train --agents 4 --model m.ddol --quiet && bin/ddol inspect m.ddol

# The same with every Python of the range that is installed, after two builds that must be equal to the byte.
release: .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python build_hooks/release.py

# Debian ships venv without ensurepip unless python3-venv is there.
.venv/bin/pip:
	$(PYTHON) -m venv .venv || { rm -rf .venv; apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv .venv; } \
	  || { echo "make: cannot create .venv; install the package python3-venv and try again" >&2; rm -rf .venv; exit 1; }

.venv/.installed: .venv/bin/pip pyproject.toml
	DDOL_PRECOMPILE=0 $(BIN)/pip install --quiet --disable-pip-version-check -e '.[plot,tables]'
	$(PRECOMPILE)
	$(BIN)/python -m compileall -q src
	touch $@

.venv/.installed-dev: .venv/bin/pip pyproject.toml
	DDOL_PRECOMPILE=0 $(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	$(PRECOMPILE)
	$(BIN)/python -m compileall -q src
	touch $@ .venv/.installed

clean:
	rm -rf .venv .venv-oldest build dist site docs/generated *.egg-info src/*.egg-info src/ddol/compiled/shipped .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
