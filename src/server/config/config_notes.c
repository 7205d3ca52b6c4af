// SPDX-License-Identifier: Apache-2.0
/* What is no mistake of the configuration, and yet should not go unsaid: a secret that others can read, a key that does nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "server/config/config_impl.h"
#include "sys/secret_file.h"

#include "base/banned.h"

#define LIST_DEPTH_MAX 8 /* of tables in tables */

/* ---- keys ---- */

/* Files for other servers of this API load as they are; what this one has no use for is here. A name with a dot at its end stands for a section. */
static const struct {
	const char *key;
	bool is_for_native; /* other runtimes would have a use for it */
} idle[] = {
	{ "server.thread_pool_size", false },
	{ "server.loop", false },
	{ "server.http", false },
	{ "log.access_file_path", false },
	{ "runtime.execd_image", true },
	{ "docker.", true },
	{ "storage.ossfs_mount_root", true },
	{ "store.", true },
	{ "egress.image", true },
	{ "egress.mode", true },
	{ "secure_runtime.", true },
};

const char *config_idle(const struct config *c, const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
		size_t n = strlen(idle[i].key);
		bool is_section = idle[i].key[n - 1] == '.';

		if ((is_section ? strncmp(key, idle[i].key, n) : strcmp(key, idle[i].key)) != 0)
			continue;
		if (!idle[i].is_for_native)
			return "no effect";
		return c->runtime.type == RUNTIME_NATIVE ? "no effect with runtime.type 'native'" : NULL;
	}
	return NULL;
}

static void note_idle(struct config_loading *l, const struct config *c, const struct json *table, const char *above, unsigned depth)
{
	for (const struct json *v = json_first(table); v && depth < LIST_DEPTH_MAX; v = v->next) {
		char key[CONFIG_PATH_MAX];
		const char *why;

		(void)snprintf(key, sizeof(key), "%s%s%.*s", above, above[0] ? "." : "", STR_ARG(v->key)); /* as long as the tables' */
		if (v->type == JSON_OBJECT) {
			note_idle(l, c, v, key, depth + 1);
			continue;
		}
		why = config_idle(c, key);
		if (why)
			config_note(l, v, "%s: %s", key, why);
	}
}

/* ---- files ---- */

static bool is_from_file(const struct config_loading *l, const struct json *v)
{
	for (const struct config_origin *o = l->origins; o; o = o->next)
		if (o->node == v)
			return false;
	return v->type == JSON_STRING && str_trim(v->s).n > 0;
}

static bool has_secret(const struct config_loading *l, const struct field *fields, const struct json *table, unsigned depth);

static bool list_has_secret(const struct config_loading *l, const struct field *f, const struct json *list, unsigned depth)
{
	for (const struct json *item = json_first(list); item; item = item->next)
		if (has_secret(l, f->fields, item, depth))
			return true;
	return false;
}

static bool has_secret(const struct config_loading *l, const struct field *fields, const struct json *table, unsigned depth)
{
	for (const struct field *f = fields; f->name && depth < LIST_DEPTH_MAX; f++) {
		const struct json *v = json_get(table, f->name);

		if (!v)
			continue;
		if (f->secret && is_from_file(l, v))
			return true;
		if (f->kind == FIELD_OBJECT && has_secret(l, f->fields, v, depth + 1))
			return true;
		if (f->kind == FIELD_OBJECTS && list_has_secret(l, f, v, depth + 1))
			return true;
	}
	return false;
}

/* What is wrong with PATH's mode, or NULL. */
static const char *fault_of(struct config_loading *l, const char *path, enum secret_file_kind kind)
{
	enum secret_file_fault fault = path ? secret_file_look(path, kind) : SECRET_FILE_FINE;
	char text[SECRET_FILE_TEXT_MAX];

	if (fault == SECRET_FILE_FINE)
		return NULL;
	if (fault == SECRET_FILE_READABLE && path == l->path && !has_secret(l, config_fields, l->root, 0))
		return NULL;
	secret_file_say(fault, path, kind, text);
	return arena_dup(l->arena, str_of(text));
}

static void note_files(struct config_loading *l, struct config *c)
{
	c->file_fault = fault_of(l, l->path, SECRET_FILE_PRIVATE);
	if (c->file_fault)
		config_note(l, NULL, "%s", c->file_fault);
	c->tls_key_fault = fault_of(l, c->server.tls_key, SECRET_FILE_SHARED);
	if (c->tls_key_fault)
		config_note(l, json_get(json_get(l->root, "server"), "tls_key"), "server.tls_key: %s", c->tls_key_fault);
}

void config_find_notes(struct config_loading *l, struct config *c)
{
	note_files(l, c);
	note_idle(l, c, l->root, "", 0);
	if (l->notes.n > 0)
		c->notes = arena_dup(l->arena, buf_str(&l->notes));
}
