// SPDX-License-Identifier: Apache-2.0
#include "ingress/metrics.h"

#include <sys/resource.h>

#include "base/buf.h"
#include "ingress/gateway.h"
#include "ingress/intents.h"
#include "ingress/lookup.h"

#include "base/banned.h"

static const unsigned bounds_ms[METRIC_BUCKETS] = { 1, 5, 10, 50, 100, 500, 1000, 5000, 30000, 300000 };

void histogram_add(struct histogram *h, uint64_t ms)
{
	size_t i = 0;

	while (i < METRIC_BUCKETS && ms > bounds_ms[i])
		i++;
	h->counts[i]++;
	h->sum_ms += ms;
}

static void write_head(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_one(struct buf *b, const char *name, const char *type, const char *help, uint64_t value)
{
	write_head(b, name, type, help);
	buf_addf(b, "%s %llu\n", name, (unsigned long long)value);
}

static void write_histogram(struct buf *b, const char *name, const char *help, const struct histogram *h)
{
	uint64_t n = 0;

	write_head(b, name, "histogram", help);
	for (size_t i = 0; i < METRIC_BUCKETS; i++) {
		n += h->counts[i];
		buf_addf(b, "%s_bucket{le=\"%g\"} %llu\n", name, bounds_ms[i] / 1000.0, (unsigned long long)n);
	}
	n += h->counts[METRIC_BUCKETS];
	buf_addf(b, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.3f\n%s_count %llu\n", name, (unsigned long long)n, name,
		 (double)h->sum_ms / 1000.0, name, (unsigned long long)n);
}

static void write_requests(struct buf *b, const struct metrics *m)
{
	static const char *const classes[] = { "gone", "1xx", "2xx", "3xx", "4xx", "5xx" };
	static const char *const results[] = { "ready", "not_ready", "not_found", "failed" };

	write_head(b, "ingress_http_request_count", "counter", "Requests, by the class of their status.");
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		buf_addf(b, "ingress_http_request_count{status=\"%s\"} %llu\n", classes[i], (unsigned long long)m->requests[i]);
	write_histogram(b, "ingress_http_request_duration", "Seconds from the head of a request to the end of its answer.", &m->request_ms);
	write_head(b, "ingress_routing_resolutions_count", "counter", "Sandboxes that were looked up.");
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		buf_addf(b, "ingress_routing_resolutions_count{result=\"%s\"} %llu\n", results[i], (unsigned long long)m->resolutions[i]);
	write_histogram(b, "ingress_routing_resolution_duration", "Seconds until it was known where a sandbox is.", &m->resolution_ms);
}

static void write_system(struct buf *b)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return;
	write_head(b, "ingress_system_cpu_usage", "counter", "Seconds of CPU time.");
	buf_addf(b, "ingress_system_cpu_usage %.6f\n",
		 (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	write_one(b, "ingress_system_memory_usage_bytes", "gauge", "The most that it has used.", (uint64_t)u.ru_maxrss * 1024);
}

void gateway_metrics_write(const struct gateway *g, struct buf *b)
{
	const struct metrics *m = &g->metrics;
	struct lookup_counts l = lookup_counts(g->lookup);
	struct intents_counts n = intents_counts(g->spec.intents);
	struct http_counts h = { 0 };

	if (g->http)
		h = http_server_counts(g->http);
	write_requests(b, m);
	write_one(b, "ingress_proxy_http_requests_total", "counter", "Requests that were sent on.", m->http);
	write_one(b, "ingress_proxy_websocket_connections_total", "counter", "WebSockets that were sent on.", m->websockets);
	write_one(b, "ingress_access_denied_total", "counter", "Requests without the right token or signature.", m->denied);
	write_one(b, "ingress_access_limited_total", "counter", "Requests of peers that have guessed too often.", m->limited);
	write_one(b, "ingress_lookup_searches_total", "counter", "Questions to the servers.", l.asked);
	write_one(b, "ingress_lookup_hits_total", "counter", "Answers that were still known.", l.hits);
	write_one(b, "ingress_lookup_failed_total", "counter", "Lookups that failed.", l.failed);
	write_one(b, "ingress_lookup_entries", "gauge", "Sandboxes that are known.", l.entries);
	write_one(b, "ingress_renew_intents_sent_total", "counter", "Renewals that Redis has taken.", n.sent);
	write_one(b, "ingress_renew_intents_failed_total", "counter", "Renewals that it has not.", n.failed);
	write_one(b, "ingress_renew_intents_dropped_total", "counter", "Renewals that were not even sent.", n.dropped);
	write_one(b, "ingress_connections", "gauge", "Connections of clients.", h.connections);
	write_one(b, "ingress_connections_refused_total", "counter", "Connections beyond a limit.", h.refused);
	write_system(b);
}
