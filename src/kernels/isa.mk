# A kernel file says in its name which instruction set it may use.  Renaming spares GCC 12 copies of
# sums in the loops of AVX-512; clang has no such flag.
AVX512 := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c \
          $(if $(findstring clang,$(CC)),,-frename-registers)
MACHINE := $(shell $(CC) -dumpmachine)
ifneq ($(filter x86_64-%,$(MACHINE)),)
$(B)/src/kernels/%_avx2.o:       ISA := -mavx2 -mfma -mf16c
$(B)/src/kernels/%_avx512.o:     ISA := $(AVX512)
$(B)/src/kernels/%_avx512vnni.o: ISA := $(AVX512) -mavx512vnni
$(B)/src/kernels/%_avx512bf16.o: ISA := $(AVX512) -mavx512bf16
else ifneq ($(filter aarch64-%,$(MACHINE)),)
$(B)/src/kernels/%_neondot.o:    ISA := -march=armv8.2-a+dotprod
endif
