// SPDX-License-Identifier: Apache-2.0
#include "box/network.h"

#include <arpa/inet.h>
#include <linux/ip.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/own.h"
#include "base/str.h"
#include "box/network_impl.h"
#include "box/network_rules.h"
#include "box/slot.h"
#include "sys/memfd.h"
#include "sys/netns.h"
#include "sys/nft.h"

#include "base/banned.h"

#define TABLE_TEXT_MAX ((size_t)64 * 1024)
#define RULE_PRIORITY 5000
#define INSIDE "eth0"

/* Of both ends of every pair: neither has to ask for the other's. */
static const uint8_t mac[LINK_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };

/* ---- names ---- */

uint32_t box_network_address(const struct box_network *n, unsigned number)
{
	return htonl(ntohl(n->range.address) + NETWORK_FIRST + number);
}

int box_network_number(const struct box_network *n, uint32_t address)
{
	uint32_t at = ntohl(address) - ntohl(n->range.address) - NETWORK_FIRST;

	return at < SLOT_NUMBER_MAX ? (int)at : -1;
}

void box_network_link(const struct box_network *n, unsigned number, char out[LINK_NAME_MAX + 1])
{
	(void)snprintf(out, LINK_NAME_MAX + 1, "%s_%x", n->prefix, number); /* 16,383 has four digits */
}

/* ---- the table ---- */

int network_rules_write(struct str rules, struct err *e)
{
	const char *const argv[] = { "nft", "-f", "-", NULL };
	AUTO_FD fd = memfd_sealed_bytes("rules", rules, e);
	int r;

	if (fd < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "rewind the rules");
	r = network_run(argv, fd, e);
	return r > 0 ? err_set(e, ERR_UNAVAILABLE, "nft ended with status %d", r) : r;
}

static int write_table(struct box_network *n, struct network_io *io, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TABLE_TEXT_MAX);

	box_network_table(n, &text);
	if (text.failed)
		return err_set(e, ERR_LIMIT, "the rules have more than %zu bytes", TABLE_TEXT_MAX);
	if (network_rules_write(buf_str(&text), e) < 0)
		return -1;
	n->n_rules = nft_count_rules(&io->nft, n->table, e);
	return n->n_rules < 0 ? -1 : 0;
}

/* ---- what all boxes share ---- */

static struct route range_route(const struct box_network *n)
{
	return (struct route){ .kind = ROUTE_UNREACHABLE, .to = n->range };
}

static struct route_rule range_rule(const struct box_network *n)
{
	return (struct route_rule){ .to = n->range, .mark = NETWORK_MARK, .table = n->routes, .priority = RULE_PRIORITY };
}

static void label_of(const struct box_network *n, char out[ROUTE_LABEL_MAX + 1])
{
	(void)snprintf(out, ROUTE_LABEL_MAX + 1, "lo:%s", n->prefix);
}

/* The gateway is the claim: of two who want the same range, one is told that it is there. */
int network_claim(const struct box_network *n, struct network_io *io, struct err *e)
{
	char label[ROUTE_LABEL_MAX + 1];
	int lo = link_index(&io->links, "lo", e);

	label_of(n, label);
	return lo < 0 ? -1 : route_add_address(&io->links, lo, n->gateway, label, e);
}

/* Rules first, then whatever could lead a packet. */
static int put_up(struct box_network *n, struct network_io *io, struct err *e)
{
	const struct route unreachable = range_route(n);
	const struct route_rule rule = range_rule(n);

	if (write_table(n, io, e) < 0)
		return -1;
	KILL_POINT("warden.network.table");
	if (route_add(&io->links, &unreachable, e) < 0 || route_add_rule(&io->links, &rule, e) < 0)
		return -1;
	KILL_POINT("warden.network.routes");
	return network_open_uplinks(n, io, e) < 0 ? -1 : network_pass_docker(n, io, e);
}

static int network_io_open(struct network_io *io, struct err *e)
{
	return netlink_open(&io->links, NETLINK_ROUTE, -1, e) < 0 ? -1 : nft_open(&io->nft, -1, e);
}

static void network_io_done(struct network_io *io)
{
	netlink_done(&io->links);
	netlink_done(&io->nft);
}
DEFINE_AUTO_DONE(struct network_io, network_io_done)

