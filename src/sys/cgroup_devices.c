// SPDX-License-Identifier: Apache-2.0
/* Devices: a list written to files on v1, the same list as a program that the kernel asks on v2. */
#include "sys/cgroup_devices.h"

#include <linux/bpf.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/cgroup.h"
#include "sys/cgroup_impl.h"

#include "base/banned.h"

#define RULE_TEXT_MAX 40

/* The kernel's have 12 and 20 bits; what has 32 would be sign-extended in a program. */
static bool is_number(uint32_t v)
{
	return v == CGROUP_DEVICE_ANY || v < 1U << 20;
}

static int check(const struct cgroup_device *list, size_t n, struct err *e)
{
	if (n > CGROUP_DEVICES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d devices", CGROUP_DEVICES_MAX);
	for (size_t i = 0; i < n; i++)
		if ((list[i].type != 'c' && list[i].type != 'b') || list[i].access == 0 || list[i].access > 7 ||
		    !is_number(list[i].major) || !is_number(list[i].minor))
			return err_set(e, ERR_INVALID, "device %zu of the list is malformed", i + 1);
	return 0;
}

/* ---- v1 ------------------------------------------------------------------------------------------------ */

/* As the kernel writes it in devices.list: "c 1:3 rw", "b *:* m". */
static void rule_text(const struct cgroup_device *d, char out[RULE_TEXT_MAX])
{
	char major[12] = "*", minor[12] = "*";

	if (d->major != CGROUP_DEVICE_ANY)
		(void)snprintf(major, sizeof(major), "%u", d->major);
	if (d->minor != CGROUP_DEVICE_ANY)
		(void)snprintf(minor, sizeof(minor), "%u", d->minor);
	(void)snprintf(out, RULE_TEXT_MAX, "%c %s:%s %s%s%s", d->type, major, minor,
		       d->access & CGROUP_DEVICE_READ ? "r" : "", d->access & CGROUP_DEVICE_WRITE ? "w" : "",
		       d->access & CGROUP_DEVICE_MAKE ? "m" : "");
}

static bool has_line(struct str text, struct str line)
{
	struct str one;

	while (text.n > 0) {
		(void)str_cut(text, '\n', &one, &text);
		if (str_eq(one, line))
			return true;
	}
	return false;
}

static size_t count_lines(struct str text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n;
}

/* v1: whether devices.list says exactly this. */
static bool cg_devices_match(struct str text, const struct cgroup_device *list, size_t n)
{
	char rule[RULE_TEXT_MAX];

	for (size_t i = 0; i < n; i++) {
		rule_text(&list[i], rule);
		if (!has_line(text, str_of(rule)))
			return false;
	}
	return count_lines(text) == n;
}

/* A group that has groups below it can no longer be told to deny all, so what is right already is left alone. */
static int limit_v1(int dir, const struct cgroup_device *list, size_t n, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	char rule[RULE_TEXT_MAX];
	int r = cg_read(dir, "devices.list", &b, e);

	if (r > 0 && cg_devices_match(buf_str(&b), list, n))
		return 0;
	if (r > 0)
		r = cg_write(dir, "devices.deny", "a", e);
	for (size_t i = 0; r > 0 && i < n; i++) {
		rule_text(&list[i], rule);
		r = cg_write(dir, "devices.allow", rule, e);
	}
	return r == 0 ? err_set(e, ERR_UNAVAILABLE, "the group has no device list") : r < 0 ? -1 : 0;
}

/* ---- v2 ------------------------------------------------------------------------------------------------ */

#define INSN(code_, dst, src, off_, imm_) \
	((struct bpf_insn){ .code = (code_), .dst_reg = (dst), .src_reg = (src), .off = (off_), .imm = (int32_t)(imm_) })
#define LOAD(dst, field) \
	INSN(BPF_LDX | BPF_W | BPF_MEM, dst, BPF_REG_1, (short)offsetof(struct bpf_cgroup_dev_ctx, field), 0)
#define MOVE(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define OP(op, dst, imm) INSN(BPF_ALU64 | (op) | BPF_K, dst, 0, 0, imm)
#define OP32(op, dst, imm) INSN(BPF_ALU | (op) | BPF_K, dst, 0, 0, imm)
#define UNLESS(reg, imm, skip) INSN(BPF_JMP | BPF_JNE | BPF_K, reg, 0, (short)(skip), imm)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

enum { R_TYPE = BPF_REG_2, R_ACCESS = BPF_REG_3, R_MAJOR = BPF_REG_4, R_MINOR = BPF_REG_5, R_LEFT = BPF_REG_6 };

/* Access is granted when one rule covers all of it, as on v1. */
static size_t write_rule(const struct cgroup_device *d, struct bpf_insn *out)
{
	bool any_major = d->major == CGROUP_DEVICE_ANY, any_minor = d->minor == CGROUP_DEVICE_ANY;
	size_t n = 0, total = 6U + !any_major + !any_minor;

	out[n] = UNLESS(R_TYPE, d->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR, total - n - 1);
	n++;
	out[n++] = MOVE(R_LEFT, R_ACCESS);
	out[n++] = OP(BPF_AND, R_LEFT, 0xffff & ~d->access);
	out[n] = UNLESS(R_LEFT, 0, total - n - 1);
	n++;
	if (!any_major) {
		out[n] = UNLESS(R_MAJOR, d->major, total - n - 1);
		n++;
	}
	if (!any_minor) {
		out[n] = UNLESS(R_MINOR, d->minor, total - n - 1);
		n++;
	}
	out[n++] = OP(BPF_MOV, BPF_REG_0, 1);
	out[n++] = EXIT;
	return n;
}

size_t cg_devices_program(const struct cgroup_device *list, size_t count, struct bpf_insn out[CG_PROGRAM_MAX])
{
	size_t n = 0;

	out[n++] = LOAD(R_TYPE, access_type);
	out[n++] = MOVE(R_ACCESS, R_TYPE);
	out[n++] = OP(BPF_AND, R_TYPE, 0xffff);
	out[n++] = OP32(BPF_RSH, R_ACCESS, 16);
	out[n++] = LOAD(R_MAJOR, major);
	out[n++] = LOAD(R_MINOR, minor);
	for (size_t i = 0; i < count; i++)
		n += write_rule(&list[i], out + n);
	out[n++] = OP(BPF_MOV, BPF_REG_0, 0);
	out[n++] = EXIT;
	return n;
}

static int load_program(const struct bpf_insn *insns, size_t n, struct err *e)
{
	union bpf_attr attr = { 0 };
	long fd;

	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)insns;
	attr.insn_cnt = (uint32_t)n;
	attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	return fd < 0 ? err_sys(e, errno, "load the device program") : (int)fd;
}

