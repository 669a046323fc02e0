// libnfs.c puts the loads of BenchmarkNFS on an NFSv3 server over TCP, by libnfs, from one thread (Debian package
// libnfs-dev):
//
//   cc -O2 -o libnfs libnfs.c -lnfs && ./libnfs HOST PORT MOUNTPORT EXPORT CONNECTIONS
//
// Connection i is for the file bench.i. Each line of the input is a load: OP SIZE DEPTH BESIDE SIZE DEPTH COUNT. It makes
// COUNT calls of OP (GETATTR, READ, WRITE), of which DEPTH are in flight on each connection, beside those of BESIDE (or -),
// and answers with the 99th percentile of the time of a call in nanoseconds. What was read is copied to the caller's
// buffer, as other clients do: libnfs has it in a buffer of its own, which it reuses.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#define MOST 64 // connections; and calls in flight on each

struct handle {
	u_int len;
	char val[64];
};

struct conn {
	struct rpc_context *rpc;
	struct handle file;
	uint64_t size, next; // octets of the file; where the next READ or WRITE begins
};

struct slot { // one call in flight after the other
	struct conn *c;
	const char *op;
	int size, beside;
	char *buf;
	uint64_t since;
};

static struct conn conns[MOST];
static int connections, done;
static struct handle root;
static long count, begun, ended; // of a load: its calls, and how many have begun and have ended
static int inflight;
static uint64_t *times;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "libnfs: %s: %s\n", what, why ? why : "no reason given");
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// service lets libnfs do what it can, once.
static void service(struct conn *c, int n)
{
	struct pollfd p[MOST];
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){rpc_get_fd(c[i].rpc), rpc_which_events(c[i].rpc), 0};
	int ready = poll(p, n, 10000);
	if (ready < 0 && errno == EINTR)
		return;
	if (ready <= 0)
		fail("poll", "no answer within 10 s");
	for (int i = 0; i < n; i++)
		if (p[i].revents && rpc_service(c[i].rpc, p[i].revents) < 0)
			fail("connection", rpc_get_error(c[i].rpc));
}

static void until_done(struct conn *c)
{
	for (done = 0; !done;)
		service(c, 1);
}

static void connected(struct rpc_context *r, int status, void *data, void *arg)
{
	if (status)
		fail("connect", data);
	done = 1;
}

