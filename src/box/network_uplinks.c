// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/network_impl.h"
#include "sys/fd.h"
#include "sys/link.h"
#include "sys/netns.h"
#include "sys/nft.h"

#include "base/banned.h"

#define UPLINKS_MAX 64
#define TABLE_PREFIX "opensandbox_"

struct uplinks {
	int index[UPLINKS_MAX];
	char name[UPLINKS_MAX][16];
	size_t n;
};

/* Whether packets that come in there are forwarded: 1, 0, or -1 where there is no such link. */
static int is_forwarding(const char *link)
{
	AUTO(buf_done) struct buf text = BUF_INIT(16);
	char path[80];

	(void)snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/forwarding", link);
	if (fd_read_file(AT_FDCWD, path, 16, &text, &(struct err){ 0 }) < 0 || text.n == 0)
		return -1;
	return text.p[0] == '1';
}

static int set_forwarding(const char *link, bool on, struct err *e)
{
	char path[64];
	const struct netns_setting setting = { path, on ? "1" : "0" };

	(void)snprintf(path, sizeof(path), "ipv4/conf/%s/forwarding", link);
	return netns_set(-1, -1, &setting, 1, e);
}

/* Every link that a route leads to; which one an answer comes in by is up to the world. */
static int take_route(const struct route_row *r, void *arg, struct err *e)
{
	struct uplinks *u = arg;

	(void)e;
	if (r->index <= 1 || r->protocol == ROUTE_PROTOCOL)
		return 0;
	for (size_t i = 0; i < u->n; i++)
		if (u->index[i] == r->index)
			return 0;
	if (u->n < UPLINKS_MAX)
		u->index[u->n++] = r->index;
	return 0;
}

static int take_element(const struct nft_row *row, void *arg, struct err *e)
{
	struct uplinks *u = arg;

	(void)e;
	if (u->n < UPLINKS_MAX && row->key.n == sizeof(u->name[0]) && row->key.p[15] == '\0')
		memcpy(u->name[u->n++], row->key.p, sizeof(u->name[0]));
	return 0;
}

static int change(const struct box_network *n, struct network_io *io, const char *link, bool add, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(n->table);
	char key[16] = { 0 };
	const struct nft_element el = { .key = key, .n_key = sizeof(key) };

	memcpy(key, link, strnlen(link, sizeof(key) - 1));
	if (add)
		nft_add(&b, "uplinks", &el);
	else
		nft_delete(&b, "uplinks", &el);
	return nft_commit(&io->nft, &b, e) < 0 && e->sys != ENOENT ? -1 : 0;
}

/* The host forwards by itself by now: what passes between others is its own business again. */
static int forget(const struct box_network *n, struct network_io *io, struct err *e)
{
	struct uplinks u = { .n = 0 };

	if (nft_list(&io->nft, n->table, "uplinks", take_element, &u, e) < 0)
		return -1;
	for (size_t i = 0; i < u.n; i++)
		if (change(n, io, u.name[i], false, e) < 0)
			return -1;
	return 0;
}

int network_open_uplinks(const struct box_network *n, struct network_io *io, struct err *e)
{
	struct uplinks u = { .n = 0 };
	struct link_row row;

	if (is_forwarding("all") == 1)
		return forget(n, io, e);
	if (route_list(&io->links, ROUTE_TABLE_MAIN, take_route, &u, e) < 0)
		return -1;
	for (size_t i = 0; i < u.n; i++) {
		if (link_by_index(&io->links, u.index[i], &row, e) < 0) {
			if (e->code == ERR_NOT_FOUND)
				continue;
			return -1;
		}
		if (row.group == n->owner || is_forwarding(row.name) != 0)
			continue;
		/* Noted first: there is no moment when it forwards for everybody. */
		if (change(n, io, row.name, true, e) < 0 || set_forwarding(row.name, true, e) < 0)
			return -1;
	}
	return 0;
}

/* Unless somebody else needs it as we did: another server's table. */
int network_close_uplinks(const struct box_network *n, struct network_io *io, struct err *e)
{
	struct uplinks u = { .n = 0 };
	int tables = nft_count_tables(&io->nft, TABLE_PREFIX, e);

	if (tables < 0)
		return -1;
	if (tables > 1 || is_forwarding("all") == 1)
		return 0;
	if (nft_list(&io->nft, n->table, "uplinks", take_element, &u, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	for (size_t i = 0; i < u.n; i++)
		if (is_forwarding(u.name[i]) == 1 && set_forwarding(u.name[i], false, e) < 0)
			return -1;
	return 0;
}
