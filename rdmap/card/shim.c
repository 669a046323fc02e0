#include "shim.h"
#include <arpa/inet.h>
#include <string.h>

int card_channel(struct rdma_event_channel **ch) { return (*ch = rdma_create_event_channel()) ? 0 : errno; }

// The event is acknowledged here: rdma_destroy_id waits for that, and may be called before the copy is looked at.
int card_next(struct rdma_event_channel *ch, struct card_event *e) {
	struct rdma_cm_event *ev;
	if (rdma_get_cm_event(ch, &ev)) return errno;
	memset(e, 0, sizeof *e);
	e->type = ev->event;
	e->status = ev->status;
	e->id = ev->id;
	e->listen = ev->listen_id;
	if (ev->param.conn.private_data) {
		e->len = ev->param.conn.private_data_len;
		memcpy(e->priv, ev->param.conn.private_data, e->len);
	}
	// The CM has turned the depths round: responder resources are what the peer wants to have in flight.
	e->asked = ev->param.conn.responder_resources;
	e->may = ev->param.conn.initiator_depth;
	rdma_ack_cm_event(ev);
	return 0;
}

static void to_sockaddr(const struct card_addr *a, struct sockaddr_storage *s) {
	memset(s, 0, sizeof *s);
	if (a->v6) {
		struct sockaddr_in6 *p = (struct sockaddr_in6 *)s;
		p->sin6_family = AF_INET6;
		p->sin6_port = htons(a->port);
		p->sin6_scope_id = a->scope;
		memcpy(&p->sin6_addr, a->ip, 16);
	} else {
		struct sockaddr_in *p = (struct sockaddr_in *)s;
		p->sin_family = AF_INET;
		p->sin_port = htons(a->port);
		memcpy(&p->sin_addr, a->ip, 4);
	}
}

void card_address(struct rdma_cm_id *id, int peer, struct card_addr *a) {
	struct sockaddr *s = peer ? rdma_get_peer_addr(id) : rdma_get_local_addr(id);
	memset(a, 0, sizeof *a);
	if (s->sa_family == AF_INET6) {
		struct sockaddr_in6 *p = (struct sockaddr_in6 *)s;
		a->v6 = 1;
		a->port = ntohs(p->sin6_port);
		a->scope = p->sin6_scope_id;
		memcpy(a->ip, &p->sin6_addr, 16);
	} else {
		struct sockaddr_in *p = (struct sockaddr_in *)s;
		a->port = ntohs(p->sin_port);
		memcpy(a->ip, &p->sin_addr, 4);
	}
}

// destroys leaves errno as it was.
static int destroys(struct rdma_cm_id **id) {
	int err = errno;
	rdma_destroy_id(*id);
	*id = NULL;
	return err;
}

int card_listen(struct rdma_event_channel *ch, struct rdma_cm_id **id, const struct card_addr *a, int backlog) {
	struct sockaddr_storage s;
	to_sockaddr(a, &s);
	if (rdma_create_id(ch, id, NULL, RDMA_PS_TCP)) return errno;
	if (rdma_bind_addr(*id, (struct sockaddr *)&s) || rdma_listen(*id, backlog)) return destroys(id);
	return 0;
}

int card_resolve(struct rdma_event_channel *ch, struct rdma_cm_id **id, const struct card_addr *a, int ms) {
	struct sockaddr_storage s;
	to_sockaddr(a, &s);
	if (rdma_create_id(ch, id, NULL, RDMA_PS_TCP)) return errno;
	return rdma_resolve_addr(*id, NULL, (struct sockaddr *)&s, ms) ? destroys(id) : 0;
}

int card_route(struct rdma_cm_id *id, int ms) { return rdma_resolve_route(id, ms) ? errno : 0; }

// librxe hands on the kernel's flags of completions, whose "with invalidate" is 1<<2 and not IBV_WC_WITH_INV.
int card_caps(struct ibv_context *v, struct card_caps *c) {
	struct ibv_device_attr a;
	int rc = ibv_query_device(v, &a);
	if (rc) return rc;
	memset(c, 0, sizeof *c);
	c->sends = c->recvs = a.max_qp_wr;
	c->reads = a.max_qp_rd_atom < a.max_qp_init_rd_atom ? a.max_qp_rd_atom : a.max_qp_init_rd_atom;
	c->cqes = a.max_cqe;
	c->iwarp = v->device->transport_type == IBV_TRANSPORT_IWARP;
	c->inv = a.vendor_id == 0xffffff ? IBV_WC_WITH_INV | 1 << 2 : IBV_WC_WITH_INV; // rxe has this vendor
	return 0;
}

int card_pd(struct ibv_context *v, struct ibv_pd **pd) { return (*pd = ibv_alloc_pd(v)) ? 0 : errno; }

