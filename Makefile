# Two commands to start with: `make run` and `make test`. `make help` lists the rest.
#
# Everything is installed into a virtual environment of the project's own, and again when
# pyproject.toml changes. PYTHON chooses the interpreter, e.g. `make test PYTHON=python3.12`, which
# then has an environment beside the usual one.

PYTHON ?=
VENV ?= .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
PYTEST_ARGS ?=
VERSIONS_ARGS ?=
BENCH_ARGS ?=
STORM_ARGS ?=
FLEET_ARGS ?=
MINUTES ?= 30
SOAK_ARGS ?=
MODULE ?=

IN_PROCESS_TESTS := $(addprefix tests/,architecture bench fuzz properties scenarios unit)
NOT_IN_PROCESS := $(addprefix --ignore=,$(IN_PROCESS_TESTS))

RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
BIN := $(VENV)/bin
SHELL_SCRIPTS := .ci/run $(wildcard scripts/*.sh deploy/*/*.sh)

# With no engine named, here or in a .env file, the simulated one is started beside the gateway.
UPSTREAM_IS_SET := $(strip $(SLUICE_UPSTREAM_URLS)$(shell grep -s '^SLUICE_UPSTREAM_URLS=.' .env))
SERVE_OPTIONS := $(if $(UPSTREAM_IS_SET),,--upstream sim)

.DEFAULT_GOAL := help
.PHONY: help run test test-versions test-asyncio test-in-process test-sockets test-alone test-vllm test-clients test-interop bench storm simulate-fleet chaos fault-matrix soak fuzz mutation lint docs check-deploy format ci lock audit sbom clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26

run: $(RUN_STAMP) ## the gateway, in front of SLUICE_UPSTREAM_URLS or of a simulated engine
	@scripts/print_try_it.sh $(if $(UPSTREAM_IS_SET),,simulated)
	@exec $(BIN)/sluice serve $(SERVE_OPTIONS)

test: test-in-process test-sockets test-alone ## every test but those that need a real vLLM

# Side by side, for they ask nothing of the clock. Whatever is not named here runs with the others.
test-in-process: $(DEV_STAMP) ## those that need no process but their own
	$(BIN)/python -m pytest -n auto --dist worksteal $(IN_PROCESS_TESTS) $(PYTEST_ARGS)

# A file at a time, so that the gateway that the tests of a file share is started once.
test-sockets: $(DEV_STAMP) ## those with real sockets and processes
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not alone and not vllm and not interop" $(NOT_IN_PROCESS) \
		$(PYTEST_ARGS)

test-alone: $(DEV_STAMP) ## those of them that need the whole machine, one after the other
	$(BIN)/python -m pytest -m "alone and not vllm and not interop" $(NOT_IN_PROCESS) $(PYTEST_ARGS)

test-versions: $(DEV_STAMP) ## core and scenarios on every Python from 3.11 to 3.14 that is here, VERSIONS_ARGS="--only 3.12"
	$(BIN)/python -m scripts.test_versions $(VERSIONS_ARGS)

# What is nearest to the loop: reading, writing, who has left, and running out of descriptors.
test-asyncio: $(DEV_STAMP) ## some of the tests of processes, with the gateway on asyncio's own loop
	SLUICE_TEST_EVENT_LOOP=asyncio $(BIN)/python -m pytest -n 2 --dist loadfile \
		-k "test_framing or features-off or descriptors" tests/e2e/test_connections.py \
		tests/e2e/test_disconnects.py tests/e2e/test_framing.py $(PYTEST_ARGS)

test-vllm: $(DEV_STAMP) ## the tests against a real vLLM, which is installed beside the project, with client libraries
	scripts/setup_vllm.sh
	scripts/setup_interop.sh $(BIN)/uv
	$(BIN)/python -m pytest -m "vllm and not heavy" $(PYTEST_ARGS)

test-clients: $(DEV_STAMP) ## client libraries on a simulated engine, but for the heavy ones
	scripts/setup_interop.sh $(BIN)/uv
	$(BIN)/python -m pytest -m "interop and not vllm and not heavy" tests/interop $(PYTEST_ARGS)

