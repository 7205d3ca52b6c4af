// SPDX-License-Identifier: Apache-2.0
/* box/preflight_impl.h - shared by the files of the preflight: the probes, by subject, and their helpers. */
#pragma once
#include "box/preflight.h"
#include "sys/cgroup_layout.h"

struct buf;
struct err;

/* What the probes of one run share. */
struct preflight_trial {
	const struct preflight_host *host;
	int root;             /* of the files that are read */
	const char *layers_at; /* a directory that exists, on the file system of the layers */
	struct cgroup_layout layout;
	struct err layout_error;
	bool has_layout;
};

/* For a child. They take a few milliseconds; the first use of a part of the kernel loads its modules, seconds
 * on a slow machine. */
#define PREFLIGHT_TRIAL_MS 60000
#define PREFLIGHT_FILE_MAX ((size_t)64 * 1024)

/* FN's result and error in a child of its own, whose namespaces, mounts and filters end with it. */
typedef int (*trial_fn)(void *arg, struct err *e);
int trial_in_child(trial_fn fn, void *arg, struct err *e);

/* The outcome of a call that returned RC. */
enum preflight_outcome preflight_tell(int rc, const struct err *e, char *detail);
void preflight_say(char *detail, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text of a small file below the root, without its line end. ERR_NOT_FOUND when there is none. */
int preflight_read(const struct preflight_trial *t, const char *file, struct buf *b, struct err *e);

typedef enum preflight_outcome probe_fn(const struct preflight_trial *t, const struct preflight_check *self,
					char *detail);

/* preflight_kernel.c */
probe_fn probe_root, probe_openat2, probe_close_range, probe_clone3, probe_pidfd_open, probe_namespaces,
	probe_userns,
	probe_seccomp, probe_memfd, probe_keyring, probe_landlock;
/* preflight_mount.c */
probe_fn probe_mount_api, probe_overlayfs, probe_overlay, probe_idmap, probe_idmap_overlay;
/* preflight_cgroup.c */
probe_fn probe_controller, probe_devices, probe_kill, probe_io_weight, probe_swap;
/* preflight_host.c */
probe_fn probe_setting, probe_io_uring, probe_core_pattern, probe_pid_max, probe_descriptors, probe_volumes,
	probe_loop,
	probe_btrfs, probe_mkfs, probe_nft, probe_nftables, probe_veth, probe_network;
/* preflight_ids.c */
probe_fn probe_ids;
/* preflight_version.c */
probe_fn probe_version;
