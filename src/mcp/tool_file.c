// SPDX-License-Identifier: Apache-2.0
/* Files and folders of a sandbox. */
#include <inttypes.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/handles.h"
#include "mcp/map_args.h"

#include "base/banned.h"

#define FILE_SCAN_MAX (64 * 1024 * 1024) /* bytes of a file that is read for its two ends */

enum encoding { ENCODING_UTF8, ENCODING_LATIN1, ENCODING_ASCII, ENCODING_BASE64 };

static int find_encoding(const char *name, enum encoding *ret, struct err *e)
{
	static const struct {
		const char *name;
		enum encoding is;
	} known[] = {
		{ "utf-8", ENCODING_UTF8 },        { "utf8", ENCODING_UTF8 },   { "latin-1", ENCODING_LATIN1 },
		{ "iso-8859-1", ENCODING_LATIN1 }, { "ascii", ENCODING_ASCII }, { "us-ascii", ENCODING_ASCII },
		{ "base64", ENCODING_BASE64 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq_nocase(str_of(name), str_of(known[i].name))) {
			*ret = known[i].is;
			return 0;
		}
	return err_set(e, ERR_INVALID, "encoding '%s' is not supported: use utf-8, latin-1, ascii or base64", SHOWN(str_of(name)));
}

/* ---- reading ---- */

static int on_piece(const char *data, size_t n, void *arg)
{
	struct call *c = arg;

	if (c->is_cancelled || c->cut.total + n > FILE_SCAN_MAX || !cut_feed(&c->cut, data, n))
		return -1;
	return 0;
}

static enum step downloaded(struct call *c, struct err *e)
{
	const struct osb_error *why = osb_call_error(c->op);

	if (why->kind == OSB_LOCAL)
		return (enum step)err_set(e, ERR_LIMIT, "the file is larger than %d bytes: read parts of it with range_header", FILE_SCAN_MAX);
	return why->kind == OSB_OK ? STEP_DONE : (enum step)err_set(e, ERR_IO, "%s", why->message);
}

enum step file_read_begin(struct call *c, struct err *e)
{
	const struct osb_read how = { .size = sizeof(how), .range = c->args.range_header };
	enum encoding encoding;

	if (find_encoding(c->args.encoding, &encoding, e) < 0)
		return STEP_FAILED;
	cut_init(&c->cut, c->engine->limits.file);
	c->takes_failure = true;
	(void)osb_file_download(c->handle->sandbox, c->args.path, &how, on_piece, c, c->op);
	return mcp_call_then(c, downloaded);
}

static bool is_text(struct str s)
{
	return utf8_valid(s) && (s.n == 0 || !memchr(s.p, '\0', s.n));
}

static bool write_latin1(struct buf *out, struct str bytes)
{
	char four[4];

	for (size_t i = 0; i < bytes.n; i++)
		(void)buf_add(out, four, utf8_put(four, (unsigned char)bytes.p[i]));
	return !out->failed;
}

static void add_note(struct buf *note, const char *text)
{
	(void)buf_addf(note, "%s%s", note->n > 0 ? "; " : "", text);
}

static void write_read(struct call *c, const char *encoding, struct str content, const struct buf *note, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "path"), json_cstr(o, c->args.path);
	json_key(o, "content"), json_str(o, content);
	json_key(o, "encoding"), json_cstr(o, encoding);
	json_key(o, "size"), json_uint(o, c->cut.total);
	json_key(o, "note"), json_cstr(o, note->n > 0 ? buf_z(note) : NULL);
	json_close(o, '}');
}