test-interop: $(DEV_STAMP) ## client libraries, on a simulated and on a real engine, the heavy ones too
	scripts/setup_vllm.sh
	scripts/setup_interop.sh $(BIN)/uv all
	$(BIN)/python -m pytest -m interop tests/interop $(PYTEST_ARGS)

bench: $(RUN_STAMP) ## side by side with other proxies, which are installed beside; writes docs/benchmarks.md
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

storm: $(RUN_STAMP) ## overload on a real vLLM and a simulated one, behind several proxies; writes docs/overload.md
	$(BIN)/python -m tests.bench.storm $(STORM_ARGS)

chaos: $(DEV_STAMP) ## gateways that share a limit, 2,000 clients, five minutes of kills, stops and cuts
	SLUICE_TEST_CHAOS_S=300 SLUICE_TEST_CLIENTS=2000 $(BIN)/python -m pytest -s $(PYTEST_ARGS) \
		tests/e2e/test_gateways_share_a_limit.py -k whatever

mutation: $(DEV_STAMP) ## the core changed bit by bit: which change does no test notice? MODULE=gate, else all
	nice -n 19 $(BIN)/python -m tests.mutation $(MODULE)

# Not in the development environment: it has no wheels for some Pythons, and can be done without.
fuzz: $(DEV_STAMP) ## the tests in tests/fuzz for MINUTES (30), led by coverage if atheris can be had
	@$(BIN)/python -c "import atheris" 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --only-binary :all: "atheris>=3,<4" \
		|| echo "without atheris: Hypothesis alone"
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

soak: $(DEV_STAMP) ## 2,000 clients that misbehave, engines that fail, for MINUTES (30); build/soak.json
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(SOAK_ARGS)

fault-matrix: $(DEV_STAMP) ## every fault at every point of a request's life, as docs/fault-matrix.md says; in make test too
	$(BIN)/python -m pytest -n auto --dist loadfile tests/faults $(PYTEST_ARGS)

simulate-fleet: $(DEV_STAMP) ## gateways and engines in virtual time, FLEET_ARGS=TRACE; the figures of docs/scaling.md
	$(BIN)/python -m tests.bench.fleet $(FLEET_ARGS)

lint: $(DEV_STAMP) docs ## formatting, lint, types, import contracts, scripts, Dockerfile, the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/shellcheck $(SHELL_SCRIPTS)
	$(BIN)/hadolint Dockerfile
	$(BIN)/pre-commit validate-config

docs: $(DEV_STAMP) ## the documentation site, into build/site; a warning is an error
	$(BIN)/python scripts/build_docs.py

check-deploy: $(DEV_STAMP) ## what stands in deploy/, as Prometheus, kubectl and an API server read it
	scripts/check_deploy.sh $(BIN)

format: $(DEV_STAMP) ## rewrite the code as lint wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ci: ## all that CI runs
	.ci/run

lock: $(DEV_STAMP) ## pin anew what goes into the image
	scripts/lock.sh $(BIN)/uv

audit: $(DEV_STAMP) ## ask an advisory service about what goes into the image; exit 2: not reached, not audited
	$(BIN)/python scripts/audit.py $(BIN)/uv deploy/requirements.lock deploy/requirements-build.lock

sbom: $(DEV_STAMP) ## what the image is made of, as CycloneDX, into build/sbom.cdx.json
	@mkdir -p build
	$(BIN)/python scripts/sbom.py deploy/requirements.lock > build/sbom.cdx.json

clean: ## remove what was made here: environment, caches, builds
	rm -rf $(VENV) .venv-* build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .ci/results
	find proxy tests scripts deploy -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP): pyproject.toml scripts/make_venv.sh
	@scripts/make_venv.sh "$(VENV)" "$(PYTHON)"
	@touch $@

$(DEV_STAMP): pyproject.toml scripts/make_venv.sh
	@scripts/make_venv.sh "$(VENV)" "$(PYTHON)" dev
	@touch $@ $(RUN_STAMP)
