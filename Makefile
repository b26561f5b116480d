# The one list of commands. `make` alone prints it.
#
# Needs Python 3.11 or later with venv, a Rust toolchain, a C compiler and make. Everything else
# is put into .venv, target and build, all three inside this folder and safe to delete.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Where an environment keeps Python from writing bytecode, each process of pytest compiles all tests anew.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
LOGS := build/logs

comma := ,
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null)
PYTHON_SOURCES := $(shell find python -name '*.py')
TEST_SOURCES := $(shell find tests -name '*.py')
RUST_NEEDED := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# $(call quietly,NAME,COMMAND) runs COMMAND with its output kept in a log that is only shown when
# it fails.
define quietly
	@mkdir -p $(LOGS)
	@if ! { $(2); } >$(LOGS)/$(1).log 2>&1 </dev/null; then \
		tail -n 60 $(LOGS)/$(1).log >&2; \
		echo "error: $(1) failed; the whole output is in $(LOGS)/$(1).log" >&2; \
		exit 1; \
	fi
endef

.PHONY: help
help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# ---- set-up ---------------------------------------------------------------------------------

.PHONY: setup
setup: $(STAMPS)/bytecode $(STAMPS)/packages ## create .venv with everything in it, and build loadstone into it

.PHONY: build
build: $(STAMPS)/bytecode $(STAMPS)/packages ## the same as setup

.PHONY: tools
tools:
	@missing=0; \
	lack() { echo "error: $$1" >&2; echo "hint: $$2" >&2; missing=1; }; \
	at_least() { [ "$$(printf '%s\n%s\n' "$$1" "$$2" | sort -V | head -n 1)" = "$$1" ]; }; \
	if ! command -v $(PYTHON) >/dev/null; then \
		lack 'no "$(PYTHON)" here' 'install Python 3.11 or later, or name it: make PYTHON=/path/to/python3'; \
	else \
		found=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		at_least 3.11 "$$found" || lack "\"$(PYTHON)\" is Python $$found, 3.11 or later is needed" \
			'install a later one and name it: make PYTHON=/path/to/python3'; \
		$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
			lack "\"$(PYTHON)\" cannot create virtual environments" 'on Debian: apt-get install python3-venv'; \
	fi; \
	if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then \
		lack 'no Rust toolchain here ("cargo" and "rustc")' \
			'install Rust $(RUST_NEEDED) or later with rustup; the packages of Debian 12 are too old'; \
	else \
		found=$$(rustc --version | cut -d ' ' -f 2); \
		at_least $(RUST_NEEDED) "$$found" || lack "\"rustc\" is $$found, $(RUST_NEEDED) or later is needed" \
			'rustup update stable; the packages of Debian 12 are too old'; \
	fi; \
	command -v cc >/dev/null || lack 'no C compiler here ("cc")' 'on Debian: apt-get install build-essential'; \
	exit $$missing

