// SPDX-License-Identifier: Apache-2.0
/* Parses and writes a document of about 1 MB of sandbox-like objects, with ours and with jansson in turn, and
 * prints the best round of each as one JSON object per line. Parsing includes freeing the tree; both write into
 * memory that is there already. */

/* Both sides have these names; of jansson's, none is used here. */
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_REAL JANSSON_REAL
#define JSON_NULL JANSSON_NULL
#define json_real jansson_real
#define json_null jansson_null
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_REAL
#undef JSON_NULL
#undef json_real
#undef json_null

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

#define DOCUMENT_BYTES (1024 * 1024)
#define ROUNDS 60
#define MEMORY_MAX ((size_t)64 * 1024 * 1024)
#define VALUES_MAX ((size_t)1024 * 1024)

static const struct json_limits limits = { .values = VALUES_MAX };

static double now_s(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return *state >> 33;
}

static void add_sandbox(struct json_out *o, uint64_t *seed)
{
	static const char *const states[] = { "Running", "Paused", "Pending", "Terminated" };
	char id[40];

	(void)snprintf(id, sizeof(id), "%08x-%04x-4a1c-9d2e-%012llx", (unsigned)next_random(seed),
		       (unsigned)next_random(seed) & 0xffff, (unsigned long long)next_random(seed));
	json_open(o, '{');
	json_key(o, "id"), json_cstr(o, id);
	json_key(o, "image"), json_open(o, '{');
	json_key(o, "uri"), json_cstr(o, "registry.example.com/team/code-interpreter:v1.0.2");
	json_close(o, '}');
	json_key(o, "status"), json_open(o, '{');
	json_key(o, "state"), json_cstr(o, states[next_random(seed) % 4]);
	json_key(o, "reason"), json_null(o);
	json_key(o, "message");
	json_cstr(o, "line one\nsays \"ready\" in C:\\work\t\xc3\xa9t\xc3\xa9 \xe6\xb2\x99\xe7\xae\xb1");
	json_close(o, '}');
	json_key(o, "entrypoint"), json_open(o, '[');
	json_cstr(o, "/usr/bin/env"), json_cstr(o, "python3"), json_cstr(o, "-c"), json_cstr(o, "print(\"hello\")");
	json_close(o, ']');
	json_key(o, "timeout"), json_int(o, 60 + (int64_t)(next_random(seed) % 86340));
	json_key(o, "createdAt"), json_cstr(o, "2026-06-15T10:00:00.000001Z");
	json_key(o, "memoryBytes"), json_uint(o, next_random(seed) << 8);
	json_key(o, "cpu"), json_real(o, (double)(next_random(seed) % 6400) / 100);
	json_key(o, "load"), json_real(o, (double)next_random(seed) / 2147483648.0);
	json_key(o, "secure"), json_bool(o, next_random(seed) % 2);
	json_key(o, "metadata"), json_open(o, '{');
	json_key(o, "team"), json_cstr(o, "platform"), json_key(o, "env"), json_cstr(o, "staging");
	json_key(o, "app.kubernetes.io/name"), json_cstr(o, "worker");
	json_close(o, '}');
	json_key(o, "ports"), json_open(o, '[');
	for (int i = 0; i < 4; i++)
		json_int(o, (int64_t)(next_random(seed) % 65536));
	json_close(o, ']');
	json_close(o, '}');
}

static void build_document(struct buf *b)
{
	struct json_out o = json_out(b);
	uint64_t seed = 1;

	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	while (b->n < DOCUMENT_BYTES)
		add_sandbox(&o, &seed);
	json_close(&o, ']');
	json_close(&o, '}');
}

static void die(const char *what)
{
	(void)fprintf(stderr, "bench json: %s\n", what);
	exit(1);
}

static double parse_ours(struct str text)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY_MAX);
	double start = now_s();
	struct err e;

	if (!json_parse(&a, text, &limits, NULL, &e))
		die(e.msg);
	arena_done(&a);
	return now_s() - start;
}

static double parse_theirs(struct str text)
{
	double start = now_s();
	json_error_t error;
	json_t *root = json_loadb(text.p, text.n, 0, &error);

	if (!root)
		die(error.text);
	json_decref(root);
	return now_s() - start;
}

static double write_ours(const struct json *v, struct buf *out)
{
	struct json_out o = json_out(out);
	double start = now_s();

	buf_clear(out);
	json_tree(&o, v);
	if (out->failed)
		die("write failed");
	return now_s() - start;
}

static double write_theirs(const json_t *v, struct buf *out)
{
	double start = now_s();

	out->n = json_dumpb(v, out->p, out->cap, JSON_COMPACT);
	if (out->n == 0 || out->n > out->cap)
		die("jansson: write failed");
	return now_s() - start;
}

static void report(const char *name, double ours, double theirs)
{
	printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"MB/s\",\"baseline\":\"jansson\",\"baseline_value\":%.1f,"
	       "\"ratio\":%.2f,\"goal\":1.0}\n",
	       name, ours, theirs, ours / theirs);
}

int main(void)
{
	AUTO(buf_done) struct buf b = BUF_INIT(MEMORY_MAX);
	AUTO(buf_done) struct buf ours_out = BUF_INIT(MEMORY_MAX), theirs_out = BUF_INIT(MEMORY_MAX);
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY_MAX);
	double best[4] = { 1e9, 1e9, 1e9, 1e9 };
	struct json *mine;
	json_t *theirs;
	struct err e;

	build_document(&b);
	mine = json_parse(&a, buf_str(&b), &limits, NULL, &e);
	theirs = json_loadb(b.p, b.n, 0, NULL);
	if (!mine || !theirs)
		die(mine ? "jansson: parse failed" : e.msg);
	if (!buf_reserve(&ours_out, 2 * b.n) || !buf_reserve(&theirs_out, 2 * b.n))
		die("out of memory");
	for (int i = 0; i < ROUNDS; i++) {
		best[0] = MIN(best[0], parse_ours(buf_str(&b)));
		best[1] = MIN(best[1], parse_theirs(buf_str(&b)));
		best[2] = MIN(best[2], write_ours(mine, &ours_out));
		best[3] = MIN(best[3], write_theirs(theirs, &theirs_out));
	}
	json_decref(theirs);
	report("json.parse", (double)b.n / 1e6 / best[0], (double)b.n / 1e6 / best[1]);
	report("json.write", (double)ours_out.n / 1e6 / best[2], (double)theirs_out.n / 1e6 / best[3]);
	return 0;
}
