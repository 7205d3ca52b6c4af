// SPDX-License-Identifier: Apache-2.0
/* One document read as each of the three: what is taken obeys the limits of I2, and only one of index and manifest fits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "image/manifest.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static bool check_manifest(struct str in)
{
	static struct manifest m;
	uint64_t sum = 0;

	if (manifest_parse(in, &m, &(struct err){ 0 }) < 0)
		return false;
	require(m.n_layers > 0 && m.n_layers <= MANIFEST_LAYERS_MAX && m.config.size <= MANIFEST_BYTES_MAX);
	for (size_t i = 0; i < m.n_layers; i++) {
		require(digest_valid(&m.layers[i].digest));
		sum += m.layers[i].size;
	}
	require(sum == m.layers_bytes && sum <= MANIFEST_BLOBS_MAX);
	return true;
}

static bool check_index(struct str in)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	const struct platform want = { "linux", "amd64" };
	struct index_entry entry;

	if (index_pick(in, &want, &a, &entry, &(struct err){ 0 }) < 0)
		return false;
	require(entry.blob.size <= MANIFEST_BYTES_MAX && entry.media_type[0] != '\0');
	return true;
}

static void check_config(struct str in)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	static struct image_config c;

	if (image_config_parse(in, &a, &c, &(struct err){ 0 }) < 0)
		return;
	require(c.n_diff_ids > 0 && c.n_diff_ids <= MANIFEST_LAYERS_MAX && c.env.n <= MANIFEST_ENV_MAX);
	for (size_t i = 0; i < c.env.n; i++)
		require(strchr(c.env.items[i], '=') && !strchr(c.env.items[i], '\n'));
	require(!c.workdir || c.workdir[0] == '/' || image_check_start(NULL, c.workdir, &(struct err){ 0 }) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };
	enum manifest_kind kind;
	bool is_manifest = check_manifest(in), is_index = check_index(in);

	require(!is_manifest || !is_index);
	if (manifest_kind(in, STR(""), &kind, &(struct err){ 0 }) == 0)
		require(kind == MANIFEST_INDEX ? !is_manifest : !is_index);
	check_config(in);
	return 0;
}
