# seqd
#
# Variables: SAN=address,undefined or SAN=thread (a build beside the release), CC, CFLAGS, LDFLAGS,
# V=1, JOBS, DESTDIR and PREFIX for install, LISTEN for run, PYTHON for test-import, -real, -parity

JOBS      ?= $(shell nproc 2>/dev/null || echo 1)
MAKEFLAGS += -j$(JOBS)
comma   := ,
VARIANT := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)
B       := build/$(VARIANT)
PREFIX  ?= /usr/local
LISTEN  ?= 127.0.0.1:8080
Q       := $(if $(V),,@)
VERSION := $(shell cat VERSION)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wcast-qual -Wvla -Wformat=2 -Wundef
OURS  = -std=c17 -D_GNU_SOURCE -Iinclude -MMD -MP -pthread -fno-omit-frame-pointer -fno-math-errno \
        -ffp-contract=off $(WARN)
OURS += $(if $(SAN),-O1 -g -fsanitize=$(SAN) -fno-sanitize-recover=all,-O3 -g)
LIBS := -lmicrohttpd -lgnutls -ljansson -lyaml -lpcre2-8 -lutf8proc -lxxhash -lm
LINK := -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

LIB_SRC := $(filter-out src/app/main.c,$(wildcard src/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
UNIT    := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
KIT     := $(B)/tests/kit/kit_runner
KIT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/kit/*.c))
TESTS   := test test-unit test-kit test-http
# What must be installed before anything is compiled: nothing, unless a goal says so.
NEEDED  := $(if $(filter $(TESTS),$(MAKECMDGOALS)),test-deps) \
           $(if $(filter run,$(MAKECMDGOALS)),deps)

.PHONY: all run lint test-real clean install uninstall help deps test-deps
.PHONY: FORCE test-emulated test-import test-parity parity-table fuzz $(TESTS)
.SECONDARY:

all: $(B)/seqd ## build build/release/seqd (the default)
run: $(B)/seqd ## install what is missing, build, serve the bundled model, print a curl line to try
	@tools/serve.sh $(B)/seqd models/g2p $(LISTEN)

test: $(B)/seqd $(UNIT) $(KIT) ## install what tests need, build, run every test (also with SAN=)
	@tests/run.sh $(B)
test-unit: $(UNIT) ## only tests/unit
test-kit: $(B)/seqd $(KIT) ## only tests/kit: models with known answers
test-http: $(B)/seqd ## only tests/http
lint: ## only tests/lint
test-unit test-kit test-http lint:
	@tests/run.sh $(B) $(@:test-%=%)

fuzz: ## run the fuzzers of tests/fuzz, FUZZ_SECONDS (60) each, with clang (not part of `test`)
	@tests/fuzz/run.sh
test-emulated: $(B)/seqd ## kernels on emulated CPUs, where Bochs and qemu are (not part of `test`)
	@tests/emulated/run.sh $(B)
test-import: $(B)/seqd ## only tests/import: tutorials' checkpoints, where PYTHON has PyTorch
	@SEQD=$(abspath $(B))/seqd $(or $(PYTHON),python3) tests/import/run.py
test-real: $(B)/seqd ## only tests/real: against sentence-transformers, where PYTHON has it
	@for test in tests/real/*.py; do $(or $(PYTHON),python3) $$test $< || exit 1; done
test-parity: $(B)/seqd ## new models against Transformers, where PYTHON has it; FAMILIES, COMBOS
	@$(or $(PYTHON),python3) tests/parity/run.py --seqd $<
parity-table: test-parity ## the same, and docs/parity.md from it
	@$(or $(PYTHON),python3) tools/parity_table.py build/parity/results docs/parity.md
deps: ## install the packages that building and running need (Debian, Ubuntu)
	@tools/deps.sh run
test-deps: ## install also what the tests need
	@tools/deps.sh test
install: $(B)/seqd ## put seqd under DESTDIR and PREFIX
	install -D -m 755 $< $(DESTDIR)$(PREFIX)/bin/seqd
uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/seqd
clean: ## remove build/
	rm -rf build
help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(filter %.mk Makefile,$(MAKEFILE_LIST)) |\
	    expand -t 20
	@sed -n '3,4s/^# //p' Makefile

$(B)/seqd: $(B)/src/app/main.o $(B)/libseqd.a
$(UNIT): $(B)/%: $(B)/%.o $(B)/libseqd.a
$(KIT): $(KIT_OBJ)
$(UNIT): LIBS += -lcmocka
$(KIT): LIBS := -lcurl -ljansson -lm
$(B)/seqd $(UNIT) $(KIT):
	@echo "  LINK  $@"
	$(Q)$(CC) $(LINK) $^ $(LIBS) -o $@

$(B)/libseqd.a: $(LIB_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

include src/kernels/isa.mk src/hardening.mk $(wildcard bench/*.mk tests/*/*.mk)

$(B)/src/app/version.o: DEFS := -DSEQD_VERSION='"$(VERSION)"' -DSEQD_COMMIT='"$(COMMIT)"'
$(B)/src/app/version.o: $(B)/version

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(OURS) $(ISA) $(DEFS) $(CFLAGS) -c $< -o $@

# Written only when they change, so that what depends on them is built anew then and not else.
$(B)/flags:   NOW = $(CC) $(OURS) $(CFLAGS) $(LINK)
$(B)/version: NOW = $(VERSION) $(COMMIT)
$(B)/flags $(B)/version: FORCE | $(NEEDED)
	@mkdir -p $(B)
	@echo '$(NOW)' | cmp -s - $@ || echo '$(NOW)' >$@

-include $(shell find $(B) -name '*.d' 2>/dev/null)
