// SPDX-License-Identifier: Apache-2.0
/* One sandbox in memory. */
#include <stdarg.h>
#include <stdio.h>

#include "base/hex.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

static int copy_list(struct arena *a, const struct string_list *from, struct string_list *to, struct err *e)
{
	to->items = arena_array(a, from->n + 1, sizeof(*to->items));
	for (to->n = 0; to->items && to->n < from->n; to->n++) {
		to->items[to->n] = arena_dup(a, str_of(from->items[to->n]));
		if (!to->items[to->n])
			return err_no_memory(e);
	}
	return to->items ? 0 : err_no_memory(e);
}

int box_set_stack(struct box *b, const struct box_stack *st, struct err *e)
{
	struct arena stack = ARENA_INIT(BOX_ARENA_MAX);
	const char *base = st->base ? arena_dup(&stack, str_of(st->base)) : NULL;
	const char *name = st->snapshot ? arena_dup(&stack, str_of(st->snapshot)) : NULL;
	const char *policy = st->policy ? arena_dup(&stack, str_of(st->policy)) : NULL;

	if ((st->snapshot && !name) || (st->policy && !policy) || (st->base && !base)) {
		arena_done(&stack);
		return err_no_memory(e);
	}
	arena_done(&b->stack);
	b->stack = stack;
	b->pub.row.snapshot = name;
	b->pub.row.base = base;
	b->pub.row.network = st->network;
	b->pub.row.policy = policy;
	return 0;
}

void box_set_digest(struct box *b, const char *digest)
{
	(void)snprintf(b->digest, sizeof(b->digest), "%s", digest); /* digests are that long */
	b->pub.row.image_digest = b->digest;
}

static int copy_row(struct box *b, const struct sandbox_row *row, struct err *e)
{
	struct sandbox_row *r = &b->pub.row;
	const struct box_stack stack = { row->snapshot, row->base, row->network, row->policy };

	*r = *row;
	(void)snprintf(b->id, sizeof(b->id), "%s", row->id);
	(void)snprintf(b->reason, sizeof(b->reason), "%s", row->reason);
	(void)snprintf(b->message, sizeof(b->message), "%s", row->message);
	(void)snprintf(b->pool, sizeof(b->pool), "%s", row->pool ? row->pool : "");
	r->id = b->id;
	r->pool = b->pool;
	r->reason = b->reason;
	r->message = b->message;
	r->image = arena_dup(&b->arena, str_of(row->image));
	if (row->image_digest)
		box_set_digest(b, row->image_digest);
	r->os = row->os ? arena_dup(&b->arena, str_of(row->os)) : NULL;
	r->arch = row->arch ? arena_dup(&b->arena, str_of(row->arch)) : NULL;
	if (!r->image || (row->os && !r->os) || (row->arch && !r->arch))
		return err_no_memory(e);
	if (box_set_stack(b, &stack, e) < 0 || copy_list(&b->arena, &row->entrypoint, &r->entrypoint, e) < 0 ||
	    copy_list(&b->arena, &row->env_names, &r->env_names, e) < 0 ||
	    row_volumes_copy(&b->arena, row->volumes, row->n_volumes, &r->volumes, e) < 0)
		return -1;
	b->labels = labels_new(&row->metadata, e);
	if (!b->labels)
		return -1;
	r->metadata = b->labels->map;
	return 0;
}

void box_free(struct box *b)
{
	if (!b)
		return;
	op_queue_done(&b->queue);
	while (b->pub.oldest_event) {
		struct sandbox_event *ev = b->pub.oldest_event;

		b->pub.oldest_event = ev->next;
		free(ev);
	}
	timer_done(&b->expiry);
	labels_free(b->labels);
	arena_done(&b->stack);
	arena_done(&b->arena);
	free(b);
}
DEFINE_AUTO(struct box *, box_free)

struct box *box_new(struct sandboxes *s, const struct sandbox_row *row, struct err *e)
{
	AUTO(box_free) struct box *b = calloc(1, sizeof(*b));
	struct loop *l = s->spec.loop;

	if (!b) {
		(void)err_no_memory(e);
		return NULL;
	}
	b->pub.set = s;
	b->arena = ARENA_INIT(BOX_ARENA_MAX);
	if (copy_row(b, row, e) < 0 || timer_init(&b->expiry, l, on_expiry, b, "sandbox expiry", e) < 0 ||
	    op_queue_init(&b->queue, &b->pub, l, s->spec.store, e) < 0)
		return NULL;
	return take_ptr(&b);
}

/* Into the list by creation time; almost always as the newest. */
static void list_in(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct sandbox *sb = &b->pub, *older = s->newest;

	while (older && older->row.created_us > sb->row.created_us)
		older = older->older;
	sb->older = older;
	sb->newer = older ? older->newer : s->oldest;
	*(sb->older ? &sb->older->newer : &s->oldest) = sb;
	*(sb->newer ? &sb->newer->older : &s->newest) = sb;
}

static void list_out(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct sandbox *sb = &b->pub;

	*(sb->older ? &sb->older->newer : &s->oldest) = sb->newer;
	*(sb->newer ? &sb->newer->older : &s->newest) = sb->older;
	sb->older = sb->newer = NULL;
}

int box_link(struct box *b, struct err *e)
{
	if (!map_put(&b->pub.set->by_id, str_of(b->id), b))
		return err_no_memory(e);
	b->pub.set->n_idle += b->pub.row.is_idle;
	list_in(b);
	return 0;
}

void box_unlink(struct box *b)
{
	(void)map_del(&b->pub.set->by_id, str_of(b->id));
	b->pub.set->n_idle -= b->pub.row.is_idle;
	list_out(b);
}

void box_set_idle(struct box *b, bool is_idle)
{
	b->pub.set->n_idle -= b->pub.row.is_idle;
	b->pub.set->n_idle += is_idle;
	b->pub.row.is_idle = is_idle;
}

void box_move(struct box *b, int64_t created_us)
{
	list_out(b);
	b->pub.row.created_us = created_us;
	list_in(b);
}

void box_arm(struct box *b)
{
	if (b->pub.row.expires_us != 0)
		timer_set(&b->expiry, b->pub.row.deadline_ms);
	else
		timer_cancel(&b->expiry);
}

void box_set_state(struct box *b, enum sandbox_state state, const char *reason, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(b->message, sizeof(b->message), fmt, ap);
	va_end(ap);
	(void)snprintf(b->reason, sizeof(b->reason), "%s", reason);
	if (b->pub.row.state != state)
		b->pub.row.changed_us = sandboxes_wall_us(b->pub.set);
	b->pub.row.state = state;
}

bool sandbox_can_be_called(const struct sandbox *sb)
{
	return sb->row.state == SANDBOX_RUNNING;
}

void sandbox_token(const struct sandbox *sb, const char *purpose, char out[SANDBOX_TOKEN_LEN + 1])
{
	struct str secret = { (const char *)sb->set->secret, sizeof(sb->set->secret) };
	struct hmac_sha256 h;
	unsigned char mac[SHA256_SIZE];

	hmac_sha256_init(&h, secret);
	hmac_sha256_add(&h, purpose, strlen(purpose) + 1); /* with its NUL: one pair has one spelling */
	hmac_sha256_add(&h, sb->row.id, strlen(sb->row.id));
	hmac_sha256_end(&h, mac);
	hex_encode(out, mac, sizeof(mac));
	secret_wipe(mac, sizeof(mac));
}
