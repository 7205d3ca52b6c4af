// SPDX-License-Identifier: Apache-2.0
/* The only file that knows OpenSSL. Its context part (keys, certificates, trust) comes first, then the transport. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/loop.h"
#include "net/transport.h"

#include "base/banned.h"

#define RECORD_MAX (16 * 1024)

/* What every transport made here needs for as long as it lives. */
struct core {
	unsigned refs;
	BIO_METHOD *method;
};

struct tls_server {
	struct core *core;
	SSL_CTX *ctx; /* of the files as last read */
	char *cert_path, *key_path, *client_ca_path;
};

struct tls_client {
	struct core *core;
	SSL_CTX *ctx;
};

struct tls {
	struct transport base;
	struct core *core;
	SSL *ssl;
	bool recv_waits_out, send_waits_in; /* what the last call was refused for */
	bool is_broken, is_shut;
	char failure[256];
};

static struct tls *tls_of(const struct transport *t)
{
	return container_of((struct transport *)(uintptr_t)t, struct tls, base);
}

/* ---- errors ---- */

/* The oldest entry of OpenSSL's queue says most; the queue is emptied. */
static void drain_errors(char *out, size_t size)
{
	unsigned long code = ERR_get_error();
	const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

	(void)snprintf(out, size, "%s", reason ? reason : "unknown TLS failure"); /* cut if need be: it is for logs */
	ERR_clear_error();
}

static int tls_error(struct err *e, const char *what, const char *name)
{
	char reason[200];

	drain_errors(reason, sizeof(reason));
	return err_set(e, ERR_INVALID, "%s '%s': %s", what, name, reason);
}

/* ---- the socket under OpenSSL ---- */

/* OpenSSL's own socket BIO uses write(), which raises SIGPIPE. */
static int bio_write(BIO *b, const char *p, int n)
{
	const struct tls *t = BIO_get_data(b);
	ssize_t sent;

	do
		sent = send(t->base.fd, p, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	BIO_clear_retry_flags(b);
	if (sent < 0 && errno == EAGAIN)
		BIO_set_retry_write(b);
	return (int)sent;
}

static int bio_read(BIO *b, char *p, int n)
{
	const struct tls *t = BIO_get_data(b);
	ssize_t got;

	do
		got = recv(t->base.fd, p, (size_t)n, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	BIO_clear_retry_flags(b);
	if (got < 0 && errno == EAGAIN)
		BIO_set_retry_read(b);
	if (got == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)got;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	if (cmd == BIO_CTRL_EOF)
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	return cmd == BIO_CTRL_FLUSH;
}

static struct core *core_new(struct err *e)
{
	struct core *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->refs = 1;
	c->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "transport");
	if (!c->method || !BIO_meth_set_write(c->method, bio_write) || !BIO_meth_set_read(c->method, bio_read) ||
	    !BIO_meth_set_ctrl(c->method, bio_ctrl)) {
		BIO_meth_free(c->method);
		free(c);
		(void)err_no_memory(e);
		return NULL;
	}
	return c;
}

static void core_unref(struct core *c)
{
	if (!c || --c->refs > 0)
		return;
	BIO_meth_free(c->method);
	free(c);
}

/* ---- contexts ---- */

static void ctx_free(SSL_CTX *ctx)
{
	SSL_CTX_free(ctx);
}
DEFINE_AUTO(SSL_CTX *, ctx_free)

/* A daemon has no terminal to ask at. */
static int no_password(char *buf, int size, int is_writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)is_writing;
	(void)arg;
	return 0;
}

static SSL_CTX *ctx_new(const SSL_METHOD *method, struct err *e)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx) {
		(void)err_no_memory(e);
		ERR_clear_error();
		return NULL;
	}
	(void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	return ctx;
}

static int use_identity(SSL_CTX *ctx, const char *cert_path, const char *key_path, struct err *e)
{
	if (SSL_CTX_use_certificate_chain_file(ctx, cert_path) != 1)
		return tls_error(e, "read certificate", cert_path);
	if (SSL_CTX_use_PrivateKey_file(ctx, key_path, SSL_FILETYPE_PEM) != 1)
		return tls_error(e, "read key", key_path);
	if (SSL_CTX_check_private_key(ctx) != 1)
		return tls_error(e, "key does not belong to certificate", cert_path);
	return 0;
}

