# The tests on every kernel set of the machine, no part of `test`, which runs them on the best.

.PHONY: test-isa
test-isa: $(B)/seqd $(UNIT) $(KIT) ## unit, kit and what of http kernels reach, on each kernel set; ISAS, KINDS
	@tests/isa/run.sh $(B) '$(ISAS)' '$(KINDS)'
