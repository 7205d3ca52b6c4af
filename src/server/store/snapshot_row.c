// SPDX-License-Identifier: Apache-2.0
#include "server/store/snapshot_row.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/civil.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/uuid.h"
#include "image/reference.h"
#include "server/store/row.h"

#include "base/banned.h"

#define LAYER_LEN 32

static const char *const states[] = {
	[SNAPSHOT_CREATING] = "Creating", [SNAPSHOT_READY] = "Ready", [SNAPSHOT_FAILED] = "Failed", [SNAPSHOT_DELETING] = "Deleting",
};

const char *snapshot_state_name(enum snapshot_state s)
{
	return states[s];
}

static bool state_parse(struct str name, enum snapshot_state *ret)
{
	for (unsigned i = 0; i < SNAPSHOT_STATES; i++) {
		if (str_is(name, states[i])) {
			*ret = (enum snapshot_state)i;
			return true;
		}
	}
	return false;
}

static bool is_layer(const char *name)
{
	return strlen(name) == LAYER_LEN && strspn(name, "0123456789abcdef") == LAYER_LEN;
}

int row_reference_load(const char *text, const struct string_list *layers, struct arena *a, const char **ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(RUNTIME_REFERENCE_MAX + 1);

	*ret = text;
	if (text && (layers->n > 0 || !escape_is_free(str_of(text))))
		return err_set(e, ERR_INVALID, "a reference that is none");
	for (size_t i = 0; i < layers->n; i++) {
		if (!is_layer(layers->items[i]))
			return err_set(e, ERR_INVALID, "a layer that has no name");
		buf_addf(&b, "%s%s", i > 0 ? ":" : "", layers->items[i]);
	}
	if (layers->n > 0)
		*ret = b.failed ? NULL : arena_dup(a, buf_str(&b));
	return layers->n > 0 && !*ret ? err_no_memory(e) : 0;
}

/* ---- the spec, a document ---- */

struct spec {
	const char *image, *digest;
	const char *reference;
	struct string_list layers; /* of earlier versions */
	const char *network, *policy;
};

static const struct field spec_fields[] = {
	FIELD(struct spec, image, FIELD_STRING, "image", .required = true, .min = 1, .max = ROW_IMAGE_MAX),
	FIELD(struct spec, digest, FIELD_STRING, "digest", .min = 1, .max = DIGEST_TEXT_MAX),
	FIELD(struct spec, reference, FIELD_STRING, "reference", .min = 1, .max = RUNTIME_REFERENCE_MAX),
	FIELD(struct spec, layers, FIELD_STRINGS, "layers", .max = ROW_LAYERS_MAX),
	FIELD(struct spec, network, FIELD_STRING, "network", .max = 16),
	FIELD(struct spec, policy, FIELD_STRING, "policy", .max = RUNTIME_POLICY_MAX),
	{ 0 },
};

bool snapshot_row_write_spec(const struct snapshot_row *r, struct buf *b)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "image"), json_cstr(&o, r->image);
	if (r->image_digest)
		json_key(&o, "digest"), json_cstr(&o, r->image_digest);
	if (r->reference)
		json_key(&o, "reference"), json_cstr(&o, r->reference);
	if (r->knows_network)
		json_key(&o, "network"), json_cstr(&o, row_network_name(r->network));
	if (r->knows_network && r->network == RUNTIME_NET_POLICY)
		json_key(&o, "policy"), json_cstr(&o, r->policy);
	json_close(&o, '}');
	return !b->failed;
}

static int load_network(const struct spec *s, struct snapshot_row *r, struct err *e)
{
	r->knows_network = s->network != NULL;
	r->policy = s->policy;
	while (s->network && r->network < RUNTIME_NETWORKS && strcmp(s->network, row_network_name(r->network)) != 0)
		r->network++;
	if (r->network == RUNTIME_NETWORKS)
		return err_set(e, ERR_INVALID, "a network of no kind");
	if ((r->network == RUNTIME_NET_POLICY) != (s->policy != NULL))
		return err_set(e, ERR_INVALID, "a policy without its network, or the other way round");
	return 0;
}

static int load_spec(struct str text, struct arena *a, struct snapshot_row *r, struct err *e)
{
	struct decode d = { .arena = a, .closed = true, .strict = true };
	struct json_limits limits = { .bytes = ROW_SPEC_MAX, .depth = 3 };
	const struct json *v = json_parse(a, text, &limits, NULL, e);
	struct spec s = { 0 };

	if (!v || decode(&d, v, spec_fields, &s, e) < 0)
		return -1;
	if (row_reference_load(s.reference, &s.layers, a, &r->reference, e) < 0)
		return -1;
	if (!r->reference && !s.digest)
		return err_set(e, ERR_INVALID, "neither a reference nor an image");
	if (s.digest && !row_digest_valid(s.digest))
		return err_set(e, ERR_INVALID, "the digest of an image that is none");
	r->image = s.image;
	r->image_digest = s.digest;
	return load_network(&s, r, e);
}

/* ---- the row ---- */

static int load_rest(const struct snapshot_columns *c, struct arena *a, struct snapshot_row *r, struct err *e)
{
	if (!id_valid(c->sandbox_id))
		return err_set(e, ERR_INVALID, "of '%s': not an id", SHOWN(c->sandbox_id));
	if (!state_parse(c->state, &r->state))
		return err_set(e, ERR_INVALID, "state: '%s' is none", SHOWN(c->state));
	if (!row_is_instant(c->created_us) || !row_is_instant(c->changed_us))
		return err_set(e, ERR_INVALID, "a time that cannot be");
	r->created_us = c->created_us;
	r->changed_us = c->changed_us;
	r->sandbox_id = arena_dup(a, c->sandbox_id);
	if (!r->sandbox_id)
		return err_no_memory(e);
	if (c->name.n > 0 && row_load_text(c->name, SNAPSHOT_NAME_MAX, "name", a, &r->name, e) < 0)
		return -1;
	return row_load_text(c->reason, ROW_REASON_MAX, "reason", a, &r->reason, e) < 0 ? -1 :
	       row_load_text(c->message, ROW_MESSAGE_MAX, "message", a, &r->message, e);
}

int snapshot_row_load(const struct snapshot_columns *c, struct arena *a, struct snapshot_row *ret, struct err *e)
{
	struct snapshot_row r = { 0 };

	if (!id_valid(c->id))
		return err_set(e, ERR_INVALID, "snapshot '%s': not an id", SHOWN(c->id));
	r.id = arena_dup(a, c->id);
	if (!r.id)
		return err_no_memory(e);
	if (load_spec(c->spec, a, &r, e) < 0 || load_rest(c, a, &r, e) < 0)
		return err_wrap(e, "snapshot '%s'", r.id);
	*ret = r;
	return 0;
}
