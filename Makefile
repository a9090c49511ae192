# One word per chore; `make help` lists them. CMake and its presets do the work.
SHELL := /bin/bash
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
SEEDS ?= 1..200
SECONDS ?= 60
MINUTES ?= 10
SEED ?= 1
SOURCES = $(shell git ls-files -co --exclude-standard -- '*.cc' '*.h')

.DEFAULT_GOAL := help
.PHONY: help setup build demo test check sim mutations fuzz kill lab bench lint format clean install deb

help:  ## this list
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup:  ## install what building and testing needs (Debian 12)
	@tools/setup

build: setup  ## release build, in build/release
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target ubcache

demo: build  ## a cache in front of an image file, from format to write-back
	@tools/demo

test: setup  ## everything that must hold: lint, tests, sanitizers, simulator seeds
	@JOBS=$(JOBS) tools/test

check: setup lint  ## the quick part of test: lint, unit tests, a few seeds
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev -j $(JOBS)
	@ctest --test-dir build/dev -j $(JOBS) --output-on-failure --no-tests=error -LE system
	@build/dev/apps/ucsim/ucsim --seeds 1..20 --jobs $(JOBS)

sim: setup  ## simulator, both cores: make sim SEEDS=20000
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target ucsim
	@build/release/apps/ucsim/ucsim --seeds $(SEEDS) --jobs $(JOBS)

mutations: setup  ## deliberate faults: the first seed that notices each, up to SEEDS=2000
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target ucsim
	@build/release/apps/ucsim/ucsim --measure-mutations --jobs $(JOBS) \
	    --seeds $(if $(filter command line environment,$(origin SEEDS)),$(SEEDS),2000)

fuzz: setup  ## every fuzz target for a while: make fuzz SECONDS=600
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS) --target fuzz_targets fuzz_seeds
	@tools/fuzz $(SECONDS)

kill: build  ## the daemon under SIGKILL, with file systems on it: make kill MINUTES=60
	@tests/kill/run --minutes $(MINUTES)

lab: build  ## a stock kernel and ubcache take turns on the same sets: make lab MINUTES=60
	@status=0; tests/lab/run || status=1; \
	tests/lab/run --ping-pong --minutes $(MINUTES) --seed $(SEED) || status=1; exit $$status

bench: build  ## benchmarks, one after the other (about five minutes)
	@cmake --build --preset release -j $(JOBS) --target benchmarks
	@bench/run build/release

lint:  ## rules of the tree: format, layers, coroutine forms, sizes
	@tools/lint --self-test
	@tools/lint
	@clang-format --dry-run -Werror $(SOURCES)

format:  ## clang-format everything
	@clang-format -i $(SOURCES)

clean:  ## remove build/
	rm -rf build

# The boot parts go where systemd, udev and initramfs-tools look for them, which for a PREFIX other
# than /usr is below /etc and PREFIX/lib.
BINARY ?= build/release/apps/ubcache/ubcache
ROOT = $(DESTDIR)$(PREFIX)
SYSTEM = $(DESTDIR)$(if $(filter /usr,$(PREFIX)),/usr/lib,/etc)
INITRAMFS = $(DESTDIR)$(if $(filter /usr,$(PREFIX)),/usr/share,/etc)/initramfs-tools
# Units, rules and scripts name the program by its path.
PLACED = sed 's|/usr/bin/ubcache|$(PREFIX)/bin/ubcache|g'
define place
	install -D -m $(3) /dev/null $(2)
	$(PLACED) $(1) >$(2)
endef

install:  ## install into PREFIX (/usr/local), below DESTDIR if given
	install -D -m 755 $(BINARY) $(ROOT)/bin/ubcache
	install -d $(ROOT)/libexec/ubcache
	ln -sf ../../bin/ubcache $(ROOT)/libexec/ubcache/make-bcache
	ln -sf ../../bin/ubcache $(ROOT)/libexec/ubcache/bcache-super-show
	install -D -m 644 LICENSE $(ROOT)/share/doc/ubcache/LICENSE
	install -D -m 644 -t $(ROOT)/share/doc/ubcache README.md docs/operations.md
	install -D -m 644 -t $(ROOT)/share/doc/ubcache/examples $(filter-out examples/monitoring,$(wildcard examples/*))
	install -D -m 644 -t $(ROOT)/share/doc/ubcache/examples/monitoring examples/monitoring/*
	$(call place,packaging/systemd/ubcache@.service,$(SYSTEM)/systemd/system/ubcache@.service,644)
	$(call place,packaging/systemd/ubcache.shutdown,$(DESTDIR)/usr/lib/systemd/system-shutdown/ubcache.shutdown,755)
	for rule in 61-ubcache 68-ubcache-assemble; do \
	    install -D -m 644 /dev/null $(SYSTEM)/udev/rules.d/$$rule.rules; \
	    $(PLACED) packaging/udev/$$rule.rules >$(SYSTEM)/udev/rules.d/$$rule.rules; \
	done
	$(call place,packaging/initramfs/hook,$(INITRAMFS)/hooks/ubcache,755)
	$(call place,packaging/initramfs/local-block,$(INITRAMFS)/scripts/local-block/ubcache,755)
	install -D -m 644 packaging/completion/ubcache $(ROOT)/share/bash-completion/completions/ubcache
	if command -v scdoc >/dev/null; then \
	    for page in ubcache ubcache-boot; do \
	        install -D -m 644 /dev/null $(ROOT)/share/man/man8/$$page.8; \
	        scdoc <docs/man/$$page.8.scd >$(ROOT)/share/man/man8/$$page.8; \
	    done; \
	fi

deb: setup  ## Debian package, in build/deb
	@rm -f debian/debhelper-build-stamp  # of a build that may be older than the sources
	@DEB_RULES_REQUIRES_ROOT=no debian/rules binary
	@ls build/deb/*.deb
