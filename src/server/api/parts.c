// SPDX-License-Identifier: Apache-2.0
#include "server/api/parts.h"

#include "access/attempts.h"
#include "base/err.h"
#include "server/config/config.h"
#include "server/http/audit.h"
#include "server/http/service.h"
#include "server/model/plane.h"
#include "server/proxy/host_ports.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

static int load_keys(struct plane *p, struct err *e)
{
	const struct config_ingress *in = p->spec.ingress;
	const struct config_access_key *keys = in && in->has_secure_access ? in->secure_access.keys.items : NULL;

	p->attempts = attempts_new(e);
	if (!p->attempts)
		return -1;
	for (size_t i = 0; keys && i < in->secure_access.keys.n; i++)
		if (route_keys_add(&p->keys, keys[i].key_id[0], str_of(keys[i].key), e) < 0)
			return -1;
	return 0;
}

static void on_stream_timer(void *arg)
{
	struct plane *p = arg;

	proxy_look_at_streams(p);
	timer_in(&p->stream_timer, PROXY_LOOK_MS);
}

static int parts_open(struct plane *p, struct err *e)
{
	const struct config_ingress *in = p->spec.ingress;

	if (load_keys(p, e) < 0 || timer_init(&p->stream_timer, p->spec.loop, on_stream_timer, p, "long streams", e) < 0)
		return -1;
	if (in && in->host_ports) {
		p->host_ports = host_ports_new(p, p->spec.host, in->host_ports, e);
		if (!p->host_ports)
			return -1;
	}
	p->audit = audit_open(p->spec.state_dir, e);
	return p->audit ? 0 : -1;
}

static void parts_found(struct plane *p, struct sandbox *sb)
{
	if (p->host_ports)
		host_ports_adopt(p->host_ports, sb);
}

static void parts_recovered(struct plane *p)
{
	for (struct sandbox *sb = sandboxes_newest(p->sandboxes); sb; sb = sb->older)
		parts_found(p, sb);
	if (p->spec.renews_on_access)
		timer_in(&p->stream_timer, PROXY_LOOK_MS);
}

static void parts_gone(struct plane *p, struct sandbox *sb)
{
	proxy_gone(p, sb);
	host_ports_gone(p->host_ports, sb);
}

static void parts_denied(struct plane *p, const struct runtime_denial *d)
{
	if (p->audit)
		audit_denial(p->audit, d);
}

static void parts_stop(struct plane *p)
{
	timer_done(&p->stream_timer);
	tunnels_drop(p, NULL);
}

static void parts_close(struct plane *p)
{
	host_ports_free(p->host_ports);
	audit_close(p->audit);
	route_keys_done(&p->keys);
	attempts_free(p->attempts);
}

struct create_rules create_rules_of(const struct plane *p)
{
	return (struct create_rules){
		.runtime = p->spec.runtime, .max_timeout_s = p->spec.max_timeout_s, .ceilings = p->spec.ceilings,
		.snapshots = p->snapshots, .network = p->spec.network, .max_rules = p->spec.max_rules,
	};
}

struct create_rules create_volume_rules_of(const struct plane *p)
{
	struct create_rules rules = create_rules_of(p);

	rules.volumes = sandboxes_volumes(p->sandboxes);
	rules.host_paths = &p->spec.host_paths;
	rules.volume_bytes = p->spec.volume_bytes;
	return rules;
}

static int read_template(const struct plane *p, struct str template, struct arena *a, struct sandbox_order *ret, struct fault *f)
{
	const struct create_rules rules = create_rules_of(p);

	return template_order(template, &rules, a, ret, f);
}

static struct http_client *execd_of(struct plane *p, struct sandbox *sb, struct err *e)
{
	struct proxy_port *execd = proxy_port_of(p, sb, PORT_EXECD, e);

	return execd ? execd->client : NULL;
}

const struct plane_parts api_parts = {
	.open = parts_open, .recovered = parts_recovered, .found = parts_found, .gone = parts_gone, .denied = parts_denied, .stop = parts_stop,
	.close = parts_close, .read_template = read_template, .execd = execd_of,
};

void parts_audit(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	const struct plane *p = plane_of(rq);

	if (p && !str_is(rq->path, "/health"))
		audit_write(p->audit, rq, status, body_bytes);
}

void parts_audit_left_out(const struct plane *p, const char *what, uint64_t n)
{
	if (p)
		audit_left_out(p->audit, what, n);
}
