// SPDX-License-Identifier: Apache-2.0
/* server/native/native.h - the embedded runtime: asks the warden, which does everything that needs privileges. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct loop;
struct puller;
struct runtime;
struct string_list;
struct string_pair;

struct runtime_native_spec {
	const char *path; /* the warden's socket; copied */
	/* The operator's images in the order in which the warden has them; borrowed. Of each pair the name alone is used. */
	const struct string_pair *images;
	size_t n_images;
	struct puller *puller;     /* of images that have none of these names; must outlive the runtime; NULL: there are none */
	const char *default_image; /* which of them, or "host", the name "default" stands for; borrowed */
	const struct string_list *host_paths; /* folders that may be mounted, in the warden's order; borrowed; NULL: none */
	const char *egress_path;   /* the socket of egress; copied; NULL: there is none */
	bool has_network;          /* egress is started, */
	const char *network_lacks; /* and this is missing, see runtime.h */
	bool has_no_disk_limit;    /* the warden is started without */
	const char *scratch_dir;   /* where files without a name may be made; borrowed */
	bool owns_puller;          /* it is freed with the runtime */
};

/* The socket need not be there yet: it is tried again until it is, and after it went away. */
struct runtime *runtime_native(struct loop *l, const struct runtime_native_spec *spec, struct err *e);