/* Clients that offer protocols must offer ours; those that offer none are taken to speak it. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in,
		       unsigned in_n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1\x08http/1.0";
	unsigned char *chosen = NULL;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_n, ours, sizeof(ours) - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *server_ctx(const struct tls_server *s, struct err *e)
{
	static const unsigned char session_context[] = "opensandbox";
	AUTO(ctx_free) SSL_CTX *ctx = ctx_new(TLS_server_method(), e);

	if (!ctx || use_identity(ctx, s->cert_path, s->key_path, e) < 0)
		return NULL;
	(void)SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* sessions live in tickets, with the clients */
	(void)SSL_CTX_set_session_id_context(ctx, session_context, sizeof(session_context) - 1);
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
	if (s->client_ca_path) {
		STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(s->client_ca_path);

		if (!names || SSL_CTX_load_verify_file(ctx, s->client_ca_path) != 1) {
			sk_X509_NAME_pop_free(names, X509_NAME_free);
			(void)tls_error(e, "read certificate authorities", s->client_ca_path);
			return NULL;
		}
		SSL_CTX_set_client_CA_list(ctx, names);
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	return take_ptr(&ctx);
}

static char *copy_path(const char *path)
{
	return path ? strdup(path) : NULL;
}

struct tls_server *tls_server_new(const struct tls_server_options *options, struct err *e)
{
	AUTO(tls_server_free) struct tls_server *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->cert_path = copy_path(options->cert_path);
	s->key_path = copy_path(options->key_path);
	s->client_ca_path = copy_path(options->client_ca_path);
	if (!s->cert_path || !s->key_path || (options->client_ca_path && !s->client_ca_path)) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->core = core_new(e);
	if (!s->core || tls_server_reload(s, e) < 0)
		return NULL;
	return take_ptr(&s);
}

void tls_server_free(struct tls_server *s)
{
	if (!s)
		return;
	SSL_CTX_free(s->ctx);
	core_unref(s->core);
	free(s->cert_path);
	free(s->key_path);
	free(s->client_ca_path);
	free(s);
}

int tls_server_reload(struct tls_server *s, struct err *e)
{
	SSL_CTX *ctx = server_ctx(s, e);

	if (!ctx)
		return -1;
	SSL_CTX_free(s->ctx);
	s->ctx = ctx;
	return 0;
}

static int client_trust(SSL_CTX *ctx, const struct tls_client_options *options, struct err *e)
{
	if (options->is_insecure) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
		return 0;
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (options->ca_path && SSL_CTX_load_verify_file(ctx, options->ca_path) != 1)
		return tls_error(e, "read certificate authorities", options->ca_path);
	if (!options->ca_path && SSL_CTX_set_default_verify_paths(ctx) != 1)
		return tls_error(e, "read certificate authorities", "of the system");
	return 0;
}

struct tls_client *tls_client_new(const struct tls_client_options *options, struct err *e)
{
	static const unsigned char alpn[] = "\x08http/1.1";
	AUTO(tls_client_free) struct tls_client *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->core = core_new(e);
	c->ctx = c->core ? ctx_new(TLS_client_method(), e) : NULL;
	if (!c->ctx || client_trust(c->ctx, options, e) < 0)
		return NULL;
	if (options->cert_path && use_identity(c->ctx, options->cert_path, options->key_path, e) < 0)
		return NULL;
	if (SSL_CTX_set_alpn_protos(c->ctx, alpn, sizeof(alpn) - 1) != 0) {
		(void)err_no_memory(e);
		return NULL;
	}
	return take_ptr(&c);
}

void tls_client_free(struct tls_client *c)
{
	if (!c)
		return;
	SSL_CTX_free(c->ctx);
	core_unref(c->core);
	free(c);
}

/* ---- the transport ---- */