int box_network_open(struct box_network *n, const struct box_network_spec *spec, struct err *e)
{
	AUTO(network_io_done) struct network_io io = NETWORK_IO_INIT;

	*n = (struct box_network){ 0 };
	if (network_io_open(&io, e) < 0 || network_name(n, spec, e) < 0 || network_choose(n, &io, spec, e) < 0)
		return err_wrap(e, "prepare the network of sandboxes");
	if (put_up(n, &io, e) < 0) {
		(void)box_network_remove(n, &(struct err){ 0 }); /* unless there are boxes, which then stay closed */
		return err_wrap(e, "prepare the network of sandboxes");
	}
	n->is_on = true;
	return 0;
}

static int is_gateway_there(const struct box_network *n, struct network_io *io, struct err *e)
{
	struct network_gateway g = { .n = n };

	return route_list_addresses(&io->links, network_find_gateway, &g, e) < 0 ? -1 : g.is_there;
}

int box_network_check(const struct box_network *n, struct netlink *nft, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	struct network_io io = { .nft = *nft };
	int rules = nft_count_rules(&io.nft, n->table, e), r;

	if (rules != n->n_rules)
		r = rules < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
	else if (netlink_open(&links, NETLINK_ROUTE, -1, e) < 0)
		r = -1;
	else {
		io.links = links;
		r = is_gateway_there(n, &io, e);
	}
	if (r > 0)
		r = network_open_uplinks(n, &io, e) < 0 ? -1 : network_is_let_by(n, &io, e);
	nft->seq = io.nft.seq;
	return r;
}

int box_network_repair(struct box_network *n, struct err *e)
{
	AUTO(network_io_done) struct network_io io = NETWORK_IO_INIT;
	int has_gateway;

	if (network_io_open(&io, e) < 0)
		return -1;
	has_gateway = is_gateway_there(n, &io, e);
	if (has_gateway < 0 || (!has_gateway && network_claim(n, &io, e) < 0))
		return -1;
	return put_up(n, &io, e);
}

int box_network_try(struct err *e)
{
	static const struct box_network_spec spec = { .prefix = "trial", .state_dir = "/" };
	static const struct route_net range = { .prefix = NETWORK_RANGE_BITS };
	AUTO(network_io_done) struct network_io io = NETWORK_IO_INIT;
	struct box_network n = { 0 };

	n.range = range;
	n.range.address = htonl(0x0a000000);
	n.gateway = htonl(0x0a000001);
	if (network_io_open(&io, e) < 0 || network_name(&n, &spec, e) < 0)
		return -1;
	return write_table(&n, &io, e);
}

/* Boxes that this process knows nothing of have links, too. */
static int wait_for_links(const struct box_network *n, struct network_io *io, struct err *e)
{
	const uint64_t until = clock_mono_ms() + NETWORK_LINKS_MS;
	char prefix[LINK_NAME_MAX + 1];
	struct link_row row;
	size_t count;

	(void)snprintf(prefix, sizeof(prefix), "%s_", n->prefix);
	for (;;) {
		if (link_list(&io->links, prefix, &row, 1, &count, e) == 0 && count == 0)
			return 0;
		if (clock_mono_ms() >= until)
			return err_set(e, ERR_CONFLICT, "there are links of sandboxes");
		(void)poll(NULL, 0, 10);
	}
}

/* In the opposite order: the table goes last. */
int box_network_remove(const struct box_network *n, struct err *e)
{
	AUTO(network_io_done) struct network_io io = NETWORK_IO_INIT;
	const struct route unreachable = range_route(n);
	const struct route_rule rule = range_rule(n);
	int lo = network_io_open(&io, e) < 0 ? -1 : link_index(&io.links, "lo", e);

	if (lo < 0 || wait_for_links(n, &io, e) < 0 || network_close_uplinks(n, &io, e) < 0 ||
	    network_leave_docker(n, &io, e) < 0 || route_delete_rule(&io.links, &rule, e) < 0 ||
	    route_delete(&io.links, &unreachable, e) < 0)
		return -1;
	KILL_POINT("warden.network.unrouted");
	if (nft_delete_table(&io.nft, n->table, e) < 0)
		return -1;
	KILL_POINT("warden.network.untabled");
	return route_delete_address(&io.links, lo, n->gateway, e);
}

/* ---- one box ---- */

void box_network_pair(const struct box_network *n, unsigned number, struct network_pair *ret)
{
	*ret = (struct network_pair){ .address = box_network_address(n, number) };
	box_network_link(n, number, ret->link);
}