int file_read_finish(struct call *c, struct json_out *o, struct err *e)
{
	AUTO(buf_done) struct buf bytes = BUF_INIT(CALL_RESULT_MAX), note = BUF_INIT(1024), between = BUF_INIT(CUT_NOTE_MAX);
	enum encoding encoding = ENCODING_UTF8;
	bool is_whole = cut_is_whole(&c->cut);

	if (find_encoding(c->args.encoding, &encoding, e) < 0)
		return -1;
	if (!is_whole) {
		(void)buf_addf(&between, "\n[... %" PRIu64 " bytes left out ...]\n", c->cut.total - c->cut.limit);
		add_note(&note, "the file is long: its middle is left out, so do not write this content back; read the rest with range_header");
	}
	(void)cut_finish(&c->cut, encoding == ENCODING_BASE64 ? STR("") : buf_str(&between), &bytes);
	if (encoding == ENCODING_LATIN1 ? !write_latin1(&c->text, buf_str(&bytes)) : bytes.failed)
		return err_set(e, ERR_LIMIT, "the file is too large");
	if (encoding == ENCODING_LATIN1) {
		write_read(c, "latin-1", buf_str(&c->text), &note, o);
		return 0;
	}
	if (encoding != ENCODING_BASE64 && is_text(buf_str(&bytes))) {
		write_read(c, "utf-8", buf_str(&bytes), &note, o);
		return 0;
	}
	if (encoding != ENCODING_BASE64)
		add_note(&note, "the file is not text: the content is base64");
	if (!is_whole) { /* two ends in one base64 would be bytes that stand nowhere: the beginning alone */
		buf_clear(&bytes);
		(void)buf_add_str(&bytes, buf_str(&c->cut.head));
		add_note(&note, "only the beginning is here");
	}
	if (!base64_encode(&c->text, bytes.p, bytes.n, BASE64_STD))
		return err_set(e, ERR_LIMIT, "the file is too large");
	write_read(c, "base64", buf_str(&c->text), &note, o);
	return 0;
}

/* ---- writing ---- */

static int encode_latin1(struct call *c, uint32_t last, struct err *e)
{
	struct str in = c->args.content;

	while (in.n > 0) {
		uint32_t rune = 0;
		size_t n = utf8_next(in, &rune);

		if (n == 0 || rune > last)
			return err_set(e, ERR_INVALID, "the content has characters that encoding '%s' cannot hold", c->args.encoding);
		(void)buf_add_char(&c->text, (char)rune);
		in = str_skip(in, n);
	}
	return c->text.failed ? err_no_memory(e) : 0;
}

/* The bytes to be written: the content, or c->text. */
static int encode(struct call *c, struct str *ret, struct err *e)
{
	enum encoding encoding = ENCODING_UTF8;
	int r = 0;

	if (find_encoding(c->args.encoding, &encoding, e) < 0)
		return -1;
	if (encoding == ENCODING_BASE64)
		r = base64_decode(&c->text, str_trim(c->args.content), BASE64_STD, e);
	else if (encoding != ENCODING_UTF8)
		r = encode_latin1(c, encoding == ENCODING_LATIN1 ? 0xff : 0x7f, e);
	*ret = encoding == ENCODING_UTF8 ? c->args.content : buf_str(&c->text);
	return r;
}

enum step file_write_begin(struct call *c, struct err *e)
{
	const struct args *a = &c->args;
	const struct osb_entry entry = { .path = a->path, .owner = a->owner, .group = a->group, .mode = (int)a->mode };
	struct str bytes;

	if (encode(c, &bytes, e) < 0)
		return STEP_FAILED;
	(void)osb_file_write(c->handle->sandbox, &entry, bytes.p ? bytes.p : "", bytes.n, c->op);
	return mcp_call_then(c, NULL);
}

/* ---- everything else ---- */

enum step file_delete_begin(struct call *c, struct err *e)
{
	const struct osb_strings paths = args_strings(&c->args.paths);

	(void)e;
	(void)osb_file_delete(c->handle->sandbox, &paths, c->op);
	return mcp_call_then(c, NULL);
}

enum step file_delete_directories_begin(struct call *c, struct err *e)
{
	const struct osb_strings paths = args_strings(&c->args.paths);

	(void)e;
	(void)osb_directory_delete(c->handle->sandbox, &paths, c->op);
	return mcp_call_then(c, NULL);
}

