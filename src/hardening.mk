# What makes a fault harder to exploit, in every release program (tests/http/hardening.bats looks).
# Sanitizers replace the checks, and fortified functions would hide calls from them.
ifeq ($(SAN),)
OURS += -fPIE -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
OURS += $(call on,x86_64,-fcf-protection)
LINK += -pie -Wl,-z,relro,-z,now,-z,noexecstack
endif
