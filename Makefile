# seqd
#
#   make            build/release/seqd
#   make run        installs what is missing, builds, serves the bundled model, prints a curl line
#   make test       installs what tests need, builds, runs every test
#
# Variables: SAN=address,undefined or SAN=thread (a build beside the release), CC, CFLAGS, V=1,
# DESTDIR and PREFIX for install, LISTEN for run.

comma   := ,
VARIANT := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)
B       := build/$(VARIANT)
PREFIX  ?= /usr/local
LISTEN  ?= 127.0.0.1:8080
Q       := $(if $(V),,@)

VERSION := $(shell cat VERSION)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual \
        -Wvla -Wformat=2 -Wundef
OURS := -std=c17 -D_GNU_SOURCE -Iinclude -MMD -MP -pthread -fno-omit-frame-pointer -fno-math-errno \
        -ffp-contract=off $(WARN)
OURS += $(if $(SAN),-O1 -g -fsanitize=$(SAN) -fno-sanitize-recover=all,-O3 -g)
LIBS := -lmicrohttpd -ljansson -lopenblas -lyaml -lpcre2-8 -lutf8proc -lm
LINK := -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

LIB_SRC := $(filter-out src/app/main.c,$(wildcard src/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
UNIT    := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))

.PHONY: all run test unit clean install help deps test-deps FORCE
.SECONDARY:
all: $(B)/seqd

$(B)/seqd: $(B)/src/app/main.o $(B)/libseqd.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(LINK) $^ $(LIBS) -o $@

$(B)/libseqd.a: $(LIB_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

# A kernel file says in its name which instruction set it may use.
$(B)/src/kernels/%_avx2.o:   ISA := -mavx2 -mfma -mf16c
$(B)/src/kernels/%_avx512.o: ISA := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c

$(B)/src/app/version.o: DEFS := -DSEQD_VERSION='"$(VERSION)"' -DSEQD_COMMIT='"$(COMMIT)"'

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(OURS) $(ISA) $(DEFS) $(CFLAGS) -c $< -o $@

$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/libseqd.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(LINK) $^ $(LIBS) -lcmocka -o $@

# Rebuild everything when the command line changes, nothing when it does not.
$(B)/flags: FORCE
	@mkdir -p $(B)
	@echo '$(CC) $(OURS) $(CFLAGS) $(LINK)' | cmp -s - $@ || echo '$(CC) $(OURS) $(CFLAGS) $(LINK)' > $@

unit: $(UNIT)
	$(Q)for t in $(UNIT); do $$t || exit 1; done

clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