static int set_up_outside(const struct box_network *n, struct netlink *links, unsigned number, const char *name, struct err *e)
{
	static const struct link_setting settings[] = {
		{ IPV4_DEVCONF_FORWARDING, 1 },       { IPV4_DEVCONF_RP_FILTER, 1 },      { IPV4_DEVCONF_SRC_VMARK, 1 },
		{ IPV4_DEVCONF_SEND_REDIRECTS, 0 },   { IPV4_DEVCONF_ACCEPT_REDIRECTS, 0 }, { IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0 },
		{ IPV4_DEVCONF_ROUTE_LOCALNET, 0 },   { IPV4_DEVCONF_PROXY_ARP, 0 },
	};
	char path[64];
	const struct netns_setting no_ipv6 = { path, "1" };
	struct route r = { .kind = ROUTE_LINK, .to = { box_network_address(n, number), 32 }, .table = n->routes };

	r.index = link_index(links, name, e);
	if (r.index < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "ipv6/conf/%s/disable_ipv6", name);
	if (netns_set(-1, -1, &no_ipv6, 1, e) < 0 && e->code != ERR_NOT_FOUND) /* a kernel without it has nothing to turn off */
		return -1;
	if (link_set_ipv4(links, r.index, settings, ARRAY_LEN(settings), e) < 0 ||
	    link_set_up_noarp(links, r.index, e) < 0)
		return -1;
	return route_add(links, &r, e);
}

/* What of it is there stays. */
static int set_up_inside(const struct box_network *n, unsigned number, struct netlink *inside, struct err *e)
{
	const uint32_t address = box_network_address(n, number);
	struct link_ip ip = { .family = AF_INET, .prefix = 32 };
	struct link_route way = { .to = { .family = AF_INET }, .via = { .family = AF_INET, .prefix = 32 }, .is_onlink = true };

	way.index = link_index(inside, INSIDE, e);
	memcpy(ip.bytes, &address, sizeof(address));
	memcpy(way.via.bytes, &n->gateway, sizeof(n->gateway));
	if (way.index < 0 || (link_add_address(inside, way.index, &ip, e) < 0 && e->sys != EEXIST) ||
	    link_set_up_noarp(inside, way.index, e) < 0)
		return -1;
	return link_add_route(inside, &way, e) < 0 && e->sys != EEXIST ? -1 : 0;
}

