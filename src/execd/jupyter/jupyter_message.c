// SPDX-License-Identifier: Apache-2.0
#include "execd/jupyter/jupyter_message.h"

#include <assert.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/json_out.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "execd/budget.h"
#include "net/zmtp/zmtp.h"

#include "base/banned.h"

enum part { PART_IDS, PART_SIGNATURE, PART_HEADER, PART_PARENT, PART_METADATA, PART_CONTENT, PART_BUFFERS };

#define DELIMITER "<IDS|MSG>"
#define METADATA_MAX ((uint64_t)1024 * 1024)

/* ---- to a kernel ---- */

void jupyter_put_header(struct buf *b, const struct jupyter_out *m)
{
	struct json_out o = json_out(b);
	char date[RFC3339_SIZE];

	(void)rfc3339_format_ms(clock_wall(), date);
	json_open(&o, '{');
	json_key(&o, "msg_id"), json_str(&o, m->id);
	json_key(&o, "session"), json_str(&o, m->session);
	json_key(&o, "username"), json_cstr(&o, "opensandbox");
	json_key(&o, "date"), json_cstr(&o, date);
	json_key(&o, "msg_type"), json_str(&o, m->type);
	json_key(&o, "version"), json_cstr(&o, "5.3");
	json_close(&o, '}');
}

void jupyter_sign(struct str key, const struct str parts[4], char out[SHA256_HEX_LEN + 1])
{
	unsigned char sum[SHA256_SIZE];
	struct hmac_sha256 h;

	hmac_sha256_init(&h, key);
	for (int i = 0; i < 4; i++)
		hmac_sha256_add(&h, parts[i].p, parts[i].n);
	hmac_sha256_end(&h, sum);
	hex_encode(out, sum, sizeof(sum));
}

void jupyter_put_object(struct buf *b, const struct jupyter_out *m, const char *channel)
{
	buf_addf(b, "{\"channel\":\"%s\",\"header\":", channel);
	jupyter_put_header(b, m);
	buf_addf(b, ",\"parent_header\":{},\"metadata\":{},\"buffers\":[],\"content\":");
	buf_add_str(b, m->content);
	buf_add_char(b, '}');
}

void jupyter_put_execute(struct buf *b, struct str code)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "code"), json_str(&o, code);
	json_key(&o, "silent"), json_bool(&o, false);
	json_key(&o, "store_history"), json_bool(&o, true);
	json_key(&o, "user_expressions"), json_open(&o, '{'), json_close(&o, '}');
	json_key(&o, "allow_stdin"), json_bool(&o, false);
	json_key(&o, "stop_on_error"), json_bool(&o, false); /* nothing is ever queued behind it */
	json_close(&o, '}');
}

/* ---- what is collected ---- */

/* NULL: for nothing of this message, what has begun without is never whole. */
static struct jupyter_values *values_of(struct jupyter_in *in)
{
	if (in->values || in->is_cut)
		return in->values;
	if (budget_take_spare(in->budget, sizeof(*in->values))) {
		in->granted += sizeof(*in->values);
		in->values = calloc(1, sizeof(*in->values));
	}
	if (in->values)
		in->values->bytes = BUF_INIT(JUPYTER_VALUES_MAX);
	in->is_cut = !in->values;
	return in->values;
}

/* The buffer doubles as it grows, and the account with it. */
static bool grant(struct jupyter_in *in, size_t n)
{
	struct buf *b = &in->values->bytes;
	size_t need = b->n + n + 1, more;

	if (need <= b->cap)
		return true;
	more = 2 * need > in->granted ? 2 * need - in->granted : 0;
	if (!budget_take_spare(in->budget, more))
		return false;
	in->granted += more;
	return true;
}

/* Adds to what SPAN stands for, which is the last that was begun; a value that does not fit is left out as a whole. */
static void collect(struct jupyter_in *in, struct jupyter_span *span, const struct json_piece *piece, size_t max)
{
	struct buf *b = &in->values->bytes;

	if (piece->is_first)
		*span = (struct jupyter_span){ b->n, 0 };
	if (span->n == SIZE_MAX) /* left out */
		return;
	if (span->n + piece->text.n > max || !grant(in, piece->text.n) || !buf_add_str(b, piece->text)) {
		b->n = span->at;
		b->failed = false;
		span->n = SIZE_MAX;
		in->is_cut = true;
		return;
	}
	span->n += piece->text.n;
}

