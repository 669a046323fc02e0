package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// ErrProtocol is wrapped by the errors of Ping, Echo and ParseInfo if the peer violated rping's protocol.
var ErrProtocol = errors.New("rping: not rping's protocol")

// ErrData is wrapped by the error of Ping if octets other than those sent came back.
var ErrData = errors.New("rping: other data came back")

// ErrOptions is wrapped by the error of Ping for Options out of range.
var ErrOptions = errors.New("rping: size or count out of range")

// Options are the settings of the client. Nil means the defaults.
type Options struct {
	Size  int // octets of a ping, 1 to MaxSize; 0: 64
	Count int // number of pings; 0: 1
}

// DefaultSize is the size of a ping, in octets, if Options does not set one.
const DefaultSize = 64

func (o *Options) withDefaults() (Options, error) {
	v := Options{}
	if o != nil {
		v = *o
	}
	if v.Size == 0 {
		v.Size = DefaultSize
	}
	if v.Count == 0 {
		v.Count = 1
	}
	if v.Size < 1 || v.Size > MaxSize || v.Count < 1 {
		return v, fmt.Errorf("%w: size %d, count %d", ErrOptions, v.Size, v.Count)
	}
	return v, nil
}

// Ping runs the client on c, whose handshake is done, and compares every octet that comes back. The error is
// that of c or ctx, or wraps ErrData, ErrProtocol or ErrOptions. Ping does not close c.
func Ping(ctx context.Context, c *rdmap.Conn, opt *Options) error {
	o, err := opt.withDefaults()
	if err != nil {
		return err
	}
	p := pinger{c: c, source: make([]byte, o.Size), sink: make([]byte, o.Size)}
	from, err := c.Register(p.source, region.RemoteRead)
	if err != nil {
		return err
	}
	defer from.Revoke()
	to, err := c.Register(p.sink, region.RemoteWrite)
	if err != nil {
		return err
	}
	defer to.Revoke()
	for i := range o.Count {
		fill(p.source, i)
		clear(p.sink)
		if err := p.ping(ctx, from.STag(), to.STag()); err != nil {
			return fmt.Errorf("ping %d: %w", i+1, err)
		}
	}
	return nil
}

// pinger is the client on one connection.
type pinger struct {
	c            *rdmap.Conn
	source, sink []byte
}

// ping is one round.
func (p *pinger) ping(ctx context.Context, from, to region.STag) error {
	for _, stag := range []region.STag{from, to} {
		if err := p.advertise(ctx, stag); err != nil {
			return err
		}
	}
	if !bytes.Equal(p.sink, p.source) {
		at := 0
		for p.sink[at] == p.source[at] {
			at++
		}
		return fmt.Errorf("%w: octet %d of %d is %#02x, want %#02x", ErrData, at, len(p.sink), p.sink[at], p.source[at])
	}
	return nil
}

// advertise tells the server about a buffer and waits for its go-ahead. The offsets
// of regions start at 0.
func (p *pinger) advertise(ctx context.Context, stag region.STag) error {
	info := Info{RKey: stag, Len: uint32(len(p.source))}
	if err := p.c.Send(ctx, info.Append(nil)); err != nil {
		return err
	}
	m, err := p.c.Recv(ctx)
	if err != nil {
		return err
	}
	_, err = ParseInfo(m.Data)
	return err
}

// fill makes the data of ping i (from 0): text like that of rping, so that `rping -v` shows it, and
// different in every ping. The last octet ends the string.
func fill(b []byte, i int) {
	n := copy(b, fmt.Sprintf("rdma-ping-%d: ", i))
	for j := n; j < len(b)-1; j++ {
		b[j] = byte('!' + (i+j)%('~'-'!'+1))
	}
	if n < len(b) {
		b[len(b)-1] = 0
	}
}
