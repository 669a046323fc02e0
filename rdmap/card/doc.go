// Package card carries the connections of package rdmap on RDMA cards, by libibverbs and librdmacm: RoCE, InfiniBand with
// IP addresses, and iWARP. [Listen] gives net.Conns that are rdmap.Devices, and so does [Dial]: rdmap, and what is above
// it, takes them as it takes TCP connections.
//
// It is a module of its own because it needs cgo and the headers of rdma-core (Debian: libibverbs-dev and librdmacm-dev).
// It has been tried on Linux's soft RoCE (rdma_rxe) and soft iWARP (siw), and on no card.
//
// The files: thread.go says why some calls are made by one thread; cm.go talks with the connection manager; verbs.go is a
// queue pair, and all else that calls C; memory.go has the registered memory; conn.go is the life of a connection;
// work.go posts and completes; name.go lends memory to peers.
package card