static void take_mime(struct jupyter_in *in, const struct json_piece *piece)
{
	struct jupyter_values *v = values_of(in);
	struct json_piece type = { .text = piece->path[1], .is_first = true };

	if (!v || piece->path[1].n == 0 || v->n_mimes == CODE_MIMES_MAX)
		return;
	if (piece->is_first)
		collect(in, &v->types[v->n_mimes], &type, JSON_FEED_KEY_MAX);
	collect(in, &v->mimes[v->n_mimes], piece, CODE_RESULT_MAX);
	if (piece->is_last && v->types[v->n_mimes].n != SIZE_MAX && v->mimes[v->n_mimes].n != SIZE_MAX)
		v->n_mimes++;
}

static void take_failure(struct jupyter_in *in, const struct json_piece *piece)
{
	struct jupyter_values *v = values_of(in);
	struct str key = piece->path[0];

	if (!v || !piece->is_string)
		return;
	if (piece->depth == 1 && str_is(key, "ename"))
		collect(in, &v->name, piece, CODE_ERROR_MAX / 4);
	else if (piece->depth == 1 && str_is(key, "evalue"))
		collect(in, &v->value, piece, CODE_ERROR_MAX / 4);
	else if (piece->depth == 2 && str_is(key, "traceback") && v->n_trace < CODE_TRACE_MAX) {
		collect(in, &v->trace[v->n_trace], piece, CODE_ERROR_MAX / 2);
		if (piece->is_last && v->trace[v->n_trace].n != SIZE_MAX)
			v->n_trace++;
	}
}

/* A short word, whole. True at its end. */
static bool take_word(struct jupyter_in *in, const struct json_piece *piece)
{
	if (piece->is_first)
		in->n_word = 0;
	for (size_t i = 0; i < piece->text.n && in->n_word < sizeof(in->word) - 1; i++)
		in->word[in->n_word++] = piece->text.p[i];
	in->word[in->n_word] = '\0';
	return piece->is_last;
}

static void take_stream(struct jupyter_in *in, const struct json_piece *piece)
{
	if (piece->depth != 1 || !piece->is_string)
		return;
	if (str_is(piece->path[0], "name") && take_word(in, piece))
		memcpy(in->stream, in->word, sizeof(in->stream));
	else if (str_is(piece->path[0], "text") && piece->text.n > 0)
		in->on_text(strncmp(in->stream, "stderr", sizeof(in->stream)) == 0 ? EVENT_STDERR : EVENT_STDOUT, piece->text,
			    in->arg);
}

static void take_content(struct jupyter_in *in, const struct json_piece *piece)
{
	struct str key = piece->path[0];

	if (piece->depth == 1 && str_is(key, "execution_count") && take_word(in, piece))
		(void)str_to_u64(str_of(in->word), 0, UINT32_MAX, &in->count);
	switch (in->kind) {
	case JUPYTER_STREAM:
		take_stream(in, piece);
		break;
	case JUPYTER_DISPLAY:
	case JUPYTER_RESULT:
		if (piece->depth == 2 && str_is(key, "data"))
			take_mime(in, piece);
		break;
	case JUPYTER_REPLY:
		if (piece->depth == 1 && str_is(key, "status") && take_word(in, piece)) {
			in->is_error = strcmp(in->word, "ok") != 0;
			in->is_aborted = strncmp(in->word, "abort", 5) == 0;
		}
		take_failure(in, piece);
		break;
	case JUPYTER_ERROR:
		take_failure(in, piece);
		break;
	case JUPYTER_STATUS:
		if (piece->depth == 1 && str_is(key, "execution_state") && take_word(in, piece)) {
			in->is_idle = strcmp(in->word, "idle") == 0;
			in->is_gone = strcmp(in->word, "dead") == 0 || memmem(in->word, strlen(in->word), "restarting", strlen("restarting"));
		}
		break;
	case JUPYTER_OTHER:
	case JUPYTER_INFO:
	case JUPYTER_INPUT:
		break;
	}
}