static struct osb_entry *entries_of(struct call *c, struct err *e)
{
	const struct args_entry *from = c->args.entries.items;
	struct osb_entry *to = arena_array(&c->arena, c->args.entries.n, sizeof(*to));

	for (size_t i = 0; to && i < c->args.entries.n; i++)
		to[i] = (struct osb_entry){ from[i].path, from[i].owner, from[i].group, (int)from[i].mode };
	if (!to)
		(void)json_no_room(&c->arena, c->args.entries.n * sizeof(*to), e);
	return to;
}

enum step file_create_directories_begin(struct call *c, struct err *e)
{
	const struct osb_entry *entries = entries_of(c, e);

	if (!entries)
		return STEP_FAILED;
	(void)osb_directory_create(c->handle->sandbox, entries, c->args.entries.n, c->op);
	return mcp_call_then(c, NULL);
}

enum step file_chmod_begin(struct call *c, struct err *e)
{
	const struct osb_entry *entries = entries_of(c, e);

	if (!entries)
		return STEP_FAILED;
	(void)osb_file_chmod(c->handle->sandbox, entries, c->args.entries.n, c->op);
	return mcp_call_then(c, NULL);
}

_Static_assert(sizeof(struct osb_move) == sizeof(struct args_move), "both are two paths");
_Static_assert(sizeof(struct osb_replace) == sizeof(struct args_replace), "both are a path and two texts");

enum step file_move_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_file_move(c->handle->sandbox, c->args.entries.items, c->args.entries.n, c->op);
	return mcp_call_then(c, NULL);
}

enum step file_replace_contents_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_file_replace(c->handle->sandbox, c->args.entries.items, c->args.entries.n,
			       &c->result.replacements, c->op);
	return mcp_call_then(c, NULL);
}

int file_replace_contents_finish(struct call *c, struct json_out *o, struct err *e)
{
	const struct osb_replacements *all = c->result.replacements;

	(void)e;
	json_open(o, '[');
	for (size_t i = 0; i < all->n; i++) {
		json_open(o, '{');
		json_key(o, "path"), json_cstr(o, all->items[i].path);
		json_key(o, "replaced_count");
		all->items[i].replaced_count >= 0 ? json_int(o, all->items[i].replaced_count) : json_null(o);
		json_close(o, '}');
	}
	json_close(o, ']');
	return 0;
}

enum step file_search_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_file_search(c->handle->sandbox, c->args.path, c->args.pattern, &c->result.files, c->op);
	return mcp_call_then(c, NULL);
}

enum step file_info_begin(struct call *c, struct err *e)
{
	const struct osb_strings paths = args_strings(&c->args.paths);

	(void)e;
	(void)osb_file_info(c->handle->sandbox, &paths, &c->result.files, c->op);
	return mcp_call_then(c, NULL);
}

enum step file_list_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_directory_list(c->handle->sandbox, c->args.path, c->args.depth, &c->result.files, c->op);
	return mcp_call_then(c, NULL);
}

static void write_file(const struct osb_file_info *f, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "path"), json_cstr(o, f->path);
	json_key(o, "type"), json_cstr(o, f->type);
	json_key(o, "mode"), json_int(o, f->mode);
	json_key(o, "owner"), json_cstr(o, f->owner);
	json_key(o, "group"), json_cstr(o, f->group);
	json_key(o, "size"), json_int(o, f->size);
	json_key(o, "modified_at"), json_cstr(o, f->modified_at);
	json_key(o, "created_at"), json_cstr(o, f->created_at);
	json_close(o, '}');
}

int file_search_finish(struct call *c, struct json_out *o, struct err *e)
{
	const struct osb_files *files = c->result.files;

	(void)e;
	json_open(o, '[');
	for (size_t i = 0; i < files->n && !c->note; i++) {
		write_file(&files->items[i], o);
		if (o->b->n > c->engine->limits.file && i + 1 < files->n)
			c->note = arena_printf(&c->arena, "[... %zu more files are left out: ask for fewer ...]", files->n - i - 1);
	}
	json_close(o, ']');
	return 0;
}