/* A link that has the name but neither our group nor our kind is somebody else's. */
static int delete_link(const struct box_network *n, struct netlink *links, unsigned number, struct err *e)
{
	char name[LINK_NAME_MAX + 1];
	struct link_row row;

	box_network_link(n, number, name);
	if (link_find(links, name, &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (row.group != n->owner || strcmp(row.kind, "veth") != 0)
		return 0;
	return link_delete(links, row.index, e) < 0 && e->sys != ENODEV ? -1 : 0;
}

int box_network_attach(const struct box_network *n, unsigned number, const struct box_inside *inside, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	static const struct netns_setting no_ipv6 = { "ipv6/conf/default/disable_ipv6", "1" };
	char name[LINK_NAME_MAX + 1];
	struct link_end out = { .name = name, .netns = -1, .group = n->owner };
	struct link_end in = { .name = INSIDE, .netns = inside->netns };

	box_network_link(n, number, name);
	memcpy(out.mac, mac, sizeof(mac));
	memcpy(in.mac, mac, sizeof(mac));
	if (netns_set(inside->netns, inside->proc, &no_ipv6, 1, e) < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (netlink_open(&links, NETLINK_ROUTE, -1, e) < 0)
		return -1;
	if (link_make_veth(&links, &out, &in, 0, e) < 0 &&
	    (e->sys != EEXIST || delete_link(n, &links, number, e) < 0 || link_make_veth(&links, &out, &in, 0, e) < 0))
		return -1;
	KILL_POINT("warden.slot.link");
	return set_up_inside(n, number, inside->links, e) < 0 || set_up_outside(n, &links, number, name, e) < 0 ? -1 : 0;
}

int box_network_detach(const struct box_network *n, unsigned number, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;

	return netlink_open(&links, NETLINK_ROUTE, -1, e) < 0 ? -1 : delete_link(n, &links, number, e);
}

/* "osb_1f" is 31; -1 for a name that box_network_link() does not write. */
static int number_of(const struct box_network *n, const char *name)
{
	char again[LINK_NAME_MAX + 1];
	uint64_t number;

	if (!str_to_hex64(str_of(name + strlen(n->prefix) + 1), &number) || number >= SLOT_NUMBER_MAX)
		return -1;
	box_network_link(n, (unsigned)number, again);
	return strcmp(again, name) == 0 ? (int)number : -1;
}

int box_network_list(const struct box_network *n, unsigned **ret, size_t *ret_n, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	AUTO(free) struct link_row *rows = calloc(SLOT_NUMBER_MAX, sizeof(*rows));
	AUTO(free) unsigned *numbers = calloc(SLOT_NUMBER_MAX, sizeof(*numbers));
	char prefix[LINK_NAME_MAX + 1];
	size_t n_rows = 0, count = 0;

	if (!rows || !numbers)
		return err_no_memory(e);
	(void)snprintf(prefix, sizeof(prefix), "%s_", n->prefix);
	if (netlink_open(&links, NETLINK_ROUTE, -1, e) < 0 || link_list(&links, prefix, rows, SLOT_NUMBER_MAX, &n_rows, e) < 0)
		return -1;
	for (size_t i = 0; i < n_rows; i++) {
		int number = rows[i].group == n->owner ? number_of(n, rows[i].name) : -1;

		if (number >= 0)
			numbers[count++] = (unsigned)number;
	}
	*ret = take_ptr(&numbers);
	*ret_n = count;
	return 0;
}

/* ---- links that somebody else has changed ---- */

struct ways {
	const struct box_network *n;
	unsigned char *has_route; /* by number */
};

static int take_way(const struct route_row *r, void *arg, struct err *e)
{
	const struct ways *w = arg;
	int number = r->to.prefix == 32 && r->index > 0 ? box_network_number(w->n, r->to.address) : -1;

	(void)e;
	if (number >= 0)
		w->has_route[number] = 1;
	return 0;
}

static int find_up(const struct box_network *n, struct netlink *links, unsigned char *is_up, struct err *e)
{
	AUTO(free) struct link_row *rows = calloc(SLOT_NUMBER_MAX, sizeof(*rows));
	char prefix[LINK_NAME_MAX + 1];
	size_t n_rows = 0;

	if (!rows)
		return err_no_memory(e);
	(void)snprintf(prefix, sizeof(prefix), "%s_", n->prefix);
	if (link_list(links, prefix, rows, SLOT_NUMBER_MAX, &n_rows, e) < 0)
		return -1;
	for (size_t i = 0; i < n_rows; i++) {
		int number = rows[i].group == n->owner ? number_of(n, rows[i].name) : -1;

		if (number >= 0 && rows[i].is_up && rows[i].has_carrier)
			is_up[number] = 1;
	}
	return 0;
}

int box_network_find_broken(const struct box_network *n, const unsigned char *want, unsigned char *broken, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	AUTO(free) unsigned char *is_up = calloc(2, SLOT_NUMBER_MAX);
	struct ways w = { n, is_up ? is_up + SLOT_NUMBER_MAX : NULL };
	const struct route unreachable = range_route(n);
	const struct route_rule rule = range_rule(n);

	if (!is_up)
		return err_no_memory(e);
	if (netlink_open(&links, NETLINK_ROUTE, -1, e) < 0 || route_add(&links, &unreachable, e) < 0 ||
	    route_add_rule(&links, &rule, e) < 0 || find_up(n, &links, is_up, e) < 0 ||
	    route_list(&links, n->routes, take_way, &w, e) < 0)
		return -1;
	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++)
		broken[i] = want[i] && !(is_up[i] && w.has_route[i]);
	return 0;
}

static bool is_ours(const struct box_network *n, struct netlink *links, const char *name)
{
	struct link_row row;

	return link_find(links, name, &row, &(struct err){ 0 }) == 0 && row.group == n->owner && strcmp(row.kind, "veth") == 0;
}

int box_network_mend(const struct box_network *n, unsigned number, int netns, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	AUTO(netlink_done) struct netlink inside = NETLINK_INIT;
	char name[LINK_NAME_MAX + 1];

	box_network_link(n, number, name);
	if (netlink_open(&links, NETLINK_ROUTE, -1, e) < 0 || netlink_open(&inside, NETLINK_ROUTE, netns, e) < 0)
		return -1;
	if (is_ours(n, &links, name))
		return set_up_outside(n, &links, number, name, e) < 0 ? -1 : set_up_inside(n, number, &inside, e);
	return box_network_attach(n, number, &(struct box_inside){ netns, -1, &inside }, e);
}

int box_network_turn_off(int netns, struct err *e)
{
	AUTO(netlink_done) struct netlink inside = NETLINK_INIT;
	int index;

	if (netlink_open(&inside, NETLINK_ROUTE, netns, e) < 0)
		return -1;
	index = link_index(&inside, INSIDE, e);
	if (index < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	return link_set_up(&inside, index, false, e);
}
