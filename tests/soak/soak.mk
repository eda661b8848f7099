# A long run of mixed load, which is no part of `test`.

SOAK     := $(B)/tests/soak/soak
SOAK_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/soak/*.c)) $(B)/tests/kit/kit_daemon.o

.PHONY: soak
soak: $(B)/seqd $(SOAK) ## mixed load for HOURS (1, fractions too), then floods; a report, and its exit code
	@$(SOAK) $< $(or $(HOURS),1) $(B)/tests/soak

$(SOAK): LIBS := -ljansson
$(SOAK): $(SOAK_OBJ)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LINK) $^ $(LIBS) -o $@
