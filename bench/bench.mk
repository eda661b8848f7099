# Benchmarks, which are no part of `test`.  BENCH_FLAGS go to the script, whose --help lists them; AS
# names the file of results.

BENCH := build/bench

.PHONY: bench bench-kernels bench-limits bench-models bench-peers bench-serve bench-tables
bench: $(B)/seqd ## the engine alone on MODEL (models/g2p), JSON lines
	@$< bench --model $(or $(MODEL),models/g2p) --log.level error $(BENCH_FLAGS)
bench-kernels: $(B)/bench/kernels ## the products alone, of the kernel set ISA (the best), JSON lines
	@$< $(ISA)
bench-limits: $(B)/bench/limits ## what this machine can do at most, by THREADS (1), a JSON line
	@$< $(THREADS)
bench-models: ## random models and the peers' forms of them (3 GB), where PYTHON has the peers
	@$(or $(PYTHON),python3) bench/models.py $(BENCH)/models $(NAMES)
bench-peers: $(B)/seqd $(B)/bench/limits ## engines side by side, JSON lines in build/bench
	@$(or $(PYTHON),python3) bench/peers.py --seqd $< --models $(BENCH)/models \
	    --out $(BENCH)/$(or $(AS),peers).jsonl $(BENCH_FLAGS)
bench-serve: $(B)/seqd ## servers side by side, JSON lines in build/bench
	@$(or $(PYTHON),python3) bench/serve.py --seqd $< --models $(BENCH)/models \
	    --out $(BENCH)/$(or $(AS),serve).jsonl $(BENCH_FLAGS)
bench-tables: ## the results as tables in docs/performance.md
	@$(or $(PYTHON),python3) bench/tables.py $(wildcard $(BENCH)/*.jsonl) \
	    --into docs/performance.md

$(B)/bench/%: $(B)/bench/%.o $(B)/libseqd.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(LINK) $^ $(LIBS) -o $@
