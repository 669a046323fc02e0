package responder

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
)

// profile is the document that a connection follows, where documents differ.
type profile interface {
	// machine completes the settings of the machine.
	machine(c *rpcrdma.ResponderConfig)
	// settled applies what the start-up, or the Connection Configuration Protocol, has settled. The caller holds
	// Responder.mu.
	settled(configured bool)
	// align returns the alignment that the Connection Configuration Protocol asks for, 0 for none.
	align() uint32
	// landed returns a Send in the place where its data are aligned.
	landed(x *Call, send []byte) []byte
	// reduces reports whether the opaques of a program may travel in chunks, whatever its binding says.
	reduces(prog, vers uint32) bool
	// withholds reports whether a reply may have to wait after it was formed.
	withholds() bool
	// reply sends the reply in x.out.
	reply(x *Call)
	// done takes the RDMA_DONE for a reply.
	done(out *rpcrdma.Reply)
	// end gives up the replies that wait. The connection has ended, and Responder.gone is set.
	end()
}

// rfc8166 is the profile without any of that.
type rfc8166 struct{ rc *Responder }

func (rfc8166) machine(*rpcrdma.ResponderConfig)   {}
func (rfc8166) settled(bool)                       {}
func (rfc8166) align() uint32                      { return 0 }
func (rfc8166) landed(_ *Call, send []byte) []byte { return send }
func (rfc8166) reduces(_, _ uint32) bool           { return false }
func (rfc8166) withholds() bool                    { return false }
func (p rfc8166) reply(x *Call)                    { p.rc.send(x, nil) }
func (rfc8166) done(*rpcrdma.Reply)                {} // the machine refuses RDMA_DONE
func (rfc8166) end()                               {}

// rfc5666 is the other one. Responder.mu guards all but rc and cfg.
type rfc5666 struct {
	rc         *Responder
	cfg        *RFC5666
	dones      doneWatch
	withheld   []*Call // replies that may not be exposed yet, oldest first
	configured bool    // the client has called the Connection Configuration Protocol
}

func (p *rfc5666) machine(c *rpcrdma.ResponderConfig) {
	c.Profile, c.Align, c.MaxExposed = rpcrdma.RFC5666, p.cfg.PeerAlign, p.cfg.MaxExposed
	c.MaxExposedOctets = 4 * int64(p.rc.cfg.MaxPayload)
}

// Choice: a client can read exposed replies if it has read depth, and has either called the Connection
// Configuration Protocol or not used RFC 8797, which belongs to RFC 8166. Other clients would drop the reply and
// never send RDMA_DONE.
func (p *rfc5666) settled(configured bool) {
	p.configured = p.configured || configured
	reads := (p.configured || !p.rc.told) && p.rc.Conn.ConnectionState().IRD > 0
	p.rc.resp.Configure(func(c *rpcrdma.ResponderConfig) { c.Reads = reads })
}

func (p *rfc5666) align() uint32 { return uint32(max(p.cfg.Align, 0)) }

// Pooled buffers begin at a multiple of every alignment that Config permits, so the data have the same alignment in
// memory as in the Send. x holds the buffer; the message is not copied again.
func (p *rfc5666) landed(x *Call, send []byte) []byte {
	if !rpcrdma.IsPadded(send) {
		return send
	}
	p.rc.Ctr.Padded.Add(1)
	x.held = memory.Shared.Get(len(send))
	return x.held.Data[:copy(x.held.Data, send)]
}

func (p *rfc5666) reduces(prog, vers uint32) bool {
	return !chunks.Covers(p.rc.cfg.Binding, prog, vers)
}

func (p *rfc5666) withholds() bool { return true }

func (p *rfc5666) reply(x *Call) {
	if len(x.out.Expose) > 0 {
		p.expose(x)
		return
	}
	p.rc.send(x, nil)
}
