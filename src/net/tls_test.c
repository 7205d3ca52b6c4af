// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>

#include "net/addr.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/relay.h"
#include "net/tls.h"

#include "base/banned.h"

/* ---- certificates ---- */

static char dir[] = "/tmp/tls_test_XXXXXX";
static char cert_a[64], key_a[64], cert_b[64], key_b[64], locked[64];

static void add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(ext);
	assert_int_equal(X509_add_ext(cert, ext, -1), 1);
	X509_EXTENSION_free(ext);
}

/* A certificate for NAMES that is its own authority. */
static void make_identity(const char *cert_path, const char *key_path, const char *names, const char *password)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	FILE *f;

	assert_non_null(key);
	assert_int_equal(X509_set_version(cert, 2), 1);
	assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(cert), 1), 1);
	assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), -60));
	assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), 3600));
	assert_int_equal(X509_set_pubkey(cert, key), 1);
	assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
						    (const unsigned char *)"test", -1, -1, 0), 1);
	assert_int_equal(X509_set_issuer_name(cert, X509_get_subject_name(cert)), 1);
	add_extension(cert, NID_subject_alt_name, names);
	add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	f = fopen(cert_path, "we");
	assert_int_equal(PEM_write_X509(f, cert), 1);
	(void)fclose(f);
	f = fopen(key_path, "we");
	assert_int_equal(PEM_write_PrivateKey(f, key, password ? EVP_aes_128_cbc() : NULL, NULL, 0, NULL,
					      (void *)(uintptr_t)password), 1);
	(void)fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void copy_file(const char *from, const char *to)
{
	char bytes[8192];
	FILE *f = fopen(from, "re");
	size_t n = fread(bytes, 1, sizeof(bytes), f);

	(void)fclose(f);
	f = fopen(to, "we");
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	(void)fclose(f);
}

static int make_files(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(cert_a, sizeof(cert_a), "%s/cert_a", dir);
	(void)snprintf(key_a, sizeof(key_a), "%s/key_a", dir);
	(void)snprintf(cert_b, sizeof(cert_b), "%s/cert_b", dir);
	(void)snprintf(key_b, sizeof(key_b), "%s/key_b", dir);
	(void)snprintf(locked, sizeof(locked), "%s/locked", dir);
	make_identity(cert_a, key_a, "DNS:a.test,IP:127.0.0.1,IP:::1", NULL);
	make_identity(cert_b, locked, "DNS:b.test", "password");
	make_identity(cert_b, key_b, "DNS:b.test", NULL);
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	(void)unlink(cert_a);
	(void)unlink(key_a);
	(void)unlink(cert_b);
	(void)unlink(key_b);
	(void)unlink(locked);
	return rmdir(dir);
}

/* ---- two ends ---- */

struct ends {
	struct tls_server *server;
	struct tls_client *client;
	struct transport *s, *c;
};

static void ends_open(struct ends *x, const struct tls_server_options *so, const struct tls_client_options *co,
		      const char *host)
{
	struct tls_target target = { .host = host };
	struct err e = { 0 };
	int fd[2];

	x->server = tls_server_new(so, &e);
	assert_non_null(x->server);
	x->client = tls_client_new(co, &e);
	assert_non_null(x->client);
	target.client = x->client;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	x->s = tls_server_maker(x->server).make(x->server, fd[0], &e);
	x->c = tls_client_maker(&target).make(&target, fd[1], &e);
	assert_true(x->s && x->c);
	assert_false(x->s->is_plain);
}

static void ends_close(struct ends *x)
{
	tls_server_free(x->server); /* before its transports: they keep what they need */
	tls_client_free(x->client);
	transport_close(x->s);
	transport_close(x->c);
}

static void open_default(struct ends *x)
{
	ends_open(x, &(struct tls_server_options){ .cert_path = cert_a, .key_path = key_a },
		  &(struct tls_client_options){ .ca_path = cert_a }, "a.test");
}

static ssize_t send_str(struct transport *t, const char *text)
{
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };

	return t->ops->send(t, &iov, 1, false);
}

