package page

import (
	"errors"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// Options bounds a page. The zero value, and nil, mean the defaults.
type Options struct {
	// MaxMessages bounds the arrows of all connections. If zero, 20,000. Later frames are counted, but not
	// shown.
	MaxMessages int

	// MaxOctets bounds the octets shown per message, from the first of its first FPDU on. If
	// zero, 256.
	MaxOctets int

	// MaxDetail bounds the decoded fields and octets of all messages, in octets of the page. If zero, 64
	// MiB. Messages beyond that have only their line.
	MaxDetail int
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	for _, f := range []struct {
		v   *int
		def int
	}{{&c.MaxMessages, 20_000}, {&c.MaxOctets, 256}, {&c.MaxDetail, 64 << 20}} {
		if *f.v <= 0 {
			*f.v = f.def
		}
	}
	return c
}

// A Builder collects what a page shows. It is for one goroutine.
type Builder struct {
	name  string
	opt   Options
	start time.Time // of the first event

	conns  []*conn // by appearance
	byID   map[int]*conn
	shown  int // messages that have a row
	hidden int // frames after the last of them
	detail int // octets of detail left
}

// New returns the builder of an empty page about the capture called name.
func New(name string, opt *Options) *Builder {
	b := &Builder{name: name, opt: opt.withDefaults(), byID: make(map[int]*conn)}
	b.detail = b.opt.MaxDetail
	return b
}

// Event takes the next event of the capture. It borrows ev.
func (b *Builder) Event(ev *decode.Event) {
	if b.start.IsZero() {
		b.start = ev.Time
	}
	c := b.byID[ev.Conn.ID]
	switch {
	case ev.Kind == decode.KindOpen || ev.Conn.Foreign || errors.Is(ev.Err, decode.ErrNotMPA):
		return
	case c == nil && ev.Kind == decode.KindClose:
		return
	case b.shown >= b.opt.MaxMessages:
		b.hidden++
		return
	case c == nil:
		c = b.conn(ev.Conn.ID)
	}
	c.settle(ev.Conn)
	b.extend(c, c.row(ev), ev)
}

// conn returns a new connection.
func (b *Builder) conn(id int) *conn {
	c := &conn{ID: id}
	b.byID[id] = c
	b.conns = append(b.conns, c)
	return c
}

// extend adds an event to its row.
func (b *Builder) extend(c *conn, r *row, ev *decode.Event) {
	if r.Segments == 0 {
		b.shown++
		b.octets(r, ev)
	}
	r.add(ev, b.start)
	if completes(ev) {
		c.finish(r, ev)
		b.fields(r, ev)
	}
}