/* What SSL_read or SSL_write returned, as a transport's result. WAITS is set if it waits for the other direction. */
static ssize_t refused(struct tls *t, int r, int other, bool *ret_waits)
{
	int sys = errno;
	int why = SSL_get_error(t->ssl, r);

	*ret_waits = why == other;
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
		errno = EAGAIN;
		return -1;
	}
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	t->is_broken = true;
	if (why == SSL_ERROR_SSL) {
		long verify = SSL_get_verify_result(t->ssl);
		size_t n;

		drain_errors(t->failure, sizeof(t->failure));
		n = strlen(t->failure);
		if (verify != X509_V_OK)
			(void)snprintf(t->failure + n, sizeof(t->failure) - n, ": %s",
				       X509_verify_cert_error_string(verify));
		sys = EPROTO;
	}
	ERR_clear_error();
	errno = sys != 0 && sys != EAGAIN ? sys : ECONNRESET;
	return -1;
}

static ssize_t tls_recv(struct transport *base, void *p, size_t n)
{
	struct tls *t = tls_of(base);
	int r;

	if (t->is_broken) {
		errno = ECONNRESET;
		return -1;
	}
	errno = 0;
	ERR_clear_error();
	r = SSL_read(t->ssl, p, (int)MIN(n, (size_t)INT_MAX));
	if (r > 0) {
		t->recv_waits_out = false;
		return r;
	}
	return refused(t, r, SSL_ERROR_WANT_WRITE, &t->recv_waits_out);
}

/* One record. */
static ssize_t write_record(struct tls *t, const void *p, size_t n)
{
	ssize_t r;

	if (t->is_broken || t->is_shut) {
		errno = EPIPE;
		return -1;
	}
	errno = 0;
	ERR_clear_error();
	r = SSL_write(t->ssl, p, (int)MIN(n, (size_t)RECORD_MAX));
	if (r > 0) {
		t->send_waits_in = false;
		return r;
	}
	r = refused(t, (int)r, SSL_ERROR_WANT_READ, &t->send_waits_in);
	if (r == 0) {
		errno = EPIPE;
		return -1;
	}
	return r;
}

/* Copies up to a record's worth from a vector, beginning SKIP bytes into it. */
static size_t gather(char out[RECORD_MAX], const struct iovec *iov, int n, size_t skip)
{
	size_t at = 0;

	for (int i = 0; i < n && at < RECORD_MAX; i++) {
		size_t off = MIN(skip, iov[i].iov_len);
		size_t part = MIN(iov[i].iov_len - off, RECORD_MAX - at);

		skip -= off;
		if (part > 0)
			memcpy(out + at, (const char *)iov[i].iov_base + off, part);
		at += part;
	}
	return at;
}

static ssize_t tls_send(struct transport *base, const struct iovec *iov, int n, bool more)
{
	struct tls *t = tls_of(base);
	size_t done = 0;
	char record[RECORD_MAX];

	(void)more; /* records are sealed at once */
	for (;;) {
		size_t part = n == 1 ? MIN(iov->iov_len - done, (size_t)RECORD_MAX) : gather(record, iov, n, done);
		ssize_t r;

		if (part == 0)
			return (ssize_t)done;
		r = write_record(t, n == 1 ? (const char *)iov->iov_base + done : record, part);
		if (r < 0)
			return done > 0 ? (ssize_t)done : -1;
		done += (size_t)r;
	}
}

static ssize_t tls_send_file(struct transport *base, int fd, off_t *offset, size_t n)
{
	char record[RECORD_MAX];
	ssize_t got, sent;

	do
		got = pread(fd, record, MIN(n, sizeof(record)), *offset);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got;
	sent = write_record(tls_of(base), record, (size_t)got);
	if (sent > 0)
		*offset += sent;
	return sent;
}

