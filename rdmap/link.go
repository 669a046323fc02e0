package rdmap

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// errInterrupted: a read was told to return. It is a hint: the reader checks what has changed, and may
// read again.
var errInterrupted = errors.New("rdmap: read interrupted")

// link is the byte stream below a Conn. read belongs to the holder of the reading
// role, try and write to the flusher; the others may be called at any time.
type link interface {
	// read adds octets to the connection's staging, borrowing one if there is
	// none. With wait it returns at least one octet or an error; without, n may be 0.
	read(c *Conn, wait bool) (n int, err error)
	// try writes what can be written without waiting; again reports that something is
	// left. ok is false if this link cannot write without waiting.
	try(b *buf.Batch) (again, ok bool, err error)
	// write writes all that is left of b, however long that takes; a write that
	// makes no progress for timeout fails.
	write(b *buf.Batch, timeout time.Duration) error
	// watch makes sure that input is noticed while nobody waits on the connection;
	// unwatch ends that. Both are called with role.mu held.
	watch(c *Conn)
	unwatch(c *Conn)
	// forget ends all watching for good, with role.mu held.
	forget(c *Conn)
	// process reports whether a watcher of the process serves this link, so that its
	// ticks can be shared.
	process() bool
	closeWrite() bool
	emss() int
	// parkRoom returns how many octets of free staging a read needs while it waits
	// inside an FPDU of need octets, of which have have arrived.
	parkRoom(need, have int) int
}

// anyLink runs on any net.Conn: while nobody waits a goroutine is parked
// in Read, and is interrupted by a read deadline in the past.
type anyLink struct {
	nc  net.Conn
	big bool // the last read filled its staging: more is likely to come
}

func newAnyLink(nc net.Conn) *anyLink { return &anyLink{nc: nc} }

// read waits with a small staging, since Read needs its memory before it waits. While a peer sends
// much, a big one is used.
func (l *anyLink) read(c *Conn, wait bool) (int, error) {
	if !wait {
		return 0, nil
	}
	switch {
	case c.st != nil:
	case l.big:
		c.st = buf.NewStaging(buf.Big)
	default:
		c.st = buf.NewStaging(buf.Small)
	}
	st, room := c.st.Room(c.df.Need(c.st.Pending()))
	c.st = st
	n, err := l.nc.Read(room)
	if n > 0 {
		st.W += n
		l.big = n == len(room) || n > buf.Small
		return n, nil
	}
	return 0, readError(err)
}

func readError(err error) error {
	switch {
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errInterrupted
	}
	return err
}

func (l *anyLink) try(*buf.Batch) (again, ok bool, err error) { return false, false, nil }

// write writes pieces of some tens of KiB, whatever the pieces of b are: each Write may be a TLS
// record or a system call, and its deadline is for that piece. Afterwards the deadline is removed: if
// it passed while the connection is idle, something that TLS writes on its own behalf would fail, and
// break the connection for good.
func (l *anyLink) write(b *buf.Batch, timeout time.Duration) error {
	var k *buf.Chunk
	defer func() {
		if k != nil {
			k.Release()
		}
		_ = l.nc.SetWriteDeadline(noDeadline)
	}()
	for len(b.Unwritten()) > 0 {
		p := b.Unwritten()[0]
		switch {
		case len(p) >= buf.ChunkSize:
			p = p[:buf.ChunkSize]
		case len(b.Unwritten()) > 1:
			if k == nil {
				k = buf.NewChunk()
			}
			p = b.Gather(k)
		}
		_ = l.nc.SetWriteDeadline(time.Now().Add(timeout))
		n, err := l.nc.Write(p)
		b.Advance(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// watch parks a reader: a goroutine that holds the reading role until it is
// interrupted.
func (l *anyLink) watch(c *Conn) {
	c.role.holder = holderWatcher
	go c.parked()
}

func (l *anyLink) unwatch(c *Conn) {
	if c.role.holder == holderWatcher {
		c.role.interrupt()
	}
}

func (l *anyLink) forget(*Conn)  {}
func (l *anyLink) process() bool { return false }
func (l *anyLink) emss() int     { return defaultEMSS }

func (l *anyLink) closeWrite() bool {
	cw, ok := l.nc.(interface{ CloseWrite() error })
	return ok && cw.CloseWrite() == nil
}

// parkRoom returns room for the rest of the FPDU: Read needs its memory before it waits.
func (l *anyLink) parkRoom(need, have int) int { return need - have }