$(STAMPS)/venv: | tools
	@echo 'creating $(VENV) …'
	$(call quietly,venv,$(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --upgrade 'pip>=25.1')
	@mkdir -p $(STAMPS) && touch $@

# The programs of developers. The demo does without them: it needs what its page is made by, and no more.
$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml
	@echo 'installing the Python packages of developers …'
	$(call quietly,dev,$(BIN)/python -m pip install --group dev)
	@touch $@

$(STAMPS)/maturin: $(STAMPS)/venv
	$(call quietly,maturin,$(BIN)/python -m pip install 'maturin>=1.9$(comma)<2')
	@touch $@

# This also installs what loadstone itself needs.
$(STAMPS)/extension: $(STAMPS)/maturin pyproject.toml $(RUST_SOURCES)
	@echo 'building loadstone (the first time this takes some minutes) …'
	$(call quietly,extension,VIRTUAL_ENV="$$PWD/$(VENV)" $(BIN)/maturin develop --release --extras report)
	@touch $@

$(STAMPS)/packages: $(STAMPS)/dev $(STAMPS)/extension
	@echo 'installing what loadstone may use …'
	$(call quietly,packages,$(BIN)/python -m pip install "loadstone[arrow$(comma)datafusion$(comma)duckdb$(comma)hosts$(comma)jobqueue$(comma)otlp$(comma)report]")
	@touch $@

# As pip does for a package that it copies: compiling all modules anew would take half of the time of a
# short command, where Python may not keep what it compiles.
$(STAMPS)/bytecode: $(STAMPS)/extension $(PYTHON_SOURCES)
	@$(BIN)/python -m compileall -q python/loadstone
	@touch $@

# ---- use ------------------------------------------------------------------------------------

.PHONY: demo
demo: $(STAMPS)/bytecode ## build everything and run the main job on the embedded store, with a report
	@$(BIN)/loadstone demo

# ---- test -----------------------------------------------------------------------------------

# The extension's profile, so that the crates of others are compiled once (tests/docs/test_crate_features.py),
# with checks in our own, and not optimised: that costs a fifth to make, and tests are as quick.
CHECKED := --release $(addprefix --config profile.release.,debug-assertions=true overflow-checks=true \
	$(patsubst crates/%,package.loadstone-%.opt-level=0,$(wildcard crates/*)))
.PHONY: test-rust
test-rust: $(STAMPS)/packages ## run the tests of the Rust crates
	@PYO3_PYTHON="$$PWD/$(BIN)/python" cargo test $(CHECKED) --workspace --tests --quiet $(CARGO_TEST_OPTIONS)

# CI also runs the long tests that its commit draws (tests/rotation.py), and repeats what failed, up to five tests.
NOT_LONG := $(if $(CI),, and not long)
REPEATS := --reruns 1 --max-suite-reruns 5 --rerun-show-tracebacks
ROTATION := $(if $(CI),$(REPEATS) --rotation "$(shell git rev-parse HEAD 2>/dev/null || echo none)" --rotation-cpu)

# pytest ends with 2 when it is interrupted, and with 5 when PYTEST_OPTIONS left it no test.
PYTEST := $(BIN)/python -m pytest -q
IN_PARTS := status=0; ended() { case $$1 in 2) exit 2;; 5) ;; *) status=1;; esac; };
PARALLEL := --dist loadgroup tests -n
# Most of what tests take is waiting: for seconds of a load, for the disk, for a host that is lost.
WORKERS := $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))

# pytest rewrites the assertions of each module and keeps that: each of its processes would do it at once.
$(STAMPS)/rewritten: $(STAMPS)/packages $(TEST_SOURCES)
	@if $(PYTEST) --collect-only tests >/dev/null; then touch $@; fi

# Tests that look at how fast something is have the host to themselves.
ALONE := tests/rig $(addprefix tests/system/test_,calibrate.py stalls.py)
RUN := $(IN_PARTS) run() { $(PYTEST) -m 'not real$(NOT_LONG)' $(ROTATION) $(if $(CI),30) $(PYTEST_OPTIONS) "$$@" || ended $$?; };
BESIDE := $(MAKE) --no-print-directory $(STAMPS)/rewritten; run $(PARALLEL) $(WORKERS) $(ALONE:%=--ignore=%);
.PHONY: test-python
test-python: $(STAMPS)/packages ## run the Python tests that need no real servers
	@$(RUN) $(BESIDE) run $(ALONE); exit $$status

# Rust's tests are compiled and run while Python's wait. A process group of their own ends with Ctrl-C, too.
.PHONY: test
test: $(STAMPS)/packages ## run all tests that need no real servers
	@mkdir -p $(LOGS); \
	set -m; $(MAKE) test-rust </dev/null >$(LOGS)/test-rust.log 2>&1 & rust=$$!; set +m; \
	trap "kill -- -$$rust 2>/dev/null || true" EXIT; \
	$(RUN) $(BESIDE) wait $$rust || status=1; cat $(LOGS)/test-rust.log; run $(ALONE); exit $$status

# libFuzzer's coverage, which a stable compiler gives too; the target apart from tests, whose build
# needs none of it.
FUZZ_SECONDS ?= 60
FUZZ_FLAGS := -Cpasses=sancov-module $(addprefix \
	-Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_CHECKS := $(foreach part,release release.package.'"*"',$(addprefix \
	--config profile.$(part).,debug-assertions=true overflow-checks=true))
.PHONY: fuzz
fuzz: | tools ## look for inputs that break a parser: FUZZ_SECONDS for each target, FUZZ=NAME for one
	@host=$$(rustc -vV | sed -n 's/^host: //p'); \
	RUSTFLAGS='$(FUZZ_FLAGS)' cargo build --release $(FUZZ_CHECKS) --quiet --target "$$host" \
		--target-dir target/fuzz -p loadstone-fuzz --features libfuzzer; \
	for name in $(or $(FUZZ),$(notdir $(wildcard crates/fuzz/corpus/*))); do \
		mkdir -p "build/fuzz/$$name"; \
		log="build/fuzz/$$name.log"; \
		LOADSTONE_FUZZ=$$name "target/fuzz/$$host/release/fuzz" -max_total_time=$(FUZZ_SECONDS) \
			-rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -verbosity=0 \
			-artifact_prefix="build/fuzz/$$name-" "build/fuzz/$$name" "crates/fuzz/corpus/$$name" \
			>"$$log" 2>&1 || { tail -n 60 "$$log" >&2; exit 1; }; \
		sed -n "s/^stat::number_of_executed_units: /$$name: no finding, executions: /p" "$$log"; \
	done

# atheris is libFuzzer for Python. Its wheels are for Linux on x86-64, so nothing else installs it.
.PHONY: fuzz-readers
fuzz-readers: $(STAMPS)/packages ## the same for readers of campaigns, run folders and imports
	@$(BIN)/python -m pip install --quiet --group fuzz; \
	for name in $(or $(FUZZ),$(notdir $(wildcard tests/fuzz/corpus/*))); do \
		mkdir -p "build/fuzz/$$name"; \
		log="build/fuzz/$$name.log"; \
		$(BIN)/python -m tests.fuzz.explore "$$name" -max_total_time=$(FUZZ_SECONDS) \
			-rss_limit_mb=2048 -timeout=30 -print_final_stats=1 -verbosity=0 \
			-artifact_prefix="build/fuzz/$$name-" "build/fuzz/$$name" "tests/fuzz/corpus/$$name" \
			>"$$log" 2>&1 || { tail -n 60 "$$log" >&2; exit 1; }; \
		sed -n "s/^stat::number_of_executed_units: /$$name: no finding, executions: /p" "$$log"; \
	done

# What is made from code and kept beside it; tests say when it is old.
.PHONY: reference
reference: $(STAMPS)/packages ## make anew the schemas, the types of Python that follow them, and the references
	$(call quietly,schemas,LOADSTONE_RENEW=1 PYO3_PYTHON="$$PWD/$(BIN)/python" cargo test $(CHECKED) -p loadstone-loadgen --lib --quiet published)
	@$(BIN)/python -m tests.docs.document_types
	@$(BIN)/python -m tests.docs.report_schema
	@$(BIN)/python -m loadstone.campaign.schema.json_schema docs/reference/campaign.schema.json
	@$(BIN)/python -m tests.docs.driver_reference
	@$(BIN)/python -m pytest -q --renew-golden tests/unit/test_rules.py -k reference

.PHONY: golden
golden: $(STAMPS)/packages ## write the golden reports anew; read the difference before a commit
	$(BIN)/python -m pytest -q --renew-golden tests/unit/test_report.py

# The tests of one server follow each other in one process (tests/conftest.py), beside those of others.
# Here the servers work while a test waits.
REAL_ALONE := tests/calibration tests/rig $(addprefix tests/system/test_real_,ceilings.py skyhook.py)
.PHONY: test-real
test-real: $(STAMPS)/packages servers ## install and start real servers, and test against them
	@$(IN_PARTS) run() { $(PYTEST) -m 'real$(NOT_LONG)' $(ROTATION) $(if $(CI),60) $(PYTEST_OPTIONS) "$$@" || ended $$?; }; \
	run $(PARALLEL) logical $(REAL_ALONE:%=--ignore=%); \
	run $(REAL_ALONE); \
	exit $$status

# AddressSanitizer, which a stable compiler has too, in a target of its own. Its runtime is the C compiler's, which
# must be there before Python; with PYTHONMALLOC each of Python's objects is watched. Reports go to files, since
# a process of a test may die unseen.
MEMORY_TESTS ?= tests/docs/test_commands.py
MEMORY_PYTHON := build/memory/python
MEMORY_CRATES ?= wire record loadgen store
MEMORY_REPORTS := $(CURDIR)/build/memory/report
MEMORY_HOST = $$(rustc -vV | sed -n 's/^host: //p')
MEMORY_CARGO = RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address PYO3_PYTHON="$$PWD/$(BIN)/python" cargo
MEMORY_FLAGS = $(CHECKED) --config profile.release.opt-level=1 --target "$(MEMORY_HOST)" --target-dir target/memory --quiet
.PHONY: test-memory
test-memory: test-memory-crates $(STAMPS)/packages ## the same, and then the documents' commands
	@rm -rf build/memory; mkdir -p $(MEMORY_PYTHON); \
	$(MEMORY_CARGO) build $(MEMORY_FLAGS) -p loadstone-loadgen-py; \
	cp -rs "$$PWD/python/loadstone" $(MEMORY_PYTHON); \
	ln -sf "$$PWD/target/memory/$(MEMORY_HOST)/release/lib_loadgen.so" $(MEMORY_PYTHON)/loadstone/_loadgen.abi3.so; \
	PYTHONPATH="$$PWD/$(MEMORY_PYTHON)" PYTHONMALLOC=malloc LD_PRELOAD="$$(cc -print-file-name=libasan.so)" \
		ASAN_OPTIONS=detect_leaks=0:log_path=$(MEMORY_REPORTS) \
		$(PYTEST) -p no:faulthandler -m 'not real and not long' $(PYTEST_OPTIONS) $(MEMORY_TESTS) || status=$$?; \
	! cat $(MEMORY_REPORTS)* 2>/dev/null && exit "$${status:-0}"

# The crates' own tests. What is lost on purpose (buffers that the kernel or librados may still write to) would be
# called a leak, so leaks are not looked for.
.PHONY: test-memory-crates
test-memory-crates: ## look for wrong uses of memory: the tests of MEMORY_CRATES under AddressSanitizer
	@ASAN_OPTIONS=detect_leaks=0 $(MEMORY_CARGO) test $(MEMORY_FLAGS) $(addprefix -p loadstone-,$(MEMORY_CRATES)) \
		--lib --tests --no-fail-fast $(CARGO_TEST_OPTIONS)

# Miri interprets, so that it takes a thousand times as long: the crate `wire` alone, which needs no system, without
# its test of all days, and with few of the drawn inputs. With the instructions named, it sees the code that is not portable, too.
# Of `record`, nothing but its columns could be run: the rest calls zstd, which is C.
.PHONY: test-miri
test-miri: ## look for undefined behaviour in the crate wire (needs a nightly compiler with Miri)
	@if ! cargo +nightly miri --version >/dev/null 2>&1; then \
		echo 'error: no Miri here; rustup toolchain install nightly --component miri,rust-src' >&2; exit 1; fi; \
	features=; [[ $$(rustc -vV) != *x86_64* ]] || features=-Ctarget-feature=+sha,+ssse3,+sse4.1; \
	PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation RUSTFLAGS=$$features cargo +nightly miri test \
		-p loadstone-wire --lib --quiet --target-dir target/miri -- --skip every_day_of

# Rust's long tests are `#[ignore]`d; how much they do is in the variables that they name.
.PHONY: test-long
test-long: $(STAMPS)/packages servers ## run the tests that take minutes or hours: more seeds, more histories
	@$(MAKE) test-memory
	@if cargo +nightly miri --version >/dev/null 2>&1; then $(MAKE) test-miri; else echo 'skipped: test-miri: no Miri here' >&2; fi
	@PYO3_PYTHON="$$PWD/$(BIN)/python" cargo test --release --workspace --quiet -- --ignored
	@$(BIN)/python -m pytest -q -m long $(PYTEST_OPTIONS)

.PHONY: rig
rig: $(STAMPS)/packages ## draw bottlenecks and publish how often the verdict names them (20 minutes; some need root)
	@$(BIN)/python -m tests.rig $(or $(RIG_OPTIONS),--publish)

.PHONY: servers
servers: $(STAMPS)/venv ## install the real servers that test-real starts
	@$(BIN)/python -m tests.system.servers install $(if $(CI),--strict)

# Older commits are as they are.
SUBJECTS_SINCE := 2026-11-22T19:00:00Z

.PHONY: lint
lint: $(STAMPS)/packages check ## check formats, types, lints, layers and the subjects of commits
	$(call quietly,rustfmt,cargo fmt --all --check)
	$(call quietly,stubtest,MYPYPATH=python $(BIN)/python -m mypy.stubtest loadstone._loadgen)
	$(call quietly,subjects,! git log --since=$(SUBJECTS_SINCE) --format=%s 2>/dev/null | grep -E -e '.{73}' -e '^[^ ]*( [^ ]*)?$$')

# Clippy's own artefacts are those of lint, and mypy keeps its own: the second time takes seconds.
.PHONY: check
check: $(STAMPS)/packages ## check what changed without a build: clippy, ruff, mypy, layers, names
	$(call quietly,clippy,PYO3_PYTHON="$$PWD/$(BIN)/python" cargo clippy $(CHECKED) --workspace --all-targets --quiet -- -D warnings)
	$(call quietly,ruff,$(BIN)/ruff check . && $(BIN)/ruff format --check .)
	$(call quietly,mypy,$(BIN)/python -m mypy)
	$(call quietly,layers,$(BIN)/lint-imports)
	$(call quietly,names,$(BIN)/python -m tests.docs.names)

.PHONY: format
format: $(STAMPS)/dev ## put all sources into the one format
	@cargo fmt --all
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format --quiet .

.PHONY: bench
bench: $(STAMPS)/packages ## compare CPU per request with wrk, oha, warp, fio and elbencho (those on PATH)
	$(call quietly,store,cargo build --release --quiet -p loadstone-store)
	$(call quietly,examples,cargo build --release --quiet -p loadstone-loadgen --examples)
	@$(BIN)/python bench/http_vs_peers.py
	@$(BIN)/python bench/own_figures.py
	@$(BIN)/python bench/block_vs_peers.py
	@$(BIN)/python bench/file_vs_elbencho.py

.PHONY: bench-report
bench-report: $(STAMPS)/packages ## measure CPU and memory of reports against the number of trials
	@$(BIN)/python bench/report.py

GATE_PROOF ?= --hours 8
.PHONY: gate-proof
gate-proof: $(STAMPS)/packages ## count how often `loadstone ab` is right on this machine (hours; goes on where it ended)
	$(call quietly,store,cargo build --release --quiet -p loadstone-store)
	@$(BIN)/python bench/gate_proof.py $(GATE_PROOF)

.PHONY: docs
docs: $(STAMPS)/packages ## build the documentation site into build/docs/site, and the crates' own; check both
	$(call quietly,site,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet)
	$(call quietly,manual,$(BIN)/python -m tests.docs.manual build/docs/loadstone.1)
	@echo 'build/docs/site/index.html'
	$(call quietly,rustdoc,RUSTDOCFLAGS='-D warnings' PYO3_PYTHON="$$PWD/$(BIN)/python" cargo doc --workspace --no-deps --quiet)
	@$(BIN)/python -m pytest -q tests/docs $(PYTEST_OPTIONS)

# Linked by zig for glibc 2.28, so that the wheel installs on older systems than this one. maturin refuses to name
# it so where a symbol is newer. Paths of this machine are left out of the extension, so that builds in different
# folders are the same.
ARCHITECTURE ?= x86_64
LIBC ?= gnu
PLATFORM := $(if $(filter musl,$(LIBC)),musllinux_1_2,manylinux_2_28)
REMAPPED = $$PWD=loadstone $${CARGO_HOME:-$$HOME/.cargo}=cargo
WHEELS := build/wheels
.PHONY: wheel
wheel: $(STAMPS)/maturin | tools ## build a wheel that installs without a compiler; ARCHITECTURE=aarch64 or LIBC=musl for those
	$(call quietly,zig,$(BIN)/python -m pip install --quiet --group wheel)
	$(call quietly,wheel,VIRTUAL_ENV="$$PWD/$(VENV)" PATH="$$PWD/$(BIN):$$PATH" CARGO_INCREMENTAL=0 \
		RUSTFLAGS="$(addprefix --remap-path-prefix=,$(REMAPPED)) $(if $(filter musl,$(LIBC)),-Ctarget-feature=-crt-static)" \
		CFLAGS="$(addprefix -ffile-prefix-map=,$(REMAPPED))" \
		$(BIN)/maturin build --release --strip --locked --zig --compatibility $(PLATFORM) \
		--target $(ARCHITECTURE)-unknown-linux-$(LIBC) --target-dir target/wheel --out $(WHEELS))
	@$(BIN)/python -m tests.docs.portable_wheel $(WHEELS)/loadstone-$(VERSION)-*$(PLATFORM)*_$(ARCHITECTURE).whl
	@ls $(WHEELS)/*$(PLATFORM)*_$(ARCHITECTURE).whl

# All of a release but its upload, from a commit, whose time the files bear. The targets of Rust must be installed:
# rustup target add aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl
RELEASE := build/release
PLATFORMS ?= x86_64-gnu aarch64-gnu x86_64-musl aarch64-musl
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
MANUAL := loadstone._loadgen.data/data/share/man/man1/loadstone.1
.PHONY: release
release release-files: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: $(STAMPS)/packages ## build a release in build/release: wheels, sdist, SBOM, licences, changes, docs, checksums
	@[ -z "$$(git status --porcelain)" ] || { echo 'error: a release is built from a commit; commit or remove what git status lists' >&2; exit 1; }
	@rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	$(call quietly,manual,$(BIN)/python -m tests.docs.manual $(MANUAL))
	@for platform in $(PLATFORMS); do $(MAKE) wheel WHEELS=$(RELEASE) ARCHITECTURE=$${platform%-*} LIBC=$${platform#*-}; done
	@$(MAKE) release-files

# What stands beside the wheels.
.PHONY: release-files
release-files: $(STAMPS)/packages ## make what stands beside the wheels of a release, which are there
	@for wheel in $(RELEASE)/*.whl; do unzip -l "$$wheel" '*/$(notdir $(MANUAL))' >/dev/null || { echo "error: no manual page in $$wheel" >&2; exit 1; }; done
	$(call quietly,sbom,unzip -o -q -j -d $(RELEASE) "$$(ls $(RELEASE)/*.whl | head -n 1)" '*.cyclonedx.json')
	$(call quietly,sdist,$(BIN)/maturin sdist --out $(RELEASE))
	$(call quietly,licences,$(BIN)/python -m tests.docs.licences $(RELEASE)/THIRD-PARTY-LICENCES.txt)
	$(call quietly,site,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet)
	$(call quietly,docs,tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX --mtime=@$$SOURCE_DATE_EPOCH -C build/docs/site \
		-cf - . | gzip -n >$(RELEASE)/loadstone-$(VERSION)-docs.tar.gz)
	@awk -v version=$(VERSION) '/^## /{is_ours = $$2 == version} is_ours' CHANGELOG.md >$(RELEASE)/CHANGES.md
	$(call quietly,twine,$(BIN)/python -m pip install --quiet --group release && \
		$(BIN)/twine check --strict $(RELEASE)/*.whl $(RELEASE)/loadstone-$(VERSION).tar.gz)
	@cd $(RELEASE) && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS && cat SHA256SUMS

# What draws the charts, from npm, and the font of their pictures. Only a change of a version asks for it.
VENDOR := python/loadstone/report/pages/vendor
VENDORED := @observablehq/plot@0.6.17 linkedom@0.18.15 inter-ui@4.1.1 esbuild@0.28.2
ESBUILD := npx esbuild --bundle --minify --format=iife --legal-comments=none --target=es2020
GLYPHS := 20-7E,A0-17F,370-3FF,400-45F,2010-2027,2030,2032,2033,2044,2070-208E,20AC,2122,2190-2199,2206,2211,$\
	2212,221A,221E,2248,2260,2264,2265,25A0-25FF,2713,2717
.PHONY: vendor
vendor: $(STAMPS)/venv ## bundle the libraries and the font of the charts anew (npm)
	@mkdir -p build/vendor
	$(call quietly,vendor,$(BIN)/python -m pip install 'fonttools[woff]==4.68.0' && cd build/vendor && npm install $(VENDORED) && \
		echo 'export * from "@observablehq/plot";' >plot.js && \
		echo 'export { HTMLDocument } from "./node_modules/linkedom/esm/html/document.js";' >dom.js && \
		echo 'export class Parser {} export const parse = () => ({}); export default {};' >unused.js && \
		$(ESBUILD) --global-name=Plot --outfile=plot.min.js plot.js && \
		$(ESBUILD) --global-name=Dom --outfile=dom.min.js --alias:cssomnom/parse=./unused.js --alias:htmlparser2=./unused.js dom.js && \
		for weight in Regular SemiBold; do "$$OLDPWD/$(BIN)/pyftsubset" node_modules/inter-ui/web/Inter-$$weight.woff2 --flavor= \
			--unicodes=$(GLYPHS) --layout-features=kern --no-hinting --name-IDs=0$(comma)1$(comma)2$(comma)4$(comma)6$(comma)13$(comma)14$(comma)16$(comma)17 --output-file=Inter-$$weight.ttf; done)
	@cp build/vendor/*.min.js $(VENDOR) && cp build/vendor/Inter-*.ttf $(VENDOR)/fonts

.PHONY: clean
clean: ## delete everything that the other commands made
	@rm -rf $(VENV) target build loadstone._loadgen.data .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find python tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -f python/loadstone/_loadgen*.so