/* Best effort: a full socket buffer swallows the goodbye, and the peer then sees the connection end without it. */
static void say_goodbye(struct tls *t)
{
	if (!t->is_shut && !t->is_broken && SSL_is_init_finished(t->ssl))
		(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
	t->is_shut = true;
}

static void tls_shut(struct transport *base)
{
	say_goodbye(tls_of(base));
	(void)shutdown(base->fd, SHUT_WR);
}

static void tls_close(struct transport *base)
{
	struct tls *t = tls_of(base);

	say_goodbye(t);
	SSL_free(t->ssl);
	core_unref(t->core);
	(void)close(base->fd);
	free(t);
}

/* Once the handshake is over, whoever finished it, nothing has to be read in order to write. */
static bool send_waits_in(const struct tls *t)
{
	return t->send_waits_in && !SSL_is_init_finished(t->ssl);
}

static unsigned tls_interest(const struct transport *base, unsigned want)
{
	const struct tls *t = tls_of(base);
	unsigned wait = want & ~(unsigned)(IO_IN | IO_OUT);

	if (want & IO_IN)
		wait |= t->recv_waits_out ? IO_OUT : IO_IN;
	if (want & IO_OUT)
		wait |= send_waits_in(t) ? IO_IN : IO_OUT;
	return wait;
}

static unsigned tls_readiness(const struct transport *base, unsigned ready)
{
	const struct tls *t = tls_of(base);
	unsigned means = ready;

	if ((ready & IO_IN) && t->send_waits_in)
		means |= IO_OUT;
	if ((ready & IO_OUT) && t->recv_waits_out)
		means |= IO_IN;
	return means;
}

static bool tls_has_pending(const struct transport *base)
{
	return SSL_pending(tls_of(base)->ssl) > 0;
}

static const char *tls_why(const struct transport *base)
{
	return tls_of(base)->failure;
}

static const struct transport_ops tls_ops = {
	.name = "tls",
	.recv = tls_recv,
	.send = tls_send,
	.send_file = tls_send_file,
	.shut = tls_shut,
	.close = tls_close,
	.interest = tls_interest,
	.readiness = tls_readiness,
	.has_pending = tls_has_pending,
	.failure = tls_why,
};

/* Without a descriptor yet: a failure leaves it to the caller. */
static struct tls *tls_new(struct core *core, SSL_CTX *ctx, struct err *e)
{
	struct tls *t = calloc(1, sizeof(*t));
	BIO *bio = t ? BIO_new(core->method) : NULL;

	if (bio)
		t->ssl = SSL_new(ctx);
	if (!t || !bio || !t->ssl) {
		BIO_free(bio);
		free(t);
		ERR_clear_error();
		(void)err_no_memory(e);
		return NULL;
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	t->base.ops = &tls_ops;
	t->base.fd = -1;
	t->core = core;
	core->refs++;
	return t;
}

static struct transport *make_server(void *ctx, int fd, struct err *e)
{
	const struct tls_server *s = ctx;
	struct tls *t = tls_new(s->core, s->ctx, e);

	if (!t)
		return NULL;
	t->base.fd = fd;
	SSL_set_accept_state(t->ssl);
	return &t->base;
}

struct transport_maker tls_server_maker(struct tls_server *s)
{
	return (struct transport_maker){ .make = make_server, .ctx = s };
}

static bool is_numeric(const char *host)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* Names go into the handshake, for servers of many names; addresses do not (RFC 6066 section 3). */
static bool expect_host(SSL *ssl, const char *host)
{
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (is_numeric(host))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	/* SSL_set_tlsext_host_name(), without its cast that drops const. */
	return SSL_set1_host(ssl, host) == 1 &&
	       SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)(uintptr_t)host) == 1;
}

static struct transport *make_client(void *ctx, int fd, struct err *e)
{
	const struct tls_target *target = ctx;
	struct tls *t;

	if (!target->host || !target->host[0]) {
		(void)err_set(e, ERR_INVALID, "a TLS connection to a server without a name");
		return NULL;
	}
	t = tls_new(target->client->core, target->client->ctx, e);
	if (!t)
		return NULL;
	if (!expect_host(t->ssl, target->host)) {
		(void)tls_error(e, "expect server", target->host);
		tls_close(&t->base); /* its descriptor is still -1 */
		return NULL;
	}
	t->base.fd = fd;
	SSL_set_connect_state(t->ssl);
	return &t->base;
}

struct transport_maker tls_client_maker(struct tls_target *target)
{
	return (struct transport_maker){ .make = make_client, .ctx = target };
}