int card_pair(struct rdma_cm_id *id, struct ibv_pd *pd, int sends, int recvs, struct ibv_comp_channel **cc, struct ibv_cq **cq) {
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends, .max_recv_wr = recvs, .max_send_sge = 2, .max_recv_sge = 1},
	};
	int err;
	*cq = NULL;
	if (!(*cc = ibv_create_comp_channel(id->verbs))) return errno;
	if ((*cq = ibv_create_cq(id->verbs, sends + recvs, NULL, *cc, 0))) {
		a.send_cq = a.recv_cq = *cq;
		if (!rdma_create_qp(id, pd, &a)) return 0;
	}
	err = errno;
	if (*cq) ibv_destroy_cq(*cq);
	ibv_destroy_comp_channel(*cc);
	*cc = NULL;
	return err;
}

// retry_count 7 of the ACK timeout is some 15 s on RoCE. rnr_retry_count 6, not 7, which is "for ever": a peer that posts
// no receives for what it has asked ends the connection, and does not hold our memory.
int card_start(struct rdma_cm_id *id, int accept, const void *priv, int len, int ird, int ord) {
	struct rdma_conn_param p = {
		.private_data = priv, .private_data_len = len, .responder_resources = ird, .initiator_depth = ord,
		.retry_count = 7, .rnr_retry_count = 6,
	};
	return (accept ? rdma_accept(id, &p) : rdma_connect(id, &p)) ? errno : 0;
}

void card_reject(struct rdma_cm_id *id, const void *priv, int len) { rdma_reject(id, priv, len); }

// All that is posted comes back: rdma_disconnect may fail, and has then not moved the queue pair.
void card_stop(struct rdma_cm_id *id) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	rdma_disconnect(id);
	ibv_modify_qp(id->qp, &a, IBV_QP_STATE);
}

int card_post(struct ibv_qp *qp, struct card_wr *w, int n, int *posted) {
	struct ibv_send_wr wr[32], *bad = NULL;
	struct ibv_sge sge[32][2];
	*posted = 0;
	while (*posted < n) {
		int k = n - *posted < 32 ? n - *posted : 32;
		memset(wr, 0, k * sizeof wr[0]);
		for (int i = 0; i < k; i++) {
			struct card_wr *c = &w[*posted + i];
			struct ibv_send_wr *r = &wr[i];
			r->wr_id = c->id;
			r->opcode = c->op;
			r->send_flags = c->flags;
			r->next = i + 1 < k ? r + 1 : NULL;
			r->wr.rdma.remote_addr = c->raddr;
			r->wr.rdma.rkey = c->rkey; // libsiw 44 takes what a Send invalidates from here too
			if (c->op == IBV_WR_SEND_WITH_INV) r->invalidate_rkey = c->rkey;
			r->sg_list = sge[i];
			r->num_sge = c->pieces;
			for (int j = 0; j < r->num_sge; j++) sge[i][j] = (struct ibv_sge){c->addr[j], c->len[j], c->lkey[j]};
		}
		int rc = ibv_post_send(qp, wr, &bad);
		if (rc) {
			if (bad) *posted += bad - wr;
			return rc < 0 ? -rc : rc;
		}
		*posted += k;
	}
	return 0;
}

int card_recv(struct ibv_qp *qp, uint64_t id, uint64_t addr, uint32_t len, uint32_t lkey) {
	struct ibv_sge s = {addr, len, lkey};
	struct ibv_recv_wr w = {.wr_id = id, .sg_list = &s, .num_sge = 1}, *bad;
	int rc = ibv_post_recv(qp, &w, &bad);
	return rc < 0 ? -rc : rc;
}

int card_poll(struct ibv_cq *cq, struct card_wc *out, int n, uint32_t inv) {
	struct ibv_wc wc[16];
	int k = ibv_poll_cq(cq, n < 16 ? n : 16, wc);
	for (int i = 0; i < k; i++) {
		out[i] = (struct card_wc){wc[i].wr_id, wc[i].status, wc[i].byte_len, 0, 0};
		if (!wc[i].status && (wc[i].wc_flags & inv)) out[i].inv = wc[i].invalidated_rkey, out[i].has_inv = 1;
	}
	return k;
}

int card_arm(struct ibv_cq *cq) { return ibv_req_notify_cq(cq, 0); }

int card_woken(struct ibv_comp_channel *cc) {
	struct ibv_cq *cq;
	void *ctx;
	if (ibv_get_cq_event(cc, &cq, &ctx)) return errno;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

int card_reg(struct ibv_pd *pd, uint64_t addr, uint64_t len, int access, struct ibv_mr **mr) {
	return (*mr = ibv_reg_mr(pd, (void *)(uintptr_t)addr, len, access)) ? 0 : errno;
}
