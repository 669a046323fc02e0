package probe

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// A relay makes a good server a bad one: it passes octets between a client and the server, and changes some of
// them.
type relay struct {
	twist  *twist
	Client net.Conn
	Server net.Conn

	changed atomic.Bool
}

// Changed reports whether the twist has changed anything.
func (r *relay) Changed() bool { return r.changed.Load() }

// Run relays until both directions have ended, or one breaks. It closes both connections.
func (r *relay) Run() {
	c := &relayConn{twist: r.twist, changed: &r.changed, client: r.Client, server: r.Server, settled: make(chan struct{})}
	var both sync.WaitGroup
	both.Go(func() { c.in(); finish(r.Server) })
	both.Go(func() { c.out(); finish(r.Client) })
	both.Wait()
	r.Client.Close()
	r.Server.Close()
}

// finish ends the output of nc.
func finish(nc net.Conn) {
	if c, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the peer may be gone
	}
}

// relayConn is one relayed connection, to the functions of a twist.
type relayConn struct {
	twist          *twist
	changed        *atomic.Bool
	client, server net.Conn

	settled chan struct{} // the Reply has been passed on
	once    sync.Once
	crcs    atomic.Bool // CRCs are on
	plain   bool        // frames are not looked into: markers

	outs int // frames of the server so far, the one at hand included
	ins  int // of the client

	msn   uint32 // of the client's last Send, for repairs
	shift uint32 // by which the MSNs of the server's Sends are raised, since Sends were inserted

	offered atomic.Pointer[chunks.Lists] // by the client's last call that offered something
	reads   uint32                       // Read Requests of the server
	calls   atomic.Int32                 // that wait for their replies
	granted atomic.Int32                 // credits, by the server
}

func (c *relayConn) settle() { c.once.Do(func() { close(c.settled) }) }

// in passes on what the client sends.
func (c *relayConn) in() {
	req, ok := startup(c.client, mpa.RequestKey)
	if _, err := c.server.Write(req); err != nil || !ok {
		c.settle()
		c.copy(c.server, c.client)
		return
	}
	c.crcs.Store(req[16]&0x40 != 0)
	<-c.settled
	frames(c.client, c.server, func() bool { return c.plain || c.twist == nil || c.twist.In == nil }, func(f []byte) [][]byte {
		c.ins++
		was := slices.Clone(f)
		all := c.twist.In(c, f)
		c.note(was, all...)
		return all
	})
}

// out passes on what the server sends.
func (c *relayConn) out() {
	defer c.settle()
	rep, ok := startup(c.server, mpa.ReplyKey)
	if ok && c.twist != nil && c.twist.Reply != nil {
		was := slices.Clone(rep)
		rep = c.twist.Reply(rep)
		c.note(was, rep)
	}
	if rep == nil { // the twist ends the connection
		c.client.Close()
		return
	}
	if ok && len(rep) >= mpa.StartupHeaderLen {
		if rep[16]&0x40 != 0 {
			c.crcs.Store(true)
		}
		c.plain = rep[16]&0x80 != 0
	}
	if _, err := c.client.Write(rep); err != nil {
		return
	}
	if !ok {
		c.copy(c.client, c.server)
		return
	}
	c.settle()
	frames(c.server, c.client, func() bool { return c.plain || c.twist == nil || c.twist.Out == nil }, func(f []byte) [][]byte {
		c.outs++
		was := slices.Clone(f)
		all := c.twist.Out(c, f)
		c.note(was, all...)
		return all
	})
}

// note records whether octets came out as they went in.
func (c *relayConn) note(was []byte, now ...[]byte) {
	if len(now) != 1 || !bytes.Equal(was, now[0]) {
		c.changed.Store(true)
	}
}

// copy passes on octets as they are.
func (c *relayConn) copy(to, from net.Conn) { _, _ = io.Copy(to, from) } // either may be gone

// startupWait bounds the wait for the rest of a startup frame.
const startupWait = 10 * time.Second

// startup reads one startup frame with the given key. If there is none, it returns what came instead.
func startup(nc net.Conn, key string) (b []byte, ok bool) {
	_ = nc.SetReadDeadline(time.Now().Add(startupWait))
	defer nc.SetReadDeadline(time.Time{})
	b = make([]byte, mpa.StartupHeaderLen)
	n, err := io.ReadFull(nc, b)
	if err != nil || string(b[:len(key)]) != key {
		return b[:n], false
	}
	rest := make([]byte, binary.BigEndian.Uint16(b[18:]))
	n, err = io.ReadFull(nc, rest)
	return append(b, rest[:n]...), err == nil
}

// frames passes on FPDUs one at a time, as change makes them; octets as they are if asIs says so.
func frames(from, to net.Conn, asIs func() bool, change func([]byte) [][]byte) {
	var held []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		held = append(held, buf[:n]...)
		for !asIs() {
			if len(held) < mpa.HeaderLen {
				break
			}
			size := mpa.FPDULen(int(binary.BigEndian.Uint16(held)))
			if len(held) < size {
				break
			}
			for _, f := range change(slices.Clone(held[:size])) {
				if _, err := to.Write(f); err != nil {
					return
				}
			}
			held = held[size:]
		}
		if len(held) > 0 && (asIs() || err != nil) {
			if _, e := to.Write(held); e != nil {
				return
			}
			held = nil
		}
		if err != nil {
			return
		}
	}
}
