# SPDX-License-Identifier: Apache-2.0
# make, make run, make check, make test, make bench, make lint, make fuzz, make soak, make test-vm: the whole interface.
#
# Everything is built into build/VARIANT/. The variants differ only in compiler and flags:
#   release  what is installed and measured        asan   ASan + UBSan + leak check, what the tests run
#   musl     static-pie, no libraries: execd's     clang  the second compiler's opinion
#   fuzz     clang with libFuzzer, ASan and UBSan
#   aarch64, aarch64-musl  release and musl for 64-bit Arm: a cross compiler, with Debian's libraries from tools/sysroot

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:

V ?= release
B := build/$(V)
PYTHON ?= /usr/bin/python3
FUZZ_SECONDS ?= 60

# ---- flags -------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wformat=2 -Wno-format-truncation -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wcast-qual -Wconversion -Wno-sign-conversion \
	-Wimplicit-fallthrough -Wswitch-enum -Werror
BASE_FLAGS := -std=gnu17 -D_GNU_SOURCE -iquote src -g -fno-common -fvisibility=hidden $(WARNINGS)
# The architecture that programs are built for: this machine's, unless the variant is named after another one (TARGET).
TARGET := $(filter aarch64,$(subst -, ,$(V)))
ARCH := $(or $(TARGET),$(shell uname -m))
CROSS := $(TARGET:%=%-linux-gnu-)
SYSROOT :=
ifneq ($(TARGET),)
SYSROOT := $(shell tools/sysroot)
ifeq ($(SYSROOT),)
$(error V=$(V) needs Debian's libraries for $(TARGET))
endif
endif
BRANCHES := $(if $(filter x86_64,$(ARCH)),-fcf-protection,-mbranch-protection=standard)
HARDENING := -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection $(BRANCHES) -fPIE
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

CC_release := gcc
CFLAGS_release := -O2 $(HARDENING) -ftrivial-auto-var-init=zero
LDFLAGS_release := -pie -Wl,-z,relro,-z,now,-z,noexecstack
CC_asan := gcc
# Tests let programs die at places that no other build has (base/kill_point.h).
CFLAGS_asan := -O1 $(SANITIZE) -DKILL_POINTS
LDFLAGS_asan := $(SANITIZE)
CC_clang := clang
CFLAGS_clang := -Wno-unknown-warning-option -O2 $(HARDENING)
LDFLAGS_clang := -pie
CC_fuzz := clang
CFLAGS_fuzz := -Wno-unknown-warning-option -O1 $(SANITIZE) -fsanitize=fuzzer-no-link
LDFLAGS_fuzz := $(SANITIZE) -fsanitize=fuzzer
# musl-gcc sees no kernel headers, and its own -static-pie leaves a PT_INTERP: both are done by hand here. The marks for branches
# of x86 would mean nothing: musl's own objects have none, and one without is enough for the whole program.
CC_musl := musl-gcc
CFLAGS_musl := -Oz -fno-shrink-wrap $(filter-out -D_FORTIFY_SOURCE=3 -fcf-protection,$(HARDENING)) -ftrivial-auto-var-init=zero -isystem $(B)/include \
	-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables
CC_aarch64 := $(CROSS)gcc --sysroot=$(SYSROOT)
CFLAGS_aarch64 := $(CFLAGS_release)
LDFLAGS_aarch64 := $(LDFLAGS_release)
# musl-gcc exists for the machine's own architecture only. Its headers come first, then the compiler's, as there.
CC_aarch64-musl = $(CROSS)gcc -nostdinc -isystem $(SYSROOT)/usr/include/$(ARCH)-linux-musl -isystem $(shell $(CROSS)gcc -print-file-name=include)
CFLAGS_aarch64-musl := $(CFLAGS_musl)

comma := ,
# One short line per step; VERBOSE=1 shows the commands.
Q := $(if $(VERBOSE),,@)
say = $(if $(VERBOSE),,@printf '  %-5s %s\n' $(1) $@)

CC := $(CC_$(V))
CFLAGS = $(BASE_FLAGS) $(CFLAGS_$(V)) $(EXTRA_CFLAGS)
LDFLAGS = $(LDFLAGS_$(V))

# ---- what there is -----------------------------------------------------------------------------------------

FOLDERS := base sys net access image box execd unpack fetch warden egress ingress server client mcp cli
sources = $(filter-out %_test.c %/main.c,$(sort $(wildcard src/$(1)/*.c src/$(1)/*/*.c)))
objects = $(patsubst src/%.c,$(B)/obj/%.o,$(1))

PROGRAMS := opensandbox-server opensandbox-warden opensandbox-unpack opensandbox-fetch execd \
	$(patsubst src/%/main.c,opensandbox-%,$(wildcard src/egress/main.c src/ingress/main.c)) \
	$(if $(wildcard src/cli/main.c),osb)
UNIT_TESTS := $(patsubst src/%.c,$(B)/unit/%,$(sort $(wildcard src/*/*_test.c src/*/*/*_test.c)))
FAULT_TESTS := $(patsubst tests/faults/%.c,$(B)/unit/faults/%,$(sort $(wildcard tests/faults/*_test.c)))
HARNESSES := $(patsubst fuzz/%.c,$(B)/fuzz/%,$(filter-out fuzz/replay.c,$(sort $(wildcard fuzz/*.c))))
CLIENT_TESTS := $(patsubst tests/client/%.c,$(B)/client/%,$(sort $(wildcard tests/client/*.c)))
EXAMPLES := $(patsubst examples/c/%.c,$(B)/examples/%,$(sort $(wildcard examples/c/*.c)))
BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(sort $(wildcard bench/*.c)))
LIBS := $(foreach f,$(FOLDERS),$(B)/lib$(f).a)
# From the top down: a folder's archive comes before the ones that it stands on.
LINK_LIBS := $(foreach f,cli mcp client server warden egress ingress unpack fetch execd box image access net sys base,$(B)/lib$(f).a)
# Only what a program uses: libarchive is the unpacker's and the fetcher's alone, libcurl the latter's.
HOST_LIBS := -Wl,--as-needed -lssl -lcrypto -lsqlite3 -larchive -lcurl

# ---- the interface -----------------------------------------------------------------------------------------

.PHONY: all programs library examples install units harnesses benches musl check-clang run check test bench lint fuzz soak test-vm clean deps-build \
	deps-test deps-bench deps-lint print-cflags help FORCE
all: programs library

help:
	@echo 'make             build into build/bin/'
	@echo 'make install     copy programs, manual, units of systemd, library, header and pkg-config file to DESTDIR/PREFIX (/usr/local)'
	@echo 'make run         build and start the server on 127.0.0.1:8080'
	@echo 'make check       while one works: builds what has changed, runs unit tests and a test per feature'
	@echo 'make test        every test; closes with "N passed, N failed, N skipped"'
	@echo 'make bench       every benchmark (make bench-NAME: one), one JSON object per line'
	@echo 'make lint        static analysers, scripts and documents'
	@echo 'make fuzz        every fuzz target for FUZZ_SECONDS (60) each'
	@echo 'make soak        the long forms of the load and fault tests'
	@echo 'make test-vm     every feature in stock Debian machines, emulated; VM="bookworm trixie"'
	@echo 'make clean       remove build/'

# A static pattern: make looks for no implicit rule of a phony target.
deps-build deps-test deps-bench deps-lint: deps-%:
	@tools/deps $*

run: deps-build
	@$(MAKE) --no-print-directory programs
	@tools/run

check test: deps-test
	@tools/check $@

soak: deps-test
	@tools/check soak

test-vm: deps-test
	@tools/check vm

bench: deps-bench
	@tools/bench

bench-%: deps-bench
	@tools/bench $*

lint: deps-lint
	@tools/lint

fuzz: deps-lint
	@$(MAKE) --no-print-directory V=fuzz harnesses
	@tools/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build

print-cflags:
	@echo '$(CFLAGS)'

# ---- rules -------------------------------------------------------------------------------------------------

programs: $(PROGRAMS:%=$(B)/bin/%)
ifeq ($(V),release)
programs: $(PROGRAMS:%=build/bin/%)
$(filter-out build/bin/execd,$(PROGRAMS:%=build/bin/%)): build/bin/%: $(B)/bin/%
	@mkdir -p $(@D)
	@ln -f $< $@
# osb has a second name, and a page of the manual for each of its commands.
programs: $(if $(filter osb,$(PROGRAMS)),build/bin/opensandbox build/man/osb.1)
build/bin/opensandbox: build/bin/osb
	@ln -sfn osb $@
build/man/osb.1: build/bin/osb
	$(call say,MAN)
	@rm -rf $(@D)
	$(Q)build/bin/osb man --all $(@D)
# What is installed as execd is the static one; the others are for tests.
build/bin/execd: FORCE
	@$(MAKE) --no-print-directory V=musl build/musl/bin/execd
	@mkdir -p $(@D)
	@ln -f build/musl/bin/execd $@
endif
units: $(UNIT_TESTS) $(FAULT_TESTS) $(CLIENT_TESTS) $(EXAMPLES) $(B)/bin/peer-server
harnesses: $(HARNESSES)
benches: $(BENCHES)
# What clang has to say, without code for the processor: a mark per source that is clean.
CLANG_CHECKED := $(patsubst src/%.c,$(B)/checked/%,$(foreach f,$(FOLDERS),$(call sources,$(f))) $(wildcard src/*/main.c src/*/*_test.c src/*/*/*_test.c))
check-clang: $(CLANG_CHECKED)

# What things were made with and from, as files that are rewritten only when that changes. Objects depend on the
# flags (and the Makefile), what is put together from several files on their list: a changed flag and a removed
# source lead to a build just as a changed source does.
define record
$(B)/made/$(1): export RECORD = $(2)
$(B)/made/$(1): FORCE
	@mkdir -p $$(@D)
	@printf '%s\n' "$$$$RECORD" | cmp -s - $$@ || printf '%s\n' "$$$$RECORD" >$$@
endef
FORCE:
FLAGS := $(B)/made/flags
$(eval $(call record,flags,$$(CC) $$(CFLAGS) $$(LDFLAGS) $$(shell sha256sum Makefile)))

$(B)/obj/%.o: src/%.c $(FLAGS)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/checked/%: src/%.c $(FLAGS)
	$(call say,CHECK)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -fsyntax-only -MMD -MP -MT $@ -MF $@.d $<
	@touch $@

$(B)/obj/top/%.o: %.c $(FLAGS)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

generated_execd := gen/code_texts.o
generated_cli := gen/skills.o
define archive
$(call record,lib$(1),$(call sources,$(1)))
$(B)/lib$(1).a: $(call objects,$(call sources,$(1))) $(generated_$(1):%=$(B)/%) $(B)/made/lib$(1)
	$$(call say,AR)
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)$(CROSS)ar rcs $$@ $$(filter %.o,$$^)
endef
$(foreach f,$(FOLDERS),$(eval $(call archive,$(f))))

# The documents that the server carries, as bytes in its read-only data.
$(B)/gen/%.o: $(B)/gen/%.c $(FLAGS)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

ASSETS := $(sort $(wildcard specs/*.yml src/server/assets/*))
$(eval $(call record,assets,$(ASSETS)))
$(B)/gen/assets.c: tools/embed $(ASSETS) $(B)/made/assets
	$(call say,EMBED)
	@mkdir -p $(@D)
	$(Q)tools/embed $@ specs src/server/assets

# The programs that run code in contexts, as bytes of execd's.
CODE_DRIVERS := $(sort $(wildcard src/execd/drivers/*))
$(B)/gen/code_texts.c: tools/embed-drivers $(CODE_DRIVERS)
	$(call say,EMBED)
	@mkdir -p $(@D)
	$(Q)tools/embed-drivers $@ src/execd/drivers

# The guides that osb installs for coding assistants.
SKILLS := $(sort $(wildcard skills/*.md))
$(eval $(call record,skills,$(SKILLS)))
$(B)/gen/skills.c: tools/embed-skills $(SKILLS) $(B)/made/skills
	$(call say,EMBED)
	@mkdir -p $(@D)
	$(Q)tools/embed-skills $@ skills

ifeq ($(filter %musl,$(V)),)
$(B)/bin/opensandbox-server: $(B)/obj/server/main.o $(B)/gen/assets.o
$(B)/bin/opensandbox-warden: $(B)/obj/warden/main.o
$(B)/bin/opensandbox-unpack: $(B)/obj/unpack/main.o
$(B)/bin/opensandbox-fetch: $(B)/obj/fetch/main.o
$(B)/bin/opensandbox-egress: $(B)/obj/egress/main.o
$(B)/bin/opensandbox-ingress: $(B)/obj/ingress/main.o
$(B)/bin/osb: $(B)/obj/cli/main.o
$(B)/bin/execd: $(B)/obj/execd/main.o
$(PROGRAMS:%=$(B)/bin/%): $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LINK_LIBS) $(HOST_LIBS)
endif

# Unit tests for another architecture run under qemu-user, and report what it does not emulate. They find their libraries by
# themselves: with a prefix for them (qemu-user -L), "/" would be the prefix, and tests would write there.
ifneq ($(TARGET),)
EMULATED := $(B)/obj/top/tests/lib/emulated.o
EMULATED_FLAGS := -Wl,--wrap=_cmocka_run_group_tests,--wrap=syscall,--wrap=prctl,--wrap=execve,--wrap=socket,--wrap=setsockopt \
	-Wl,--dynamic-linker=$(SYSROOT)/lib/ld-linux-$(ARCH).so.1,--disable-new-dtags \
	-Wl,-rpath,$(SYSROOT)/lib/$(ARCH)-linux-gnu,-rpath,$(SYSROOT)/usr/lib/$(ARCH)-linux-gnu
endif

$(B)/unit/%_test: $(B)/obj/%_test.o $(EMULATED) $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(EMULATED_FLAGS) -o $@ $^ -lcmocka $(HOST_LIBS)

$(B)/bin/peer-server: $(B)/obj/top/tests/peers/peer_server.o $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(HOST_LIBS)

# Programs that use the library as its users do, for black-box tests.
$(B)/client/%: $(B)/obj/top/tests/client/%.o $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(HOST_LIBS)

examples: $(EXAMPLES)
$(B)/examples/%: examples/c/%.c $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -I src/client -o $@ $< $(LINK_LIBS) $(HOST_LIBS)

# Allocation failures are injected by wrapping the allocator at link time.
$(B)/unit/faults/%_test: $(B)/obj/top/tests/faults/%_test.o $(EMULATED) $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(EMULATED_FLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray -o $@ $^ -lcmocka $(HOST_LIBS)

ifeq ($(V),fuzz)
$(B)/fuzz/%: $(B)/obj/top/fuzz/%.o $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(HOST_LIBS)
else
$(B)/fuzz/%: $(B)/obj/top/fuzz/%.o $(B)/obj/top/fuzz/replay.o $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(HOST_LIBS)
endif

# ---- the library -------------------------------------------------------------------------------------------

# Objects that can stand anywhere, apart from those of the programs; of the lower folders the linker takes what is needed.
# The shared one stays once it is loaded: a thread that looks up a name may still run. The static one is a single
# object in which everything but the interface is local: its names are nobody else's business.
PREFIX ?= /usr/local
DESTDIR ?=
LIB_SONAME := libopensandbox.so.0
LIB_VERSION := $(shell sed -n 's/.*OPENSANDBOX_VERSION "\(.*\)"/\1/p' src/base/version.h)
LIB_FILES := $(LIB_SONAME) libopensandbox.a
PIC_FLAGS = $(filter-out -fPIE,$(CFLAGS)) -fPIC
pic = $(patsubst src/%.c,$(B)/pic/%.o,$(call sources,$(1)))

$(B)/pic/%.o: src/%.c $(FLAGS)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(PIC_FLAGS) -MMD -MP -c -o $@ $<

$(B)/lib/below.a: $(call pic,net) $(call pic,sys) $(call pic,base)
	$(call say,AR)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(CROSS)ar rcs $@ $^

$(eval $(call record,library,$(call sources,client)))
$(B)/lib/$(LIB_SONAME): $(call pic,client) $(B)/lib/below.a src/client/opensandbox.map $(B)/made/library
	$(call say,LD)
	$(Q)$(CC) $(PIC_FLAGS) -shared -Wl,-soname,$(LIB_SONAME),--version-script=src/client/opensandbox.map \
		-Wl,-z,relro,-z,now,-z,noexecstack,-z,nodelete $(if $(filter release clang aarch64,$(V)),-Wl$(comma)-z$(comma)defs) -o $@ $(filter %.o,$^) \
		$(B)/lib/below.a -Wl,--as-needed -lssl -lcrypto

$(B)/lib/libopensandbox.a: $(call pic,client) $(B)/lib/below.a $(B)/made/library
	$(call say,AR)
	@rm -f $@
	$(Q)$(CROSS)ld -r -o $(B)/lib/opensandbox.o $(filter %.o,$^) $(B)/lib/below.a
	$(Q)$(CROSS)objcopy --localize-hidden $(B)/lib/opensandbox.o
	$(Q)$(CROSS)ar rcs $@ $(B)/lib/opensandbox.o

library: $(LIB_FILES:%=$(B)/lib/%)
ifeq ($(V),release)
library: $(LIB_FILES:%=build/lib/%) build/lib/libopensandbox.so
$(LIB_FILES:%=build/lib/%): build/lib/%: $(B)/lib/%
	@mkdir -p $(@D)
	@ln -f $< $@
build/lib/libopensandbox.so: build/lib/$(LIB_SONAME)
	@ln -sfn $(LIB_SONAME) $@
endif

# Where it is installed is known only then.
define PKG_CONFIG_FILE
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: opensandbox
Description: The C library of OpenSandbox, a sandbox platform for AI agents
Version: $(LIB_VERSION)
Libs: -L$${libdir} -lopensandbox
Libs.private: -lssl -lcrypto -pthread
Cflags: -I$${includedir}
endef
export PKG_CONFIG_FILE

UNITS := opensandbox.service opensandbox-boxes.service
COMPLETIONS := bash-completion/completions zsh/site-functions fish/vendor_completions.d
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(PROGRAMS:%=build/bin/%) $(DESTDIR)$(PREFIX)/bin
	install -m 644 build/lib/$(LIB_SONAME) build/lib/libopensandbox.a $(DESTDIR)$(PREFIX)/lib
	ln -sfn $(LIB_SONAME) $(DESTDIR)$(PREFIX)/lib/libopensandbox.so
	install -m 644 src/client/opensandbox.h $(DESTDIR)$(PREFIX)/include
	printf '%s\n' "$$PKG_CONFIG_FILE" >$(DESTDIR)$(PREFIX)/lib/pkgconfig/opensandbox.pc
	ln -sfn osb $(DESTDIR)$(PREFIX)/bin/opensandbox
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(COMPLETIONS:%=$(DESTDIR)$(PREFIX)/share/%)
	install -m 644 build/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in $(UNITS); do \
	    sed 's|@PREFIX@|$(PREFIX)|' deploy/systemd/$$unit.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit 1; done
	build/bin/osb completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/osb
	build/bin/osb completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_osb
	build/bin/osb completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/osb.fish

$(B)/bench/%: $(B)/obj/top/bench/%.o $(LINK_LIBS)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -ljansson $(HOST_LIBS)

# ---- musl: what runs inside a sandbox ----------------------------------------------------------------------

ifneq ($(filter %musl,$(V)),)
MUSL_LIB := $(SYSROOT)/usr/lib/$(ARCH)-linux-musl
# The kernel maps code in windows of 64 KiB, all of which count as a process's: what an idle execd runs stands together, next
# to the C library, so that it needs two of them wherever they begin.
MUSL_IDLE := src/execd/init.c src/net/loop.c src/execd/daemon.c
MUSL_SOURCES := $(filter-out src/net/tls% $(MUSL_IDLE),$(foreach f,base sys net execd,$(call sources,$(f)))) $(MUSL_IDLE)
MUSL_OBJECTS := $(call objects,$(MUSL_SOURCES)) $(B)/gen/code_texts.o

$(MUSL_OBJECTS) $(B)/obj/execd/main.o $(patsubst %.c,$(B)/obj/top/%.o,$(wildcard tests/musl/*.c)): | $(B)/include
$(B)/include: $(FLAGS)
	@mkdir -p $@
	@ln -sfn $(SYSROOT)/usr/include/linux $@/linux
	@ln -sfn $(SYSROOT)/usr/include/asm-generic $@/asm-generic
	@ln -sfn $(SYSROOT)/usr/include/$(ARCH)-linux-gnu/asm $@/asm

$(eval $(call record,musl,$(MUSL_SOURCES)))
MUSL_PROGRAMS := $(B)/bin/execd.debug $(B)/bin/static-probe $(B)/bin/floor-init
$(B)/bin/execd.debug: $(B)/obj/execd/main.o
$(B)/bin/static-probe: $(B)/obj/top/tests/musl/static_probe.o
$(B)/bin/floor-init: $(B)/obj/top/tests/musl/floor_init.o
$(MUSL_PROGRAMS): $(MUSL_OBJECTS) $(B)/made/musl
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CROSS)gcc -nostdlib -static-pie -Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack -o $@ $(MUSL_LIB)/rcrt1.o \
		$(MUSL_LIB)/crti.o $(filter %.o,$^) -Wl,--start-group $(MUSL_LIB)/libc.a -lgcc -lgcc_eh -Wl,--end-group \
		$(MUSL_LIB)/crtn.o
# What runs is mapped by every sandbox: what only a debugger reads stays beside it.
$(B)/bin/execd: $(B)/bin/execd.debug
	$(call say,STRIP)
	$(Q)$(CROSS)objcopy --strip-all --add-gnu-debuglink=$< $< $@
musl: $(MUSL_PROGRAMS) $(B)/bin/execd
else
musl:
	@$(MAKE) --no-print-directory V=$(TARGET:%=%-)musl SYSROOT=$(SYSROOT) musl
endif

-include $(shell find $(B)/obj $(B)/gen $(B)/pic $(B)/checked -name '*.d' 2>/dev/null)