static void dial(struct conn *c, const char *host, int port, int program)
{
	c->rpc = rpc_init_context();
	if (rpc_connect_port_async(c->rpc, host, port, program, 3, connected, NULL) < 0)
		fail("connect", rpc_get_error(c->rpc));
	until_done(c);
	int on = 1; // else the end of the last call of a benchmark waits 40 ms for an acknowledgement
	if (setsockopt(rpc_get_fd(c->rpc), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
		fail("connect", strerror(errno));
}

static void mounted(struct rpc_context *r, int status, void *data, void *arg)
{
	mountres3 *m = data;
	if (status || m->fhs_status || m->mountres3_u.mountinfo.fhandle.fhandle3_len > sizeof root.val)
		fail("mount", status ? data : "refused");
	root.len = m->mountres3_u.mountinfo.fhandle.fhandle3_len;
	memcpy(root.val, m->mountres3_u.mountinfo.fhandle.fhandle3_val, root.len);
	done = 1;
}

static void found(struct rpc_context *r, int status, void *data, void *arg)
{
	LOOKUP3res *l = data;
	struct conn *c = arg;
	if (status || l->status || !l->LOOKUP3res_u.resok.obj_attributes.attributes_follow)
		fail("lookup", status ? data : "no such file, or no attributes");
	nfs_fh3 *h = &l->LOOKUP3res_u.resok.object;
	if (h->data.data_len > sizeof c->file.val)
		fail("lookup", "the handle is too long");
	c->file.len = h->data.data_len;
	memcpy(c->file.val, h->data.data_val, h->data.data_len);
	c->size = l->LOOKUP3res_u.resok.obj_attributes.post_op_attr_u.attributes.size;
	done = 1;
}

static void begin(struct slot *s);

static void end(struct slot *s, int status, void *data, int nfs, u_int octets)
{
	if (status || nfs || octets != s->size)
		fail(s->op, status ? data : "an error, or less than was asked for");
	inflight--;
	if (!s->beside)
		times[ended++] = now() - s->since;
	begin(s);
}

static void has_read(struct rpc_context *r, int status, void *data, void *arg)
{
	READ3res *x = data;
	struct slot *s = arg;
	u_int n = 0;
	if (!status && !x->status && (n = x->READ3res_u.resok.data.data_len) <= s->size)
		memcpy(s->buf, x->READ3res_u.resok.data.data_val, n);
	end(s, status, data, status ? 0 : x->status, n);
}

static void has_written(struct rpc_context *r, int status, void *data, void *arg)
{
	WRITE3res *x = data;
	end(arg, status, data, status ? 0 : x->status, status ? 0 : x->WRITE3res_u.resok.count);
}

static void has_attributes(struct rpc_context *r, int status, void *data, void *arg)
{
	GETATTR3res *x = data;
	end(arg, status, data, status ? 0 : x->status, 0);
}

// begin makes the next call, if there is one: those beside go on until the others have ended.
static void begin(struct slot *s)
{
	struct conn *c = s->c;
	if (s->beside ? ended == count : begun == count)
		return;
	begun += !s->beside;
	inflight++;
	uint64_t at = c->next;
	if (s->size)
		c->next = at + 2 * s->size > c->size ? 0 : at + s->size;
	s->since = now();
	int err;
	if (!strcmp(s->op, "READ")) {
		READ3args a = {.file.data = {c->file.len, c->file.val}, .offset = at, .count = s->size};
		err = rpc_nfs3_read_async(c->rpc, has_read, &a, s);
	} else if (!strcmp(s->op, "WRITE")) {
		WRITE3args a = {.file.data = {c->file.len, c->file.val}, .offset = at, .count = s->size, .stable = UNSTABLE,
				.data = {s->size, s->buf}};
		err = rpc_nfs3_write_async(c->rpc, has_written, &a, s);
	} else {
		GETATTR3args a = {.object.data = {c->file.len, c->file.val}};
		err = rpc_nfs3_getattr_async(c->rpc, has_attributes, &a, s);
	}
	if (err < 0)
		fail(s->op, rpc_get_error(c->rpc));
}

static int less(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 6 || (connections = atoi(argv[5])) < 1 || connections > MOST)
		fail("usage", "libnfs HOST PORT MOUNTPORT EXPORT CONNECTIONS");
	struct conn m = {0};
	dial(&m, argv[1], atoi(argv[3]), MOUNT_PROGRAM);
	if (rpc_mount3_mnt_async(m.rpc, mounted, argv[4], NULL) < 0)
		fail("mount", rpc_get_error(m.rpc));
	until_done(&m);
	rpc_destroy_context(m.rpc);
	for (int i = 0; i < connections; i++) {
		char name[32];
		snprintf(name, sizeof name, "bench.%d", i);
		dial(&conns[i], argv[1], atoi(argv[2]), NFS_PROGRAM);
		LOOKUP3args a = {.what = {.dir.data = {root.len, root.val}, .name = name}};
		if (rpc_nfs3_lookup_async(conns[i].rpc, found, &a, &conns[i]) < 0)
			fail("lookup", rpc_get_error(conns[i].rpc));
		until_done(&conns[i]);
	}
	char op[2][16];
	int size[2], depth[2];
	while (scanf("%15s %d %d %15s %d %d %ld", op[0], &size[0], &depth[0], op[1], &size[1], &depth[1], &count) == 7) {
		if (depth[0] + depth[1] > MOST || count < 1)
			fail("load", "too deep, or no calls");
		struct slot slots[MOST * MOST];
		int n = 0;
		times = calloc(count, sizeof *times);
		begun = ended = inflight = 0;
		for (int beside = 1; beside >= 0; beside--)
			for (int i = 0; i < depth[beside] * connections; i++, n++) {
				slots[n] = (struct slot){&conns[i % connections], op[beside], size[beside], beside, calloc(1, size[beside] + 1)};
				begin(&slots[n]);
			}
		while (inflight)
			service(conns, connections);
		qsort(times, count, sizeof *times, less);
		printf("%llu\n", (unsigned long long)times[count * 99 / 100]);
		fflush(stdout);
		while (n)
			free(slots[--n].buf);
		free(times);
	}
	return 0;
}
