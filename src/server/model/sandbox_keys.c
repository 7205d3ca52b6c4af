// SPDX-License-Identifier: Apache-2.0
/* Idempotency keys: they make a repeated request the same one. */
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

struct key *key_find(struct sandboxes *s, const char hex[SHA256_HEX_LEN + 1])
{
	struct key *k = map_get(&s->keys, str_of(hex));

	return k && k->expires_us > sandboxes_wall_us(s) ? k : NULL;
}

const struct key *key_of_box(const struct box *b)
{
	const struct key *k = b->key[0] ? map_get(&b->pub.set->keys, str_of(b->key)) : NULL;

	return k && strcmp(k->sandbox_id, b->id) == 0 ? k : NULL;
}

int key_add(struct sandboxes *s, const struct key *k, struct err *e)
{
	struct key *copy = malloc(sizeof(*copy)), *old;
	struct box *b = map_get(&s->by_id, str_of(k->sandbox_id));

	if (!copy)
		return err_no_memory(e);
	*copy = *k;
	old = map_del(&s->keys, str_of(k->hex));
	free(old);
	if (!map_put(&s->keys, str_of(copy->hex), copy)) {
		free(copy);
		return err_no_memory(e);
	}
	if (b)
		memcpy(b->key, k->hex, sizeof(b->key));
	return 0;
}

struct key *key_find_of(const struct sandboxes *s, const char *sandbox_id)
{
	struct key *k;
	struct str name;

	for (size_t i = 0; (k = map_next(&s->keys, &i, &name));)
		if (strcmp(k->sandbox_id, sandbox_id) == 0)
			return k;
	return NULL;
}

void key_record(const struct key *k, struct store_tx *tx)
{
	struct store_key sk = { .key = str_of(k->hex), .sandbox_id = k->sandbox_id, .expires_us = k->expires_us };

	memcpy(sk.body, k->body, sizeof(sk.body));
	store_tx_key(tx, &sk);
}

void key_forget_of(struct sandboxes *s, const char *sandbox_id, struct store_tx *tx)
{
	struct key *k = key_find_of(s, sandbox_id);

	if (!k)
		return;
	if (tx)
		store_tx_forget_key(tx, str_of(k->hex));
	(void)map_del(&s->keys, str_of(k->hex));
	free(k);
}

void key_forget(struct sandboxes *s, const char *sandbox_id)
{
	struct store_tx *tx;

	if (!key_find_of(s, sandbox_id))
		return;
	tx = store_tx_new();
	key_forget_of(s, sandbox_id, tx);
	/* Should this fail, the key is taken until it ages: a new create needs a new one. */
	(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
}

static struct key *find_old(const struct sandboxes *s)
{
	struct key *k;
	struct str name;

	for (size_t i = 0; (k = map_next(&s->keys, &i, &name));)
		if (k->expires_us <= sandboxes_wall_us(s))
			return k;
	return NULL;
}

void keys_sweep(void *arg)
{
	struct sandboxes *s = arg;
	struct store_tx *tx = store_tx_new();
	struct key *k;

	while ((k = find_old(s))) {
		if (tx)
			store_tx_forget_key(tx, str_of(k->hex));
		(void)map_del(&s->keys, str_of(k->hex));
		free(k);
	}
	(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 }); /* the next start reads and drops them */
	timer_in(&s->sweep, SWEEP_MS);
}

void keys_free(struct sandboxes *s)
{
	struct key *k;
	struct str name;

	for (size_t i = 0; (k = map_next(&s->keys, &i, &name));)
		free(k);
	map_done(&s->keys);
}
