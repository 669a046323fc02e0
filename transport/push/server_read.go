package push

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/rpc"
)

// One log, and one host with all its logs, may have one in so many of MaxReads.
const (
	readsShare     = 8
	hostReadsShare = 4
)

// mostRead is how long a READ may wait.
const mostRead = 10 * time.Second

// read serves READ. It needs the secret and no session: whoever reads fences nobody.
func (s *Server) read(ctx context.Context, req *rpc.Request, a *readArgs) readRes {
	l := s.ownedBy(a)
	switch {
	case l == nil:
		return readRes{Status: StatusRefused}
	case l.log == nil:
		return readRes{Status: StatusLost}
	}
	if !peeraddr.Many(peeraddr.Share(req.RemoteAddr)) {
		if !s.reading.Enter(req.RemoteAddr, max(s.lim.MaxReads/hostReadsShare, 1)) {
			return readRes{Status: StatusBusy}
		}
		defer s.reading.Leave(req.RemoteAddr)
	}
	for _, slots := range [...]chan struct{}{l.reads, s.reads} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			return readRes{Status: StatusBusy}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, min(time.Duration(a.Milliseconds)*time.Millisecond, mostRead))
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	most := int(min(a.Octets, maxReadOctets))
	recs, err := l.log.Read(ctx, a.From, most)
	switch e, ok := errors.AsType[*commitlog.ReleasedError](err); {
	case ok:
		return readRes{Status: StatusReleased, First: e.First}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return readRes{} // nothing yet
	case err != nil:
		return readRes{Status: StatusLost}
	}
	octets := 0
	for i, r := range recs {
		octets += len(r.Payload) + entryLen
		if i == maxRecords || octets > most {
			recs = recs[:i]
			break
		}
	}
	if len(recs) == 0 {
		return readRes{Status: StatusTooLarge}
	}
	return readRes{Records: recs}
}

// ownedBy returns the log of a secret, nil if there is none. Whatever is wrong, it takes as long.
func (s *Server) ownedBy(a *readArgs) *Log {
	s.mu.Lock()
	l := s.logs[a.Name]
	s.mu.Unlock()
	var want Owner // nobody's: no secret has this digest
	if l != nil {
		want = l.owner
	}
	got := ownerOf(&a.Secret)
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return nil
	}
	return l
}