/* ---- heads ---- */

/* TEXT becomes a piece longer; one that does not fit is nothing. */
static void take_text(char *text, size_t size, const struct json_piece *piece)
{
	size_t n = piece->is_first ? 0 : strnlen(text, size);

	if (piece->is_first)
		text[0] = '\0';
	if (n + piece->text.n >= size || (n == 0 && !piece->is_first && !piece->is_last)) {
		text[0] = '\0';
		return;
	}
	if (piece->text.n > 0)
		memcpy(text + n, piece->text.p, piece->text.n);
	text[n + piece->text.n] = '\0';
}

static enum jupyter_kind kind_of(const char *type)
{
	static const struct {
		const char *type;
		enum jupyter_kind kind;
	} kinds[] = {
		{ "stream", JUPYTER_STREAM },
		{ "display_data", JUPYTER_DISPLAY },
		{ "update_display_data", JUPYTER_DISPLAY },
		{ "execute_result", JUPYTER_RESULT },
		{ "error", JUPYTER_ERROR },
		{ "status", JUPYTER_STATUS },
		{ "execute_reply", JUPYTER_REPLY },
		{ "kernel_info_reply", JUPYTER_INFO },
		{ "input_request", JUPYTER_INPUT },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(type, kinds[i].type) == 0)
			return kinds[i].kind;
	return JUPYTER_OTHER;
}

static void take_header(struct jupyter_in *in, struct str key, const struct json_piece *piece)
{
	if (str_is(key, "msg_type") && piece->is_string)
		take_text(in->type, sizeof(in->type), piece);
}

static void take_parent(struct jupyter_in *in, struct str key, const struct json_piece *piece)
{
	if (str_is(key, "msg_id") && piece->is_string)
		take_text(in->parent, sizeof(in->parent), piece);
}

static void on_header(const struct json_piece *piece, void *arg)
{
	if (piece->depth == 1)
		take_header(arg, piece->path[0], piece);
}

static void on_parent(const struct json_piece *piece, void *arg)
{
	if (piece->depth == 1)
		take_parent(arg, piece->path[0], piece);
}

static void on_content(const struct json_piece *piece, void *arg)
{
	take_content(arg, piece);
}

/* ---- frames ---- */

static enum jupyter_step broken(struct jupyter_in *in, const char *what)
{
	in->what = what;
	return JUPYTER_BROKEN;
}

static void begin_part(struct jupyter_in *in)
{
	in->n_part = in->n_small = 0;
	if (in->part == PART_HEADER) {
		hmac_sha256_init(&in->hmac, in->key);
		json_feed_init(&in->feed, 1, on_header, in);
	} else if (in->part == PART_PARENT) {
		json_feed_init(&in->feed, 1, on_parent, in);
	} else if (in->part == PART_CONTENT) {
		in->kind = kind_of(in->type);
		json_feed_init(&in->feed, 2, on_content, in);
	}
}

/* The beginning, of what is longer than anything that counts. */
static void keep_small(struct jupyter_in *in, struct str bytes)
{
	size_t n = MIN(bytes.n, sizeof(in->small) - in->n_small);

	if (n > 0)
		memcpy(in->small + in->n_small, bytes.p, n);
	in->n_small += n;
	in->n_part += bytes.n;
}

static bool signature_is_right(struct jupyter_in *in, const char signature[SHA256_HEX_LEN])
{
	unsigned char sum[SHA256_SIZE];
	char hex[SHA256_HEX_LEN + 1];

	hmac_sha256_end(&in->hmac, sum);
	hex_encode(hex, sum, sizeof(sum));
	return in->key.n == 0 || secret_eq((struct str){ hex, SHA256_HEX_LEN }, (struct str){ signature, SHA256_HEX_LEN });
}