static const char *failure_of(const struct transport *t)
{
	return t->ops->failure(t);
}

/* Lets both shake hands. True when a word from the client has reached the server. */
static bool shake(struct ends *x)
{
	char in[8];
	ssize_t sent = -1, got = -1;

	for (int i = 0; i < 10 && got < 0; i++) {
		if (sent < 0)
			sent = send_str(x->c, "hi");
		if (sent < 0 && errno != EAGAIN)
			break;
		got = x->s->ops->recv(x->s, in, sizeof(in));
		if (got < 0 && errno != EAGAIN)
			break;
	}
	return got == 2 && memcmp(in, "hi", 2) == 0;
}

static void bytes_go_both_ways(void **state)
{
	struct ends x;
	char in[64];

	(void)state;
	open_default(&x);
	assert_int_equal(x.s->ops->recv(x.s, in, sizeof(in)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(shake(&x));
	assert_int_equal(send_str(x.s, "hello"), 5);
	assert_int_equal(x.c->ops->recv(x.c, in, 2), 2);
	assert_true(x.c->ops->has_pending(x.c));
	assert_int_equal(x.c->ops->recv(x.c, in + 2, 62), 3);
	assert_memory_equal(in, "hello", 5);
	assert_false(x.c->ops->has_pending(x.c));
	assert_string_equal(failure_of(x.c), "");
	ends_close(&x);
}

static void a_client_that_wants_to_write_waits_for_the_handshake_to_be_read(void **state)
{
	struct ends x;
	char in[8];

	(void)state;
	open_default(&x);
	assert_int_equal(x.c->ops->interest(x.c, IO_OUT), IO_OUT);
	assert_int_equal(send_str(x.c, "hi"), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(x.c->ops->interest(x.c, IO_OUT), IO_IN);
	assert_int_equal(x.c->ops->interest(x.c, IO_IN | IO_HUP), IO_IN | IO_HUP);
	assert_int_equal(x.c->ops->readiness(x.c, IO_IN), IO_IN | IO_OUT);
	assert_int_equal(x.s->ops->recv(x.s, in, sizeof(in)), -1);
	/* The handshake is finished by reading; then writing waits for nothing but room. */
	assert_int_equal(x.c->ops->recv(x.c, in, sizeof(in)), -1);
	assert_int_equal(x.c->ops->interest(x.c, IO_OUT), IO_OUT);
	assert_true(shake(&x));
	ends_close(&x);
}

static void the_server_must_be_who_was_asked_for_by_someone_trusted(void **state)
{
	static const struct {
		const char *ca, *host;
		bool is_insecure;
		const char *failure; /* NULL: all is well */
	} table[] = {
		{ cert_a, "a.test", false, NULL },
		{ cert_a, "127.0.0.1", false, NULL },
		{ cert_a, "::1", false, NULL },
		{ cert_a, "A.TEST", false, NULL },
		{ cert_a, "b.test", false, "ostname mismatch" },
		{ cert_a, "x.a.test", false, "ostname mismatch" },
		{ cert_a, "127.0.0.2", false, "IP address mismatch" },
		{ cert_b, "a.test", false, "certificate" },
		{ NULL, "a.test", false, "certificate" },
		{ NULL, "b.test", true, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct tls_client_options co = { .ca_path = table[i].ca, .is_insecure = table[i].is_insecure };
		struct ends x;

		ends_open(&x, &(struct tls_server_options){ .cert_path = cert_a, .key_path = key_a }, &co, table[i].host);
		assert_int_equal(shake(&x), !table[i].failure);
		if (table[i].failure) {
			assert_non_null(strstr(failure_of(x.c), table[i].failure));
			assert_int_equal(send_str(x.c, "x"), -1); /* and stays so */
			assert_int_equal(errno, EPIPE);
			assert_int_equal(x.c->ops->recv(x.c, &(char){ 0 }, 1), -1);
			assert_int_equal(errno, ECONNRESET);
		}
		ends_close(&x);
	}
}

static void a_nameless_server_cannot_be_dialled(void **state)
{
	struct err e = { 0 };
	struct tls_client *c = tls_client_new(&(struct tls_client_options){ .ca_path = cert_a }, &e);
	struct tls_target target = { .client = c, .host = "" };
	char long_name[300] = "";

	(void)state;
	assert_null(tls_client_maker(&target).make(&target, 0, &e));
	memset(long_name, 'x', sizeof(long_name) - 1);
	target.host = long_name;
	assert_null(tls_client_maker(&target).make(&target, 0, &e));
	assert_int_equal(e.code, ERR_INVALID);
	tls_client_free(c);
}

static void a_server_may_ask_for_a_clients_certificate(void **state)
{
	struct tls_server_options so = { .cert_path = cert_a, .key_path = key_a, .client_ca_path = cert_b };
	struct tls_client_options known = { .ca_path = cert_a, .cert_path = cert_b, .key_path = key_b };
	struct tls_client_options unknown = { .ca_path = cert_a, .cert_path = cert_a, .key_path = key_a };
	struct ends x;

	(void)state;
	ends_open(&x, &so, &known, "a.test");
	assert_true(shake(&x));
	ends_close(&x);
	ends_open(&x, &so, &(struct tls_client_options){ .ca_path = cert_a }, "a.test");
	assert_false(shake(&x));
	assert_non_null(strstr(failure_of(x.s), "peer did not return a certificate"));
	ends_close(&x);
	ends_open(&x, &so, &unknown, "a.test");
	assert_false(shake(&x));
	ends_close(&x);
}

static void files_that_do_not_fit_are_refused(void **state)
{
	static const struct tls_server_options table[] = {
		{ .cert_path = "/nonexistent", .key_path = key_a },
		{ .cert_path = cert_a, .key_path = "/nonexistent" },
		{ .cert_path = cert_a, .key_path = key_b },
		{ .cert_path = key_a, .key_path = key_a },
		{ .cert_path = cert_b, .key_path = locked }, /* nobody is asked for its password */
		{ .cert_path = cert_a, .key_path = key_a, .client_ca_path = key_a },
	};
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		e = (struct err){ 0 };
		assert_null(tls_server_new(&table[i], &e));
		assert_int_equal(e.code, ERR_INVALID);
		assert_true(strlen(e.msg) > 0);
	}
	assert_null(tls_server_new(&table[0], &e));
	assert_string_equal(e.msg, "read certificate '/nonexistent': No such file or directory");
	assert_null(tls_client_new(&(struct tls_client_options){ .ca_path = key_a }, &e));
	assert_null(tls_client_new(&(struct tls_client_options){ .cert_path = cert_a, .key_path = key_b }, &e));
}

static void certificates_are_reloaded_and_bad_ones_are_not_taken(void **state)
{
	char cert[64], key[64];
	struct tls_server_options so = { .cert_path = cert, .key_path = key };
	struct tls_target target = { .host = "b.test" };
	struct err e = { 0 };
	struct ends x, y;
	int fd[2];

	(void)state;
	(void)snprintf(cert, sizeof(cert), "%s/cert", dir);
	(void)snprintf(key, sizeof(key), "%s/key", dir);
	copy_file(cert_a, cert);
	copy_file(key_a, key);
	ends_open(&x, &so, &(struct tls_client_options){ .ca_path = cert_a }, "a.test");
	assert_true(shake(&x));
	copy_file(cert_b, cert);
	assert_int_equal(tls_server_reload(x.server, &e), -1); /* the key has not followed yet */
	copy_file(key_b, key);
	assert_int_equal(tls_server_reload(x.server, &e), 0);
	assert_int_equal(send_str(x.s, "old"), 3); /* the old connection goes on */
	y.client = tls_client_new(&(struct tls_client_options){ .ca_path = cert_b }, &e);
	target.client = y.client;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	y.s = tls_server_maker(x.server).make(x.server, fd[0], &e);
	y.c = tls_client_maker(&target).make(&target, fd[1], &e);
	assert_true(shake(&y));
	transport_close(y.s);
	transport_close(y.c);
	tls_client_free(y.client);
	ends_close(&x);
	(void)unlink(cert);
	(void)unlink(key);
}

/* ---- volume ---- */

static char pattern(size_t i)
{
	return (char)(i * 13 + i / 1000);
}

static size_t drain(struct transport *t, size_t at)
{
	char in[30000];
	ssize_t n;

	while ((n = t->ops->recv(t, in, sizeof(in))) > 0)
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(in[i], pattern(at++));
	assert_true(n < 0 && errno == EAGAIN);
	return at;
}

static void vectors_and_files_of_any_length_arrive_whole(void **state)
{
	size_t n = 1000003, sent = 0, got = 0;
	AUTO(free) char *bytes = malloc(n);
	FILE *f = tmpfile();
	struct ends x;
	off_t offset = 0;

	(void)state;
	for (size_t i = 0; i < n; i++)
		bytes[i] = pattern(i);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fflush(f), 0);
	open_default(&x);
	assert_true(shake(&x));
	while (got < n) { /* head, nothing, and tail, cut at odd places */
		size_t head = MIN((size_t)777, n - sent);
		struct iovec iov[3] = { { bytes + sent, head }, { NULL, 0 }, { bytes + sent + head, n - sent - head } };
		ssize_t r = sent < n ? x.s->ops->send(x.s, iov, 3, true) : 0;

		assert_true(r >= 0 || errno == EAGAIN);
		sent += r > 0 ? (size_t)r : 0;
		if (r < 0)
			assert_int_equal(x.s->ops->interest(x.s, IO_OUT), IO_OUT);
		got = drain(x.c, got);
	}
	for (got = 0; got < n; got = drain(x.c, got)) {
		ssize_t r = x.s->ops->send_file(x.s, fileno(f), &offset, n - (size_t)offset);

		assert_true(r >= 0 || errno == EAGAIN);
	}
	assert_int_equal(offset, n);
	assert_int_equal(x.s->ops->send_file(x.s, fileno(f), &offset, 10), 0);
	(void)fclose(f);
	ends_close(&x);
}

/* ---- ends ---- */

static void an_end_in_good_order_is_told_from_a_cut(void **state)
{
	struct ends x;
	char in[8];
	int fd;

	(void)state;
	open_default(&x);
	assert_true(shake(&x));
	x.c->ops->shut(x.c);
	assert_int_equal(x.s->ops->recv(x.s, in, sizeof(in)), 0);
	assert_int_equal(send_str(x.s, "ok"), 2); /* the other direction goes on */
	assert_int_equal(x.c->ops->recv(x.c, in, sizeof(in)), 2);
	assert_int_equal(send_str(x.c, "no"), -1);
	assert_int_equal(errno, EPIPE);
	ends_close(&x);

	open_default(&x);
	assert_true(shake(&x));
	fd = dup(x.c->fd);
	assert_int_equal(shutdown(fd, SHUT_WR), 0); /* behind its back: no goodbye */
	(void)close(fd);
	assert_int_equal(x.s->ops->recv(x.s, in, sizeof(in)), -1);
	assert_true(errno == EPROTO || errno == ECONNRESET);
	ends_close(&x);
}

static void closing_says_goodbye(void **state)
{
	struct ends x;
	char in[8];

	(void)state;
	open_default(&x);
	assert_true(shake(&x));
	transport_close(take_ptr(&x.c));
	assert_int_equal(x.s->ops->recv(x.s, in, sizeof(in)), 0);
	/* And what is sent to a closed socket raises no signal: the default action would end this test. */
	assert_int_equal(send_str(x.s, "x"), -1);
	assert_true(errno == EPIPE || errno == ECONNRESET);
	ends_close(&x);
}

static void garbage_is_a_protocol_error(void **state)
{
	struct err e = { 0 };
	struct tls_server *s = tls_server_new(&(struct tls_server_options){ .cert_path = cert_a, .key_path = key_a }, &e);
	struct transport *t;
	char in[8];
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	t = tls_server_maker(s).make(s, fd[0], &e);
	assert_int_equal(send(fd[1], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
	assert_int_equal(t->ops->recv(t, in, sizeof(in)), -1);
	assert_int_equal(errno, EPROTO);
	assert_true(strlen(failure_of(t)) > 0);
	transport_close(t);
	(void)close(fd[1]);
	tls_server_free(s);
}

/* A client made with OpenSSL alone, to offer what ours never would. */
static int foreign_handshake(struct tls_server *s, const char *alpn, int max_version)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	struct err e = { 0 };
	struct transport *t;
	char in[8];
	int fd[2], r = -1;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	t = tls_server_maker(s).make(s, fd[0], &e);
	SSL_set_security_level(ssl, 0);
	assert_int_equal(SSL_set_min_proto_version(ssl, TLS1_VERSION), 1);
	assert_int_equal(SSL_set_max_proto_version(ssl, max_version), 1);
	if (alpn)
		assert_int_equal(SSL_set_alpn_protos(ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn)), 0);
	assert_int_equal(SSL_set_fd(ssl, fd[1]), 1);
	for (int i = 0; i < 10 && r != 1; i++) {
		r = SSL_connect(ssl);
		if (r != 1 && SSL_get_error(ssl, r) != SSL_ERROR_WANT_READ)
			break;
		(void)t->ops->recv(t, in, sizeof(in));
	}
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	transport_close(t);
	(void)close(fd[1]);
	return r;
}

static void old_versions_and_other_protocols_are_refused(void **state)
{
	struct err e = { 0 };
	struct tls_server *s = tls_server_new(&(struct tls_server_options){ .cert_path = cert_a, .key_path = key_a }, &e);

	(void)state;
	assert_int_equal(foreign_handshake(s, NULL, TLS1_3_VERSION), 1);
	assert_int_equal(foreign_handshake(s, NULL, TLS1_2_VERSION), 1);
	assert_int_not_equal(foreign_handshake(s, NULL, TLS1_1_VERSION), 1);
	assert_int_equal(foreign_handshake(s, "\x02h2\x08http/1.1", TLS1_3_VERSION), 1);
	assert_int_not_equal(foreign_handshake(s, "\x02h2", TLS1_2_VERSION), 1);
	tls_server_free(s);
}

/* ---- on the loop ---- */

static int handle_big(struct request *rq, struct reply *rp, struct err *e)
{
	struct buf b = BUF_INIT(1024 * 1024);

	(void)e;
	assert_true(rq->is_secure);
	for (size_t i = 0; i < 300000; i++)
		buf_add_char(&b, pattern(i));
	return reply_buf(rp, 200, "application/octet-stream", &b);
}

static void on_fetched(const struct http_answer *a, const struct err *e, void *arg)
{
	int *done = arg;

	*done = e ? -1 : 1;
	if (e)
		return;
	assert_int_equal(a->body.n, 300000);
	for (size_t i = 0; i < a->body.n; i++)
		assert_int_equal(a->body.p[i], pattern(i));
}

static void client_and_server_talk_over_tls(void **state)
{
	static const struct route routes[] = { { "GET", "/", handle_big, 0, 0 }, { 0 } };
	static const struct http_service service = { .routes = routes };
	struct http_request rq = { .method = STR("GET"), .target = STR("/"), .host = STR("a.test") };
	struct http_client_options options = HTTP_CLIENT_OPTIONS;
	struct err e = { 0 };
	AUTO(loop_free) struct loop *l = loop_new(&e);
	AUTO(http_server_free) struct http_server *s = http_server_new(l, &service, &HTTP_LIMITS, &e);
	AUTO(tls_server_free) struct tls_server *ts =
		tls_server_new(&(struct tls_server_options){ .cert_path = cert_a, .key_path = key_a }, &e);
	AUTO(tls_client_free) struct tls_client *tc = tls_client_new(&(struct tls_client_options){ .ca_path = cert_a }, &e);
	AUTO(http_client_free) struct http_client *c = NULL;
	struct tls_target target = { .client = tc, .host = "127.0.0.1" };
	struct transport_maker server_maker = tls_server_maker(ts), client_maker = tls_client_maker(&target);
	struct addr a;
	int fd;

	(void)state;
	assert_int_equal(sockaddr_parse(STR("127.0.0.1:0"), &a, &e), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, &a.sa, a.len), 0);
	assert_int_equal(getsockname(fd, &a.sa, &a.len), 0);
	assert_int_equal(listen(fd, 10), 0);
	assert_int_equal(http_server_listen(s, &fd, &server_maker, &e), 0);
	options.to = &a.sa;
	options.to_len = a.len;
	options.maker = &client_maker;
	c = http_client_new(l, &options, &e);
	for (int i = 0; i < 3; i++) {
		int done = 0;

		if (i == 2) {
			target.host = "wrong.test";
			http_client_drop_idle(c);
		}
		assert_non_null(http_fetch(c, &rq, on_fetched, &done, &e));
		for (int n = 0; n < 5000 && done == 0; n++)
			assert_int_equal(loop_turn(l, 100, &e), 0);
		assert_int_equal(done, i == 2 ? -1 : 1);
	}
	assert_int_equal(http_server_counts(s).accepted, 2); /* the second request used the first's connection */
}

static void on_relayed(const struct relay_result *result, void *arg)
{
	*(struct relay_result *)arg = *result;
}

/* What waits inside a TLS transport is not forgotten when its descriptor is quiet. */
static void a_relay_between_tls_and_a_socket_passes_everything_on(void **state)
{
	struct relay_result result = { .end = RELAY_TIMEOUT };
	struct relay_spec spec = { .done = on_relayed, .arg = &result };
	size_t n = 500000, sent = 0;
	AUTO(free) char *bytes = malloc(n);
	AUTO(buf_done) struct buf got = BUF_INIT(n);
	struct err e = { 0 };
	struct wire w;
	struct ends x;
	bool ended = false;
	int far;

	(void)state;
	for (size_t i = 0; i < n; i++)
		bytes[i] = pattern(i);
	wire_open(&w);
	open_default(&x);
	assert_true(shake(&x));
	spec.a = take_ptr(&x.s);
	spec.b = wire_transport(&far);
	assert_non_null(relay_start(w.loop, &spec, &e));
	while (!ended) {
		struct iovec iov = { bytes + sent, n - sent };
		ssize_t r = sent < n ? x.c->ops->send(x.c, &iov, 1, false) : 0;

		sent += r > 0 ? (size_t)r : 0;
		if (sent == n && r > 0)
			x.c->ops->shut(x.c);
		ended = wire_hear(&w, far, &got);
	}
	assert_int_equal(got.n, n);
	assert_memory_equal(got.p, bytes, n);
	wire_say(&w, far, STR("bye"));
	(void)close(far);
	wire_turn(&w);
	assert_int_equal(result.end, RELAY_ENDED);
	assert_int_equal(result.from_a, n);
	assert_int_equal(result.from_b, 3);
	assert_int_equal(x.c->ops->recv(x.c, bytes, n), 3);
	assert_int_equal(x.c->ops->recv(x.c, bytes, n), 0);
	ends_close(&x);
	wire_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_go_both_ways),
		cmocka_unit_test(a_client_that_wants_to_write_waits_for_the_handshake_to_be_read),
		cmocka_unit_test(the_server_must_be_who_was_asked_for_by_someone_trusted),
		cmocka_unit_test(a_nameless_server_cannot_be_dialled),
		cmocka_unit_test(a_server_may_ask_for_a_clients_certificate),
		cmocka_unit_test(files_that_do_not_fit_are_refused),
		cmocka_unit_test(certificates_are_reloaded_and_bad_ones_are_not_taken),
		cmocka_unit_test(vectors_and_files_of_any_length_arrive_whole),
		cmocka_unit_test(an_end_in_good_order_is_told_from_a_cut),
		cmocka_unit_test(closing_says_goodbye),
		cmocka_unit_test(garbage_is_a_protocol_error),
		cmocka_unit_test(old_versions_and_other_protocols_are_refused),
		cmocka_unit_test(client_and_server_talk_over_tls),
		cmocka_unit_test(a_relay_between_tls_and_a_socket_passes_everything_on),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
