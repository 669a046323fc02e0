package decode

import (
	"cmp"
	"fmt"

	"github.com/stag-rdma/stag/internal/setting"
)

// Options limits what a decoder keeps in memory, and says what Sends carry. The zero value, and a nil
// *Options, mean the defaults. All limits are in octets unless they say otherwise.
type Options struct {
	// MaxEarly bounds the TCP payload kept per direction while octets before it are missing; each packet
	// counts as 256 octets more. If zero, 4 MiB. The missing octets are given up when the bound is exceeded,
	// or when the receiver acknowledged them 128 packets ago. In addition each direction takes 64 KiB to
	// compare retransmissions, and up to 512 KiB while it looks for an FPDU.
	MaxEarly int

	// MaxMessage bounds one untagged DDP message that is put together from several segments. If zero, 1 MiB.
	// A longer one is reported with [ErrTooLong] and not decoded further.
	MaxMessage int

	// MaxPlaced bounds the chunk contents (RDMA Writes, Read Responses) remembered at one time, over all
	// connections of a capture, to rebuild calls and replies with chunks. If zero, 64 MiB. Beyond that,
	// messages are decoded from their inline octets alone.
	MaxPlaced int

	// MaxCalls bounds the RPC calls remembered per connection and direction while their replies
	// have not been seen, in calls. If zero, 4096. The oldest is forgotten first.
	MaxCalls int

	// MaxConns bounds the TCP connections remembered, in connections. If zero, 32768. The one that was
	// idle longest is dropped first.
	MaxConns int

	// ULP says what the Sends carry.
	ULP ULP
}

// ULP is the protocol above RDMAP.
type ULP uint8

const (
	// ULPAuto takes a connection for RPC-over-RDMA if either startup frame carries the private data of RFC
	// 8797, or if the first Send is a plausible RPC-over-RDMA message.
	ULPAuto    ULP = iota
	ULPRPCRDMA     // every Send is RPC-over-RDMA
	ULPOpaque      // no Send is decoded
	ULPCommit      // a commit session (docs/commitlog-format.md), recognised by what it says
)

// Check returns an error that names the first setting that is out of range: a limit that is negative, or an
// unknown ULP. A nil o is valid.
func (o *Options) Check() error {
	if o == nil {
		return nil
	}
	err := setting.Check(
		setting.Count("MaxEarly", o.MaxEarly), setting.Count("MaxMessage", o.MaxMessage), setting.Count("MaxPlaced", o.MaxPlaced),
		setting.Count("MaxCalls", o.MaxCalls), setting.Count("MaxConns", o.MaxConns),
		setting.Int("ULP", int(o.ULP), int(ULPAuto), int(ULPCommit)),
	)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// withDefaults returns a copy of o with the zero fields filled in. It panics with the error of Check.
func (o *Options) withDefaults() Options {
	if err := o.Check(); err != nil {
		panic(err)
	}
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxEarly = cmp.Or(c.MaxEarly, 4<<20)
	c.MaxMessage = cmp.Or(c.MaxMessage, 1<<20)
	c.MaxPlaced = cmp.Or(c.MaxPlaced, 64<<20)
	c.MaxCalls = cmp.Or(c.MaxCalls, 4096)
	c.MaxConns = cmp.Or(c.MaxConns, 1<<15)
	return c
}
