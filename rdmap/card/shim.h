// What Go cannot call: functions with unions in their arguments, and those whose errors are in errno. All return 0 or an
// errno. Structures that cross the border have the layout of those with the same name in verbs.go.
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdlib.h>

struct card_addr { // an address of either family
	uint8_t ip[16];
	uint32_t scope;
	uint16_t port, v6;
};

struct card_event { // a copy of a CM event, which has been acknowledged
	int32_t type, status;
	struct rdma_cm_id *id, *listen;
	uint8_t asked, may, len; // Reads that the peer may have in flight to us, and we to it; octets of priv
	uint8_t priv[255];
};

struct card_wr { // a work request of the send queue
	uint64_t id, addr[2], raddr;
	uint32_t len[2], lkey[2];
	uint32_t op, flags, rkey, pieces;
};

struct card_wc { // a completion
	uint64_t id;
	uint32_t status, len, inv, has_inv;
};

struct card_caps {
	uint32_t sends, recvs, reads, cqes, iwarp, inv;
};

int card_channel(struct rdma_event_channel **ch);
int card_next(struct rdma_event_channel *ch, struct card_event *e);
int card_listen(struct rdma_event_channel *ch, struct rdma_cm_id **id, const struct card_addr *a, int backlog);
int card_resolve(struct rdma_event_channel *ch, struct rdma_cm_id **id, const struct card_addr *a, int ms);
int card_route(struct rdma_cm_id *id, int ms);
void card_address(struct rdma_cm_id *id, int peer, struct card_addr *a);
int card_caps(struct ibv_context *v, struct card_caps *c);
int card_pd(struct ibv_context *v, struct ibv_pd **pd);
int card_pair(struct rdma_cm_id *id, struct ibv_pd *pd, int sends, int recvs, struct ibv_comp_channel **cc, struct ibv_cq **cq);
int card_start(struct rdma_cm_id *id, int accept, const void *priv, int len, int ird, int ord);
void card_reject(struct rdma_cm_id *id, const void *priv, int len);
void card_stop(struct rdma_cm_id *id);
int card_post(struct ibv_qp *qp, struct card_wr *w, int n, int *posted);
int card_recv(struct ibv_qp *qp, uint64_t id, uint64_t addr, uint32_t len, uint32_t lkey);
int card_poll(struct ibv_cq *cq, struct card_wc *out, int n, uint32_t inv);
int card_arm(struct ibv_cq *cq);
int card_woken(struct ibv_comp_channel *cc);
int card_reg(struct ibv_pd *pd, uint64_t addr, uint64_t len, int access, struct ibv_mr **mr);