/* NULL, or what is wrong. */
static const char *feed_part(struct jupyter_in *in, struct str bytes)
{
	in->n_part += bytes.n;
	hmac_sha256_add(&in->hmac, bytes.p, bytes.n);
	if (in->part == PART_METADATA)
		return in->n_part > METADATA_MAX ? "metadata that are too large" : NULL;
	if (in->part != PART_CONTENT && in->n_part > JUPYTER_HEAD_MAX)
		return "a header that is too large";
	return json_feed(&in->feed, bytes) ? NULL : "a message that is not JSON";
}

/* The frame that was current is complete. */
static enum jupyter_step end_part(struct jupyter_in *in, bool is_last)
{
	bool is_delimiter = in->n_part == strlen(DELIMITER) && memcmp(in->small, DELIMITER, strlen(DELIMITER)) == 0;

	if ((in->part == PART_HEADER || in->part == PART_PARENT || in->part == PART_CONTENT) && !json_feed_end(&in->feed))
		return broken(in, "a message that is not JSON");
	if (in->part == PART_CONTENT && !signature_is_right(in, in->signature))
		return broken(in, "a message with a wrong signature");
	if (is_last)
		return in->part >= PART_CONTENT ? JUPYTER_MESSAGE : broken(in, "a message without content");
	if (in->part == PART_SIGNATURE) {
		if (in->n_part != SHA256_HEX_LEN && in->key.n > 0)
			return broken(in, "a message without a signature");
		memcpy(in->signature, in->small, sizeof(in->small));
	}
	if (in->part != PART_BUFFERS && (in->part != PART_IDS || is_delimiter))
		in->part++;
	begin_part(in);
	return JUPYTER_MORE;
}

enum jupyter_step jupyter_take(struct jupyter_in *in, const struct zmtp_event *ev)
{
	const char *what;

	if (in->part == PART_IDS || in->part == PART_SIGNATURE) {
		keep_small(in, ev->data);
	} else if (in->part != PART_BUFFERS) {
		what = feed_part(in, ev->data);
		if (what)
			return broken(in, what);
	}
	return ev->left == 0 ? end_part(in, ev->is_last) : JUPYTER_MORE;
}

/* ---- objects ---- */

static void on_head(const struct json_piece *piece, void *arg)
{
	struct jupyter_in *in = arg;

	if (piece->depth == 1 && str_is(piece->path[0], "channel") && piece->text.n > 0)
		in->channel = piece->text.p[0];
	else if (piece->depth == 2 && str_is(piece->path[0], "header"))
		take_header(in, piece->path[1], piece);
	else if (piece->depth == 2 && str_is(piece->path[0], "parent_header"))
		take_parent(in, piece->path[1], piece);
}

static void on_object(const struct json_piece *piece, void *arg)
{
	struct json_piece inner = *piece;

	if (piece->depth < 2 || !str_is(piece->path[0], "content"))
		return;
	inner.depth--;
	for (unsigned i = 0; i < inner.depth; i++)
		inner.path[i] = piece->path[i + 1];
	take_content(arg, &inner);
}

bool jupyter_take_heads(struct jupyter_in *in, struct str object)
{
	jupyter_next(in);
	json_feed_init(&in->feed, 2, on_head, in);
	if (!json_feed(&in->feed, object) || !json_feed_end(&in->feed))
		return false;
	in->kind = kind_of(in->type);
	json_feed_init(&in->feed, 3, on_object, in);
	return true;
}

bool jupyter_take_content(struct jupyter_in *in, struct str piece)
{
	return json_feed(&in->feed, piece);
}

void jupyter_next(struct jupyter_in *in)
{
	if (in->values)
		buf_done(&in->values->bytes);
	free(in->values);
	in->values = NULL;
	budget_give(in->budget, in->granted);
	in->granted = 0;
	in->kind = JUPYTER_OTHER;
	in->parent[0] = in->type[0] = in->stream[0] = in->channel = '\0';
	in->is_idle = in->is_gone = in->is_error = in->is_aborted = in->is_cut = false;
	in->count = 0;
	in->part = PART_IDS;
	begin_part(in);
}
