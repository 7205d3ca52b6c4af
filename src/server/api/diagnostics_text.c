// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/rfc3339.h"
#include "server/api/diagnostics.h"

#include "base/banned.h"

static void add_time(struct buf *b, int64_t us)
{
	char text[RFC3339_SIZE];

	(void)rfc3339_format(timespec_from_us(us), text);
	buf_add_str(b, str_of(text));
}

static bool is_in(const struct sandbox_event *ev, unsigned scopes)
{
	return scopes & (1U << ev->scope);
}

/* One line, whatever it is: nothing that a client or a sandbox chose reads as a line of ours. */
static void text_line(struct buf *b, struct str s)
{
	while (s.n > 0) {
		char room[ESCAPE_SIZE];
		size_t n = 1;
		struct str shown = escape_next(s, room, &n);

		buf_add_str(b, s.p[0] == '"' || s.p[0] == '\\' ? str_first(s, n) : shown);
		s = str_skip(s, n);
	}
}

void text_events(struct buf *b, const struct sandbox *sb, unsigned scopes, unsigned limit)
{
	size_t n = 0, skip;

	for (const struct sandbox_event *ev = sb->oldest_event; ev; ev = ev->next)
		n += is_in(ev, scopes);
	skip = n > limit ? n - limit : 0;
	for (const struct sandbox_event *ev = sb->oldest_event; ev; ev = ev->next) {
		if (!is_in(ev, scopes))
			continue;
		if (skip > 0) {
			skip--;
			continue;
		}
		add_time(b, ev->at_us);
		buf_addf(b, " %s %s ", event_scope_name(ev->scope), ev->type);
		text_line(b, str_of(ev->message));
		buf_add_char(b, '\n');
	}
}

static void line_time(struct buf *b, const char *key, int64_t us)
{
	buf_addf(b, "%s: ", key);
	add_time(b, us);
	buf_add_char(b, '\n');
}

static void add_words(struct buf *b, const char *key, const struct string_list *l)
{
	buf_addf(b, "%s:", key);
	for (size_t i = 0; i < l->n; i++) {
		buf_add_char(b, ' ');
		text_line(b, str_of(l->items[i]));
	}
	buf_add_char(b, '\n');
}

static void add_volume(struct buf *b, const struct row_volume *v)
{
	buf_addf(b, "volume: %s, %s ", v->name, v->kind == ROW_VOLUME_HOST ? "host" : "pvc");
	text_line(b, str_of(v->source));
	if (v->sub_path[0]) {
		buf_addf(b, ", ");
		text_line(b, str_of(v->sub_path));
	}
	buf_addf(b, " at ");
	text_line(b, str_of(v->mount_path));
	buf_addf(b, "%s%s\n", v->is_read_only ? ", read-only" : "", v->is_made && v->is_deleted_with ? ", deleted with the sandbox" : "");
}

static void add_record(struct buf *b, const struct sandbox *sb)
{
	const struct sandbox_row *r = &sb->row;

	buf_addf(b, "id: %s\nimage: ", r->id);
	text_line(b, str_of(r->image));
	buf_addf(b, "\nstate: %s\nreason: %s\nmessage: ", sandbox_state_name(r->state), r->reason);
	text_line(b, str_of(r->message));
	buf_add_char(b, '\n');
	line_time(b, "created", r->created_us);
	line_time(b, "changed", r->changed_us);
	if (r->expires_us != 0)
		line_time(b, "expires", r->expires_us);
	if (sb->has_end)
		buf_addf(b, "exit_code: %d\nsignal: %d\noom_killed: %s\n", sb->end.exit_code, sb->end.signal,
			 sb->end.oom ? "true" : "false");
	if (r->os)
		buf_addf(b, "platform: %s/%s\n", r->os, r->arch);
	add_words(b, "entrypoint", &r->entrypoint);
	buf_addf(b, "limits: cpu %llum, memory %llu, pids %llu, disk %llu\n",
		 (unsigned long long)r->limits.cpu_milli, (unsigned long long)r->limits.memory_bytes,
		 (unsigned long long)r->limits.pids, (unsigned long long)r->limits.disk_bytes);
	buf_addf(b, "network: %s\n", row_network_name(r->network));
	for (size_t i = 0; i < r->n_volumes; i++)
		add_volume(b, &r->volumes[i]);
	for (size_t i = 0; i < r->metadata.n; i++)
		buf_addf(b, "metadata: %s=%s\n", r->metadata.items[i].key, r->metadata.items[i].value);
	for (size_t i = 0; i < r->env_names.n; i++) {
		buf_addf(b, "env: ");
		text_line(b, str_of(r->env_names.items[i]));
		buf_addf(b, "=***\n");
	}
}

void text_inspect(struct buf *b, const struct sandbox *sb, const struct runtime_info *info,
		  const struct runtime_stats *stats)
{
	static const char *const states[] = { "starting", "running", "paused", "ended" };

	add_record(b, sb);
	if (info)
		buf_addf(b, "runtime_state: %s\n", states[info->state]);
	for (size_t i = 0; info && i < info->n_facts; i++) {
		buf_addf(b, "%s: ", info->facts[i].key);
		text_line(b, str_of(info->facts[i].value));
		buf_add_char(b, '\n');
	}
	if (stats)
		buf_addf(b, "used: cpu %llu us, memory %llu (peak %llu), pids %llu, disk %llu, oom kills %llu, io read %llu, written %llu\n",
			 (unsigned long long)stats->cpu_usec, (unsigned long long)stats->memory_bytes,
			 (unsigned long long)stats->memory_peak_bytes, (unsigned long long)stats->pids,
			 (unsigned long long)stats->disk_bytes, (unsigned long long)stats->oom_kills,
			 (unsigned long long)stats->io_read_bytes, (unsigned long long)stats->io_written_bytes);
	if (stats && sb->row.network != RUNTIME_NET_NONE)
		buf_addf(b, "traffic: received %llu bytes in %llu packets, sent %llu bytes in %llu packets, of which %llu were refused\n",
			 (unsigned long long)stats->net_in_bytes, (unsigned long long)stats->net_in_packets,
			 (unsigned long long)stats->net_out_bytes, (unsigned long long)stats->net_out_packets,
			 (unsigned long long)stats->net_refused_packets);
}

void text_rule(struct buf *b, char c, unsigned n)
{
	while (n-- > 0)
		buf_add_char(b, c);
	buf_add_char(b, '\n');
}

void text_utf8(struct buf *b, struct str text)
{
	while (text.n > 0) {
		size_t n = 0;

		while (n < text.n) {
			size_t one = utf8_next(str_skip(text, n), &(uint32_t){ 0 });

			if (one == 0)
				break;
			n += one;
		}
		buf_add(b, text.p, n);
		text = str_skip(text, n);
		if (text.n == 0)
			return;
		buf_add(b, "\xef\xbf\xbd", 3);
		text = str_skip(text, 1);
	}
}

uint64_t text_since_ms(struct str text)
{
	static const struct {
		char unit;
		uint64_t ms;
	} units[] = { { 's', 1000 }, { 'm', 60000 }, { 'h', 3600000 }, { 'd', 86400000 } };
	uint64_t n;

	text = str_trim(text);
	if (text.n > 1 && str_to_u64(str_first(text, text.n - 1), 1, 1000000, &n))
		for (size_t i = 0; i < ARRAY_LEN(units); i++)
			if (text.p[text.n - 1] == units[i].unit)
				return n * units[i].ms;
	return 10 * 60000;
}
