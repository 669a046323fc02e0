package rdmap

import "github.com/stag-rdma/stag/rdmap/verbs"

// Handler receives the messages of a connection.
//
// HandleRecv runs in the goroutine that holds the reading role, one message after the other in
// the order of delivery. It must not block, and must not call Wait, Close or any blocking method
// of the same Conn; it may call Post. If it has to block, it calls Conn.HandOff first. m and
// m.Data are lent until it returns. Each call has consumed one posted receive: PostRecv replaces
// it.
//
// HandleClose is called once with the first fatal error, when the connection is over and no further
// HandleRecv will begin. By then all work requests have completed.
type Handler interface {
	HandleRecv(c *Conn, m *verbs.Message)
	HandleClose(c *Conn, err error)
}

// IdleHandler is an optional part of a Handler: HandleIdle is called in the
// goroutine that holds the reading role when everything read so far has been
// handled, before the engine flushes what the upcalls have posted.
type IdleHandler interface{ HandleIdle(c *Conn) }
