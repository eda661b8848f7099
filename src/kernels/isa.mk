# A kernel file says in its name which instruction set it may use.  Renaming spares GCC 12 copies of
# sums in the loops of AVX-512; clang has no such flag.
AVX512 := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c \
          $(if $(findstring clang,$(CC)),,-frename-registers)
# Asked when a file is compiled: when make starts, it may be yet to install the compiler.
MACHINE = $(shell $(CC) -dumpmachine)
on      = $(if $(filter $1-%,$(MACHINE)),$2)
$(B)/src/kernels/%_avx2.o:       ISA = $(call on,x86_64,-mavx2 -mfma -mf16c)
$(B)/src/kernels/%_avx512.o:     ISA = $(call on,x86_64,$(AVX512))
$(B)/src/kernels/%_avx512vnni.o: ISA = $(call on,x86_64,$(AVX512) -mavx512vnni)
$(B)/src/kernels/%_avx512bf16.o: ISA = $(call on,x86_64,$(AVX512) -mavx512bf16)
$(B)/src/kernels/%_neondot.o:    ISA = $(call on,aarch64,-march=armv8.2-a+dotprod)
