package judge

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// opIllegal is the answer of a server to an operation that it does not know (RFC 8881 Section 18.52).
const opIllegal = 10044

// compoundAsked is the COMPOUND of NFSv4 that a reply answers.
type compoundAsked struct {
	known bool
	tag   string
	ops   []uint32
	whole bool // all operations are in ops
}

// compoundCall keeps what the reply will be judged by.
func (m *rpcMachine) compoundCall(r *decode.RPC, c *rpcCall) {
	a := compoundAsked{known: true, tag: r.Compound.Tag, whole: r.Compound.Err == nil}
	for _, op := range r.Compound.Ops {
		a.ops = append(a.ops, op.Num)
	}
	c.nfs4 = a
}

// compoundReply judges the results of a COMPOUND (RFC 8881 Section 16.2).
func (m *rpcMachine) compoundReply(r *decode.RPC, c *rpcCall) {
	res, a := r.Compound, &c.nfs4
	if !a.known {
		return
	}
	if res.Tag != a.tag {
		m.violate("NFS-052", "tag %q, the call has %q", res.Tag, a.tag)
	}
	if a.whole && (int64(res.NumOps) > int64(len(a.ops)) || res.Status == 0 && int64(res.NumOps) < int64(len(a.ops))) {
		m.violate("NFS-050", "%d results for %d operations, status %d", res.NumOps, len(a.ops), res.Status)
		return
	}
	for i, op := range res.Ops {
		last := int64(i) == int64(res.NumOps)-1
		switch {
		case i < len(a.ops) && op.Num != a.ops[i] && op.Num != opIllegal:
			m.violate("NFS-050", "result %d is of operation %d, the call has %d", i+1, op.Num, a.ops[i])
			return
		case res.Err != nil && i == len(res.Ops)-1: // could not be read
		case last && op.Status != res.Status:
			m.violate("NFS-051", "status %d, that of the last operation is %d", res.Status, op.Status)
		case !last && op.Status != 0:
			m.violate("NFS-051", "operations follow %s, which has failed with %d", op.Name, op.Status)
			return
		}
	}
}

// movedOps returns how many operations have an item in a chunk.
func movedOps(c *decode.Compound) (n int) {
	for i := range c.Ops {
		if c.Ops[i].Moved > 0 {
			n++
		}
	}
	return n
}

// compoundReduced judges the Read chunks of a COMPOUND that came inline: each must belong to an argument
// that may be reduced (RFC 8267 Section 5). The decoder has found the chunks that do.
func (m *rpcMachine) compoundReduced(r *decode.RPC) {
	positions := 0
	for _, ch := range m.layout.Chunks {
		if ch.Len > 0 {
			positions++
		}
	}
	if c := r.Compound; c != nil && c.Err == nil && !r.Whole && positions > movedOps(c) {
		m.violate("RPCRDMA-027", "%d Read chunks, %d operations with an eligible argument at one", positions, movedOps(c))
	}
}

// compoundWritten is the same for the Write chunks of a reply.
func (m *rpcMachine) compoundWritten(r *decode.RPC, list []chunks.WriteChunk) {
	used := 0
	for _, w := range list {
		if w.Room() > 0 {
			used++
		}
	}
	if c := r.Compound; c != nil && c.Err == nil && !r.Whole && used > movedOps(c) {
		m.violate("RPCRDMA-036", "%d used Write chunks, %d operations with an eligible result", used, movedOps(c))
	}
}
