// SPDX-License-Identifier: Apache-2.0
/* What the C library makes of an answer: the first byte chooses a table, the rest is the body. What can be read can be shown, and
 * that is JSON; everything is an error in some way or another, which has a message. The body is tried as an address, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "client/model.h"
#include "client/models.h"
#include "client/op.h"
#include "client/remote.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const void *result)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)64 << 20);
	char *json = osb_to_json(result);

	if (!json || !json_parse(&a, str_of(json), NULL, NULL, &(struct err){ 0 }))
		abort();
	free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct model *const models[] = { &sandbox_info_model, &sandboxes_model, &forks_model, &expiry_model, &endpoint_model,
						      &diagnostics_model, &snapshot_model, &snapshots_model };
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)64 << 20);
	struct str body = str_skip((struct str){ (const char *)data, size }, 1);
	struct osb_error e = { 0 };
	const struct json *v;
	struct address address;
	void *result;

	if (size < 1)
		return 0;
	v = json_parse(&a, body, NULL, NULL, &(struct err){ 0 });
	result = v ? model_read(models[data[0] % ARRAY_LEN(models)], v, &(struct err){ 0 }) : NULL;
	if (result)
		show(result);
	osb_free(result);
	error_from_answer(&e, 500, body);
	if (e.kind != OSB_ANSWER || !*e.code || !*e.message)
		abort();
	if (address_parse(body, &address, &(struct err){ 0 }) == 0 && (!*address.host || address.port > 65535))
		abort();
	return 0;
}
