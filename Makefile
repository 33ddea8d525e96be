# Start with `make demo` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.txt
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
BINARY_VENV := .venv-binary

.PHONY: setup demo check lint types types-elsewhere types-darwin types-win32 test collected collected-half collected-rest test-smoke e2e browser-tests proofs twins escapes crash fresh-machine families \
	thorough e2e-oldest e2e-latest real-agents browser chromium tools torture axe bench proof mutants vendors docs pictures lock licences binary clean

# Without compiled modules each test process and each `segue` that it starts compiles them again.
unexport PYTHONDONTWRITEBYTECODE

setup: $(VENV)/.ready

# Install what Segue itself needs first, so that the demo does not wait for the development tools.
# The files list everything, and a recent pip needs half the time.
$(VENV)/.core: requirements/pip.txt requirements/core.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Segue needs Python 3.11 or newer; set PYTHON=python3.x")'
	@echo "Setting up $(VENV) (once; half a minute or less) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --require-hashes -r requirements/pip.txt || echo "This takes longer with the old pip." >&2
	@$(PIP) install --no-deps --require-hashes -r requirements/core.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.ready: $(LOCK) $(VENV)/.core
	@echo "Setting up the tools for tests in $(VENV) (once; a minute or two) ..."
	@$(PIP) install --no-compile --no-deps --require-hashes -r $(LOCK)
	@touch $@

demo: $(VENV)/.core
	@$(BIN)/segue demo

check: lint types types-elsewhere

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry .

types: setup
	$(BIN)/mypy

# As macOS and Windows see the package.
types-elsewhere: types-darwin types-win32
types-darwin types-win32: types-%: setup
	$(BIN)/mypy --platform $* --no-warn-unreachable --no-warn-unused-ignores --cache-dir .mypy_cache/$* src

# More test processes than cores, because many tests wait for something.
PYTEST := $(BIN)/pytest -n 4 --dist worksteal

# The tests that stand for every feature. It installs nothing but Python packages: what needs another
# program that is not here is skipped, and the last lines say so.
test:
	@$(MAKE) --no-print-directory -j2 collected
	$(PYTEST) -m "not thorough"

# pytest compiles the files of tests in its own way: once here, not once in each test process.
HALF := tests/cli tests/proof tests/parts
COLLECT := $(BIN)/pytest --collect-only -qq -p no:xdist
collected: collected-half collected-rest
collected-half: setup
	@$(COLLECT) $(HALF) >/dev/null
collected-rest: setup
	@$(COLLECT) $(addprefix --ignore=,$(HALF)) >/dev/null

# A minute that shows whether the tests can run on this machine at all.
SMOKE := tests/domain tests/system/test_git.py tests/system/test_merging.py tests/parts/conformance/test_store.py tests/cli/test_run.py
test-smoke: setup
	$(PYTEST) -m "not thorough" $(SMOKE)

# The sets that `make test` only samples; each is complete. `.ci/run` runs most of them one after the other.
E2E := tests/e2e tests/parts/litellm/test_real.py tests/parts/litellm/test_page.py tests/parts/litellm/test_library.py tests/parts/clouds/test_jules_sdk.py
PAGE := tests/web tests/parts/lab/test_browser.py tests/parts/lab/test_pages.py tests/parts/fleet/test_page.py tests/parts/bridge/test_page.py
PROOFS := tests/proof tests/isolation tests/judges tests/parts/supabase tests/flow tests/seeds $(addprefix tests/cli/test_,check.py red_before.py rehearse.py) tests/parts/lab/test_replay.py tests/parts/lab/test_experiment.py
ESCAPES := tests/isolation/escapes
TWINS := $(addprefix tests/proof/test_,apart.py disguise.py environments.py sharpness.py support.py commands.py settle.py flaky.py)
CRASH := tests/crash tests/torture $(addprefix tests/cli/test_,survival.py build_kills.py disk.py) tests/store/test_outage.py
FRESH := tests/test_fresh_machine.py

# The real Claude Code, Codex, Gemini CLI, OpenCode, Copilot CLI and Qwen Code against a scripted model on loopback, in
# .e2e (1.6 GB, needs npm); what cannot be installed is named and skipped.
e2e: setup tools real-agents
	$(PYTEST) -m "not cells" $(E2E)

# Every cell of the table in `segue help agents`: each of these programs with each way in which its service fails.
vendors: setup tools real-agents
	$(PYTEST) tests/e2e/test_vendors.py

# The page in a real browser. CI sets ONLY here and below, because `make test` has run the others just before.
browser-tests: setup browser axe
	$(PYTEST) $(ONLY) $(PAGE)

# Sealed checks by every means, also of Go, Rust and JavaScript, and what the table of the sandbox promises.
proofs: setup tools
	$(PYTEST) $(ONLY) $(PROOFS) $(addprefix --ignore=,$(ESCAPES) $(TWINS))
	$(PYTEST) $(ESCAPES) -k shown

