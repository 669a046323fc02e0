package transport

import (
	"fmt"
	"sync/atomic"

	"github.com/stag-rdma/stag/chunks"
)

// chunkCounters count the segments that calls offer, in the same way at both ends.
type chunkCounters struct {
	read, write, reply, long, offered atomic.Uint64
}

// add counts the lists of a call.
func (c *chunkCounters) add(l *chunks.Lists) {
	if len(l.Read) == 0 && len(l.Write) == 0 && !l.HasReply {
		return
	}
	c.read.Add(uint64(len(l.Read)))
	if len(l.Read) > 0 && l.Read[0].Position == 0 {
		c.long.Add(1)
	}
	for _, w := range l.Write {
		c.write.Add(uint64(len(w)))
		c.offered.Add(w.Room())
	}
	c.reply.Add(uint64(len(l.Reply)))
	c.offered.Add(l.Reply.Room())
}

// snapshot copies them.
func (c *chunkCounters) snapshot(s *Stats) {
	s.ReadSegments, s.WriteSegments, s.ReplySegments = c.read.Load(), c.write.Load(), c.reply.Load()
	s.LongCalls, s.OctetsOffered = c.long.Load(), c.offered.Load()
}

// Xprt returns the counters of a client as the line that Linux shows in /proc/self/mountstats for
// an NFS/RDMA mount, without the leading tab, so that tools for the one can read the other:
//
//	xprt: rdma port bind_count connect_count connect_time idle_time sends recvs bad_xids
//	  req_u bklog_u read_chunk_count write_chunk_count reply_chunk_count
//	  total_rdma_request total_rdma_reply pullup_copy_count fixup_copy_count
//	  hardway_register_count failed_marshal_count bad_reply_count nomsg_call_count
//	  mrs_recycled mrs_orphaned mrs_allocated local_inv_needed empty_sendctx_q
//	  reply_waits_for_send
//
// Fields without a counterpart here are 0: port, bind_count, the times, the queues, the copies,
// failures, and the last six. As in Linux, chunks are counted by their segments.
func (s Stats) Xprt() string {
	return fmt.Sprintf("xprt:\trdma 0 0 %d 0 0 %d %d %d 0 0 %d %d %d %d %d 0 0 0 0 0 %d 0 0 0 0 0 0",
		s.Accepted, s.Calls+s.Dones, s.Replies+s.Dropped, s.Dropped,
		s.ReadSegments, s.WriteSegments, s.ReplySegments, s.OctetsOffered, s.OctetsWritten, s.LongCalls)
}
