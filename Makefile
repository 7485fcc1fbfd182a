# Two commands: `make study` answers the first question, `make test` passes every test. Both install what
# they need (Debian, root; `make study` goes on without). `make help` lists the rest.

CARGO ?= cargo
TRANCHE = target/release/tranche
# Arguments for the study: make study ARGS="--connections 4,8 --repeat 5"
ARGS ?=
# How long `make fuzz` spends on each target.
FUZZ_SECONDS ?= 300

# Where cargo puts what it builds.
TARGET_DIR = $(abspath $(or $(CARGO_TARGET_DIR),target))

.DEFAULT_GOAL := build
.PHONY: help setup rust page build deb image crates release plugin study test format lint check python bench campaign fidelity fuzz book recipes audit clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## Install what the studies and tests need (Debian, root)
	@scripts/setup-debian.sh

# Says in one line which Rust is needed. Cargo says it for each crate, without how to get it.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust:
	@have=$$(rustc --version 2>/dev/null | cut -d ' ' -f 2); \
	[ -n "$$have" ] || { echo "make: there is no Rust: install $(RUST) or newer (https://rustup.rs)" >&2; exit 1; }; \
	[ "$$(printf '%s\n' $(RUST) "$$have" | sort -V | head -1)" = $(RUST) ] || \
		{ echo "make: Rust $$have is too old: $(RUST) or newer is needed (rustup update, or https://rustup.rs)" >&2; exit 1; }

build: rust setup ## Build the release binary, target/release/tranche
	$(CARGO) build --release --locked -p tranche

page: ## The page of the live view, built from its source into crates/attach/ui/page/dist (needs Node and npm)
	@scripts/page.sh

deb: build ## A Debian package: out/tranche_VERSION_ARCHITECTURE.deb
	scripts/deb.sh out $(TRANCHE)

image: rust setup ## A container image from scratch, with a static program: out/tranche-VERSION-ARCHITECTURE.oci.tar
	scripts/static.sh
	scripts/image.sh out

crates: rust ## The crates as they are published, packed by cargo: out/crates/NAME-VERSION.crate
	scripts/crates.sh out/crates

# It publishes nothing. make release VERSION=0.2.0 ARGS=--dry-run only checks.
release: rust setup ## Everything of a release, with checksums: out/release (make release VERSION=N)
	scripts/release.sh $(ARGS) $(VERSION)

# Needs Debian's g++, librocksdb-dev and libssl-dev, which `make setup` installs.
plugin: rust ## The RocksDB plug-in and the library for write hints: target/plugins
	$(CARGO) build --release --locked -p store-c
	$(MAKE) -C plugins/rocksdb STORE=$(TARGET_DIR)/release/libtranche_store.a OUT=$(TARGET_DIR)/plugins
	$(MAKE) -C plugins/hints OUT=$(TARGET_DIR)/plugins

# Where it cannot run live the study says why and runs in virtual time, which needs nothing but the program.
study: rust ## The doublewrite buffer on NAND and on DRAM namespaces, live or in virtual time: out/doublewrite/report.html
	@scripts/setup-debian.sh || echo "make study: going on without" >&2
	$(CARGO) build --release --locked -p tranche
	$(TRANCHE) study doublewrite --force $(ARGS)

# Here clippy's driver compiles: lints, tests and the program take one compilation together.
test: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
test: export CLIPPY_ARGS = -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
test: rust setup format check book recipes ## Everything CI checks

format:
	$(CARGO) fmt --all --check

lint: format ## Formatting and lints, as errors
	$(CARGO) clippy --profile suite --workspace --all-targets --locked -- -D warnings

# Tests that depend on the boot, by the beginnings of their names. Where elsewhere.sh cannot give all tests another boot, these have one.
# The whole workspace is named, so that nothing is compiled again.
OF_THE_BOOT = image:: store:: machine:: record:: old_images:: power:: erase:: crash:: examine:: host_crash:: hostile_files:: marks:: scrub:: wrong_contents::

# Optimised: the model, the databases and the tests through FUSE move a lot of data.
check: setup ## All tests: of the crates, of the Python package, through FUSE and loop devices, with databases
	scripts/elsewhere.sh scripts/tests.py
	[ "$$(id -u)" -eq 0 ] || scripts/other-boot.sh $(CARGO) test --profile suite --locked --workspace --lib --test engine --test suite -- $(OF_THE_BOOT)

python: setup ## The tests of the Python package alone
	scripts/python.sh

bench: build ## Benchmarks with their peers, one after the other (half an hour)
	$(CARGO) bench --locked -p media --bench media
	$(CARGO) bench --locked -p ftl --bench throughput

campaign: build ## Long random campaigns: the model, kill -9 and power cuts under stamped blocks, file systems and databases
	TRANCHE_MODEL_ROUNDS=5000 $(CARGO) test --release --locked -p ftl --test suite model:: -- --nocapture
	$(CARGO) test --release --locked -p tranche --test crashes -- --rounds 50
	$(TRANCHE) study powercut --force --rounds 25 --variants nand,dram,atomic,off,myrocks-zones,postgres-fpw,postgres-atomic,postgres-torn

# make fidelity ARGS="--longest 120 theory" runs one data set, and what takes two minutes at most. ledger/README.md has the other options.
fidelity: build ## Our figures beside published ones: runs what is missing or stale, writes docs/fidelity.md
	$(CARGO) run --locked -p lab-fidelity -- --program $(TRANCHE) $(ARGS)

fuzz: ## Coverage-guided fuzzing, FUZZ_SECONDS for each target (needs a nightly toolchain)
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	for target in commands auth drive_toml drive fabric hosts image job_file act trace tier disk_state nbd pcie; do \
		mkdir -p fuzz/corpus/$$target; \
		$(CARGO) +nightly fuzz run --fuzz-dir fuzz $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096 || exit 1; \
	done

# Pinned, in a place of its own: nothing is installed on the machine.
MDBOOK_VERSION = 0.5.4
MDBOOK = target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook

$(MDBOOK):
	env -u RUSTC_WORKSPACE_WRAPPER $(CARGO) install --locked --debug --version $(MDBOOK_VERSION) --root $(@D)/.. --no-default-features --features search mdbook

# Tests make pages: the program `book` those of all commands and of their JSON, and the schemas; tests of the controller the page of refusals.
book: $(MDBOOK) ## The documentation site, with its links checked: target/book/index.html
	TRANCHE_REFERENCE=$(abspath docs) $(CARGO) test --profile suite --locked --workspace --test book
	TRANCHE_REFERENCE=$(abspath docs) $(CARGO) test --profile suite --locked --workspace --test suite -- --quiet refuse
	scripts/book.py $(MDBOOK)

recipes: setup ## The GitHub Action and the recipes of docs/howto/ci.md, against the schemas of GitHub and GitLab
	scripts/recipes.sh

# Not in `make test`: the database of advisories is fetched each time, and a new advisory is no change of ours.
audit: ## Licences, sources and known advisories of dependencies, against deny.toml (fetches RustSec's database)
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources
	@$(CARGO) deny fetch db || \
		{ echo "make audit: RustSec's database cannot be fetched (the lines above say why): NO advisory was checked" >&2; exit 1; }
	$(CARGO) deny check --disable-fetch advisories

clean: ## Remove what was built and measured
	$(CARGO) clean
	rm -rf out