# Honest and cheating work side by side, sealed: of every class that proofs know, in every language and runner.
twins: setup tools
	$(PYTEST) $(TWINS)

# Agents that try to get out of every sandbox, or to make Segue do outside what they cannot do themselves.
escapes: setup tools
	$(PYTEST) $(ESCAPES)

# Runs that are killed at durable system calls, and workers that are killed at random.
crash: setup tools
	$(PYTEST) $(ONLY) $(CRASH)

# The tests' own entry in a clone below a temporary folder, with an empty home, as another user.
fresh-machine: setup
	$(PYTEST) $(FRESH)

# Every other case that `make test` leaves out.
families: setup tools
	$(PYTEST) -m thorough $(addprefix --ignore=,$(E2E) $(PAGE) $(PROOFS) $(CRASH) $(FRESH))

# Everything, with more examples of each property, the types of the tests, and the oldest supported versions of the agents.
thorough: setup browser tools real-agents e2e-oldest types types-elsewhere
	$(PYTEST) --hypothesis-profile=thorough

# The oldest Claude Code and Codex that Segue supports (0.7 GB more), and whatever npm has today.
e2e-oldest e2e-latest: setup
	SEGUE_E2E=$(@:e2e-%=%) $(PYTHON) tests/e2e/install.py
	SEGUE_E2E=$(@:e2e-%=%) $(PYTEST) tests/e2e -k "claude or codex or gemini or opencode"

real-agents: tools
	$(PYTHON) tests/e2e/install.py

# Debian's packages, installed when run as root. Without them the tests that need them are skipped.
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -y
define install
	@for tool in $(1); do \
		command -v $${tool%%:*} >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "Installing $${tool##*:} (once) ..." && package="--no-install-recommends $${tool##*:}" && \
		{ $(APT) install $$package || { $(APT) update && $(APT) install $$package; }; } >/dev/null 2>&1; } || \
		echo "$${tool##*:} is not installed." >&2; \
	done
endef

browser:
	@command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		$(MAKE) --no-print-directory chromium

# The rules of accessibility that the page keeps beside our own.
axe:
	$(PYTHON) tests/e2e/install.py axe

chromium:
	$(call install,chromium:chromium)

tools:
	$(call install,bwrap:bubblewrap cc:build-essential go:golang-go cargo:cargo npm:npm gh:gh)

# Kill runs at their durable system calls and let 500 other things happen to them, in every flow and on both stores:
# a quarter of an hour. TORTURE="--points 0" tries every call.
torture: setup tools
	$(BIN)/python -m tests.crash $(TORTURE)

bench: setup
	$(BIN)/python -m bench

# Honest and cheating agents in pairs: how many are told apart.
proof: setup tools
	$(BIN)/segue bench proof --jobs 3

# Changes the code in small ways and prints how many changes the tests notice.
mutants: setup
	$(BIN)/python -m bench.mutants

docs: setup
	$(BIN)/python -m docs.generate

# Make the pictures in docs/pictures from the current code: a session in a terminal, the page in chromium.
pictures: setup browser
	$(BIN)/python -m docs.illustrate

# Build one executable that needs no Python, dist/segue; NUITKA=1 also builds with Nuitka and keeps the faster one.
binary: setup $(BINARY_VENV)/.ready
	$(if $(NUITKA),$(BINARY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/nuitka.txt)
	@$(BINARY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall .
	$(BINARY_VENV)/bin/python packaging/build.py $(if $(NUITKA),--nuitka)
	SEGUE_BINARY="$(CURDIR)/dist/segue" $(BIN)/pytest tests/test_binary.py

$(BINARY_VENV)/.ready: requirements/binary.txt
	@$(PYTHON) -m venv --clear $(BINARY_VENV)
	@$(BINARY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/binary.txt
	@touch $@

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

lock:
	$(COMPILE) --extra bridge --extra sim --extra postgres --extra parquet --extra fleet --extra mcp --extra proxy --extra otel --extra languages --group dev pyproject.toml -o $(LOCK)
	$(COMPILE) --group build --constraint $(LOCK) pyproject.toml -o requirements/core.txt
	$(COMPILE) --extra bridge --extra sim --extra languages --group binary pyproject.toml -o requirements/binary.txt
	$(COMPILE) --group nuitka -o requirements/nuitka.txt
	echo pip | $(COMPILE) - -o requirements/pip.txt
	$(PIP) install --no-deps --require-hashes -r $(LOCK)
	$(BIN)/python packaging/locks.py

# List every locked package with its licence; fails for one that is unknown or not free.
licences: setup
	@$(BIN)/python packaging/licences.py

clean:
	rm -rf $(VENV) $(BINARY_VENV) .e2e .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
