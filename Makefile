# Start with `make demo` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
TESTS ?= tests --ignore tests/slow

.PHONY: setup demo check test slow bench docs binary lock clean tools

# Without compiled modules each test process and each `segue` that it starts compiles them again.
unexport PYTHONDONTWRITEBYTECODE

setup: $(VENV)/.dev

# Install what Segue itself needs first, so that the demo does not wait for the tools. The files list everything,
# and a recent pip needs half the time.
LOCKED_PIP = awk '/^[a-z]/ {found = /^pip==/} found' requirements/test.txt
$(VENV)/.core: requirements/core.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Segue needs Python 3.11 or newer; set PYTHON=python3.x")'
	@echo "Setting up $(VENV) (once; half a minute or less) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(LOCKED_PIP) | $(PIP) install --require-hashes -r /dev/stdin || echo "This takes longer with the old pip." >&2
	@$(PIP) install --no-deps --require-hashes -r requirements/core.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements/test.txt $(VENV)/.core
	@echo "Setting up what the tests need in $(VENV) (once; a minute or less) ..."
	@$(PIP) install --no-compile --no-deps --require-hashes -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.test
	@$(PIP) install --no-compile --no-deps --require-hashes -r $<
	@touch $@

demo: $(VENV)/.core
	@$(BIN)/segue demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/mypy
# As macOS and Windows see the package.
	@for platform in darwin win32; do \
		$(BIN)/mypy --platform $$platform --no-warn-unreachable --no-warn-unused-ignores \
			--cache-dir .mypy_cache/$$platform src || exit 1; \
	done

# More test processes than cores, because many tests wait for something; tests of a file stay together.
PYTEST := $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

# Everything but tests/slow, the users' documents first. It installs nothing but Python packages: what needs
# another program that is not here is skipped, and the last lines say so.
test: $(VENV)/.test
	$(PYTEST) $(TESTS)

# Real agents against a scripted model, kills at many moments, browsers, compilers, ways out of the sandbox: files with
# so many cases that they are shared out.
slow: setup tools binary
	SEGUE_BINARY=$(CURDIR)/dist/segue $(BIN)/pytest -n 4 --dist worksteal tests/slow

# What these need: Debian's packages when run as root, the vendors' programs in .e2e (1.6 GB), the rules of
# accessibility. What cannot be installed is named, and its tests are skipped.
TOOLS := bwrap:bubblewrap cc:build-essential go:golang-go cargo:cargo npm:npm chromium:chromium
tools:
	@for tool in $(TOOLS); do \
		command -v $${tool%%:*} >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "Installing $${tool##*:} (once) ..." && package="--no-install-recommends $${tool##*:}" && \
		{ $(APT) install $$package || { $(APT) update && $(APT) install $$package; }; } >/dev/null 2>&1; } || \
		echo "$${tool##*:} is not installed." >&2; \
	done
	$(PYTHON) tests/slow/agents/install.py
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -y

bench: setup
	$(BIN)/python -m bench

docs: setup
	$(BIN)/python -m docs.generate

# Build one executable that needs no Python, dist/segue.
binary: setup
	$(BIN)/pyinstaller --distpath=dist --workpath=build/binary --noconfirm --log-level=ERROR packaging/segue.spec

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--annotation-style line pyproject.toml

# Each is a part of the next; uv keeps the versions that a file has.
lock:
	$(COMPILE) --all-extras --group dev -o requirements/dev.txt
	$(COMPILE) --all-extras --group test -c requirements/dev.txt --no-annotate -o requirements/test.txt
	$(COMPILE) --group build -c requirements/dev.txt --no-annotate -o requirements/core.txt

clean:
	rm -rf $(VENV) .e2e .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
