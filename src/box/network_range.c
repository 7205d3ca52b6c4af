// SPDX-License-Identifier: Apache-2.0
/* Which addresses boxes have. A range is ours while its gateway is on the host's lo under our label; the number of the choice is
 * kept in the state directory, too, since boxes that run have their addresses from it, whatever becomes of the gateway. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/own.h"
#include "box/network_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define FILE_NAME "network"
#define FILE_MAX 64
#define CHOICES 512 /* networks of 17 bits in 10.0.0.0/8 */
#define PRIVATE 0x0a000000U

/* ---- names ---- */

static uint32_t mix(uint32_t h, const void *p, size_t n)
{
	const unsigned char *bytes = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * 16777619U;
	return h;
}

/* The table's name has no '-': nft would read it as a minus. A prefix has no '_', so no two become one. */
static void name_table(struct box_network *n)
{
	(void)snprintf(n->table, sizeof(n->table), "opensandbox_%s", n->prefix);
	for (char *p = n->table; *p; p++)
		if (*p == '-')
			*p = '_';
}

int network_name(struct box_network *n, const struct box_network_spec *spec, struct err *e)
{
	struct stat st;

	if (strlen(spec->prefix) > NETWORK_PREFIX_MAX)
		return err_set(e, ERR_INVALID, "prefix '%.20s' is longer than %d bytes", spec->prefix, NETWORK_PREFIX_MAX);
	if (spec->n_opened > NETWORK_OPENED_MAX)
		return err_set(e, ERR_LIMIT, "more than %d networks are opened", NETWORK_OPENED_MAX);
	if (stat(spec->state_dir, &st) < 0)
		return err_sys(e, errno, "look at '%s'", spec->state_dir);
	(void)snprintf(n->prefix, sizeof(n->prefix), "%s", spec->prefix);
	name_table(n);
	n->owner = mix(mix(2166136261U, &st.st_dev, sizeof(st.st_dev)), &st.st_ino, sizeof(st.st_ino));
	n->owner |= 1U << 30; /* no number that a person would give a group */
	n->owner &= INT32_MAX;
	for (; n->n_opened < spec->n_opened; n->n_opened++)
		if (route_net_parse(spec->opened[n->n_opened], &n->opened[n->n_opened], e) < 0)
			return -1;
	return 0;
}

static uint32_t routes_of(const struct route_net *range)
{
	return 0x6f000000U | ntohl(range->address) >> 8;
}

static void use(struct box_network *n, const struct route_net *range)
{
	n->range = *range;
	n->gateway = htonl(ntohl(range->address) + 1);
	n->routes = routes_of(range);
}

/* ---- what is there ---- */

int network_find_gateway(const struct route_address *a, void *arg, struct err *e)
{
	struct network_gateway *g = arg;

	(void)e;
	if (a->address == g->n->gateway)
		g->is_there = true;
	return g->is_there;
}

struct search {
	struct box_network *n;
	struct network_io *io;
	struct route_net range;
	char label[ROUTE_LABEL_MAX + 1];
	bool is_ours, is_taken;
};

/* The gateway of an earlier start. */
static int look_for_label(const struct route_address *a, void *arg, struct err *e)
{
	struct search *s = arg;

	(void)e;
	if (strcmp(a->label, s->label) != 0 || a->prefix != 32)
		return 0;
	s->range = (struct route_net){ htonl(ntohl(a->address) - 1), s->range.prefix };
	s->is_ours = true;
	return 1;
}

static int look_at_address(const struct route_address *a, void *arg, struct err *e)
{
	struct search *s = arg;
	const struct route_net net = { a->address, a->prefix };

	(void)e;
	s->is_taken = strcmp(a->label, s->label) != 0 && route_nets_overlap(&net, &s->range);
	return s->is_taken;
}

/* A default route leads everywhere and says nothing; neither does a route to more than all that we may choose from. Of ours are
 * those that an earlier start has left. */
static int look_at_route(const struct route_row *r, void *arg, struct err *e)
{
	struct search *s = arg;
	bool is_ours = r->protocol == ROUTE_PROTOCOL &&
		       (r->table == routes_of(&s->range) || (r->to.address == s->range.address && r->to.prefix == s->range.prefix));

	(void)e;
	s->is_taken = r->to.prefix > 8 && !is_ours && route_nets_overlap(&r->to, &s->range);
	return s->is_taken;
}

