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
.PHONY: help setup build demo test check sim fuzz kill lab bench lint format clean install

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

sim: setup  ## simulator: make sim SEEDS=1..1000
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target ucsim
	@build/release/apps/ucsim/ucsim --seeds $(SEEDS) --jobs $(JOBS)

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

install:  ## install into PREFIX (/usr/local), below DESTDIR if given
	install -D -m 755 build/release/apps/ubcache/ubcache $(DESTDIR)$(PREFIX)/bin/ubcache
	install -d $(DESTDIR)$(PREFIX)/libexec/ubcache
	ln -sf ../../bin/ubcache $(DESTDIR)$(PREFIX)/libexec/ubcache/make-bcache
	ln -sf ../../bin/ubcache $(DESTDIR)$(PREFIX)/libexec/ubcache/bcache-super-show
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/ubcache/LICENSE
	install -D -m 644 README.md $(DESTDIR)$(PREFIX)/share/doc/ubcache/README.md
