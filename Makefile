# OpenNRT: every command a user or CI runs. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PREFIX ?= /opt/opennrt
DESTDIR ?=
INSTANCE ?= trn2.48xlarge

VENDOR_VERSION := 2.31.24.0
SONAME := libnrt.so.1
REALNAME := libnrt.so.$(VENDOR_VERSION)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
TOOLS := $(TARGET)/tools
GLIBC := 2.28
TRIPLE := x86_64-unknown-linux-gnu
PACKAGED := $(TARGET)/$(TRIPLE)/release
export PATH := $(TOOLS)/bin:$(PATH)

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## Check the platform and fetch what a fresh Debian lacks
	@scripts/setup.sh

# ---- build and run -------------------------------------------------------------------------

.PHONY: build
build: setup ## Build the library and the programs (debug)
	cargo build --workspace
	@$(MAKE) -s linkchain DIR=$(TARGET)/debug

# The link chain as installed, so that -lnrt and the loader find the fresh build in place.
.PHONY: linkchain
linkchain:
	@ln -sf libnrt.so $(DIR)/$(SONAME)

.PHONY: run
run: build ## Compile examples/hello_nrt.c with gcc and run it on simulated instances
	gcc -std=c11 -Wall -Wextra -I include examples/hello_nrt.c -L $(TARGET)/debug -lnrt -o $(TARGET)/debug/hello_nrt
	@run() { echo; echo "== $$*"; env "$$@" LD_LIBRARY_PATH=$(TARGET)/debug $(TARGET)/debug/hello_nrt; }; \
	run NEURON_RT_FAKE_INSTANCE_TYPE=$(INSTANCE); \
	run NEURON_RT_FAKE_INSTANCE_TYPE=$(INSTANCE) NEURON_LOGICAL_NC_CONFIG=1; \
	run NEURON_RT_FAKE_INSTANCE_TYPE=trn1.32xlarge

# ---- checks --------------------------------------------------------------------------------

.PHONY: test
test: test-package test-fuzz check ## Everything: packages, fuzz smoke, then code, C and Python programs

.PHONY: check
check: setup ## All tests but packages and fuzzing
	cargo test --workspace --no-fail-fast
	@# The reset engine on the primitives of the schedule explorer: another build of the same crate.
	cargo test -p neuron-kmd --features shuttle --test shuttle
	@# The same for the queues of the asynchronous calls.
	cargo test -p nrt-core --features shuttle --test shuttle

.PHONY: lint
lint: ## Format, clippy with warnings denied, documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

.PHONY: abi
abi: ## Regenerate headers, symbols.map and docs/coverage.md from abi/
	cargo run -q -p nrt-tools --bin nrt-abi -- generate

.PHONY: abi-check
abi-check: ## Fail when the generated files are not what abi/ says
	cargo run -q -p nrt-tools --bin nrt-abi -- generate --check

BENCHES := -p nrt -p neuron-kmd --bench speed --bench memory --bench reset

.PHONY: bench
bench: setup ## Measure; ratios against baselines of the same run go to target/bench/ratios.json, a limit exceeded is an error
	cargo build --release -p nrt
	@rm -f $(TARGET)/bench/ratios.json
	cargo bench $(BENCHES) --no-fail-fast

.PHONY: bench-build
bench-build: ## Build what bench runs, without the optimised unit tests a bench of the workspace would build too
	cargo bench $(BENCHES) --no-run

.PHONY: test-fuzz
test-fuzz: setup ## Each fuzz target for FUZZ_SECONDS (10) under AddressSanitizer
	@scripts/fuzz-smoke.sh $(or $(FUZZ_SECONDS),10)

.PHONY: test-sanitizers
test-sanitizers: setup ## C programs under AddressSanitizer, valgrind and ThreadSanitizer; part of check
	cargo test -p nrt --test sanitizers -- --nocapture

.PHONY: vm-test
vm-test: ## On the real driver in a guest: KERNEL=bzImage NEURON_KO=neuron.ko QEMU=program, see docs/vm.md; not part of test
	@scripts/vm-test.sh

# ---- install and package -------------------------------------------------------------------

.PHONY: release
release: setup ## Release build that runs on glibc $(GLIBC) and later
	@scripts/zigbuild.sh $(TRIPLE).$(GLIBC)

.PHONY: install
install: ## Install under DESTDIR/PREFIX (run `make release` first, or it is done here)
	@test -f $(PACKAGED)/libnrt.so || $(MAKE) release
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include/nrt $(DESTDIR)$(PREFIX)/bin \
		$(DESTDIR)$(PREFIX)/share/opennrt/python
	install -m 755 $(PACKAGED)/libnrt.so $(DESTDIR)$(PREFIX)/lib/$(REALNAME)
	ln -sf $(REALNAME) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libnrt.so
	install -m 644 include/nrt/*.h $(DESTDIR)$(PREFIX)/include/nrt
	install -m 755 $(PACKAGED)/nrt-info $(PACKAGED)/nrt-abi $(PACKAGED)/neuron-emu $(DESTDIR)$(PREFIX)/bin
	install -m 644 python/opennrt_testing.py $(DESTDIR)$(PREFIX)/share/opennrt/python
	sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VENDOR_VERSION)|g' packaging/nrt.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/nrt.pc
	@echo 'Programs find the library with: export LD_LIBRARY_PATH=$(PREFIX)/lib$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH}'

.PHONY: package
package: release ## A tarball and a .deb in target/package
	@scripts/package.sh $(VERSION)

.PHONY: test-package
test-package: package ## Check what the packages hold and that they run
	@scripts/test-package.sh $(VERSION)

.PHONY: clean
clean: ## Remove everything built
	cargo clean