static int is_free(struct search *s, struct err *e)
{
	s->is_taken = false;
	if (route_list_addresses(&s->io->links, look_at_address, s, e) < 0)
		return -1;
	if (!s->is_taken && route_list(&s->io->links, 0, look_at_route, s, e) < 0)
		return -1;
	return !s->is_taken;
}

/* ---- the choice ---- */

static int read_choice(const char *state_dir, struct route_net *ret)
{
	AUTO(buf_done) struct buf text = BUF_INIT(FILE_MAX);
	AUTO_FD dir = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };

	if (dir < 0 || fd_read_file(dir, FILE_NAME, FILE_MAX, &text, &e) < 0 || text.n == 0)
		return 0;
	text.p[strcspn(text.p, "\n")] = '\0';
	return route_net_parse(text.p, ret, &e) == 0 && ret->prefix <= NETWORK_RANGE_BITS && ret->prefix >= 8;
}

static int write_choice(const char *state_dir, const struct route_net *range, struct err *e)
{
	AUTO_FD dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char net[ROUTE_NET_TEXT], text[ROUTE_NET_TEXT + 2];

	if (dir < 0)
		return err_sys(e, errno, "open '%s'", state_dir);
	route_net_write(range, net);
	(void)snprintf(text, sizeof(text), "%s\n", net);
	return file_replace(dir, FILE_NAME, str_of(text), 0600, e);
}

/* 1: claimed, 0: it is another's. */
static int try_range(struct search *s, const struct route_net *range, struct err *e)
{
	int r;

	s->range = *range;
	r = is_free(s, e);
	if (r <= 0)
		return r;
	use(s->n, range);
	if (network_claim(s->n, s->io, e) == 0)
		return 1;
	return e->sys == EEXIST ? 0 : -1;
}

static int choose_anew(struct search *s, struct err *e)
{
	uint32_t first = mix(2166136261U, s->n->prefix, strlen(s->n->prefix)) ^ s->n->owner;

	for (uint32_t i = 0; i < CHOICES; i++) {
		struct route_net range = { htonl(PRIVATE | ((first + i) % CHOICES) << 15), NETWORK_RANGE_BITS };
		int r = try_range(s, &range, e);

		if (r != 0)
			return r < 0 ? -1 : 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "no part of 10.0.0.0/8 is free for the addresses of sandboxes");
}

/* What the operator says, or what was chosen before. */
static int use_given(struct search *s, const struct route_net *range, bool is_demanded, struct err *e)
{
	char text[ROUTE_NET_TEXT];
	int r = try_range(s, range, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (!is_demanded)
		return choose_anew(s, e);
	route_net_write(range, text);
	return err_set(e, ERR_CONFLICT, "the range %s is in use on this host", text);
}

static int pick(struct search *s, const struct box_network_spec *spec, struct err *e)
{
	struct route_net range;

	if (spec->range) {
		if (route_net_parse(spec->range, &range, e) < 0)
			return -1;
		if (range.prefix > NETWORK_RANGE_BITS || range.prefix < 8)
			return err_set(e, ERR_INVALID, "the range '%s' needs a prefix from 8 to %d", spec->range, NETWORK_RANGE_BITS);
		return use_given(s, &range, true, e);
	}
	return read_choice(spec->state_dir, &range) ? use_given(s, &range, false, e) : choose_anew(s, e);
}

/* A claim that is there holds, whatever the configuration says by now: boxes may have their addresses from it. */
int network_choose(struct box_network *n, struct network_io *io, const struct box_network_spec *spec, struct err *e)
{
	struct search s = { .n = n, .io = io, .range = { 0, NETWORK_RANGE_BITS } };
	struct route_net noted;

	(void)snprintf(s.label, sizeof(s.label), "lo:%s", n->prefix);
	if (route_list_addresses(&io->links, look_for_label, &s, e) < 0)
		return -1;
	if (s.is_ours) {
		if (read_choice(spec->state_dir, &noted) && noted.address == s.range.address)
			s.range = noted;
		use(n, &s.range);
		return 0;
	}
	if (pick(&s, spec, e) < 0)
		return -1;
	KILL_POINT("warden.network.claimed");
	return write_choice(spec->state_dir, &n->range, e);
}

int box_network_is_there(const char *prefix, struct err *e)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	struct search s = { .is_ours = false };

	(void)snprintf(s.label, sizeof(s.label), "lo:%s", prefix);
	if (netlink_open(&links, NETLINK_ROUTE, -1, e) < 0 || route_list_addresses(&links, look_for_label, &s, e) < 0)
		return -1;
	return s.is_ours;
}