/* Without flags the group has this one program: a later one takes its place, and groups below can add none. */
int cg_devices_limit_v2(int dir, const struct cgroup_device *list, size_t n, struct err *e)
{
	struct bpf_insn program[CG_PROGRAM_MAX];
	union bpf_attr attr = { 0 };
	AUTO_FD fd = load_program(program, cg_devices_program(list, n, program), e);

	if (fd < 0)
		return -1;
	attr.target_fd = (uint32_t)dir;
	attr.attach_bpf_fd = (uint32_t)fd;
	attr.attach_type = BPF_CGROUP_DEVICE;
	if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof(attr)) < 0)
		return err_sys(e, errno, "attach the device program");
	return 0;
}

int cgroup_limit_devices(const struct cgroup *g, const struct cgroup_device *list, size_t n, struct err *e)
{
	int dir = cg_dir_for(g, CGROUP_DEVICES), r;

	if (check(list, n, e) < 0)
		return -1;
	if (dir < 0)
		return err_set(e, ERR_UNAVAILABLE, "limit devices of group '%s': no hierarchy can", g->path);
	r = cg_is_v2(g, CGROUP_DEVICES) ? cg_devices_limit_v2(dir, list, n, e) : limit_v1(dir, list, n, e);
	return r < 0 ? err_wrap(e, "limit devices of group '%s'", g->path) : 0;
}
