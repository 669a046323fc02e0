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

// mostReads limits the READs that run at a time, most of which wait for records. One log, and one host with all its logs
// by the rules of Limits.ClientLogs, may have one in so many.
const (
	mostReads      = 64
	readsShare     = 8
	hostReadsShare = 4
)

// mostRead is how long a READ may wait.
const mostRead = 10 * time.Second

// read serves READ. It needs the secret and no session: whoever reads fences nobody.
func (s *Server) read(ctx context.Context, req *rpc.Request, a *readArgs) readRes {
	l := s.ownedBy(a.Name, &a.Secret)
	switch {
	case l == nil:
		return readRes{Status: StatusRefused}
	case l.log == nil:
		return readRes{Status: StatusLost}
	}
	if !peeraddr.Many(peeraddr.Share(req.RemoteAddr)) {
		if !s.reading.Enter(req.RemoteAddr, mostReads/hostReadsShare) {
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

// release serves RELEASE. Like READ, it needs the secret and no session: whoever is done with the records need not
// be who appends them.
func (s *Server) release(ctx context.Context, a *releaseArgs) Status {
	l := s.ownedBy(a.Name, &a.Secret)
	switch {
	case l == nil:
		return StatusRefused
	case l.lost():
		return StatusLost
	}
	ctx, cancel := context.WithTimeout(ctx, s.lim.FenceTime)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return StatusBusy
	}
	// The log releases only what it has returned: so the place after record seq is known from a record that was
	// checked, and no number that a client has made up moves the head.
	for l.seen < a.Seq {
		rec, err := l.log.TryNext()
		switch {
		case err != nil:
			return StatusLost
		case rec == nil:
			return StatusGap
		case ctx.Err() != nil: // a full ring of small records takes a while; what was seen stays seen
			l.seen = rec.Seq
			return StatusBusy
		}
		l.seen = rec.Seq
	}
	if err := l.log.Release(a.Seq); err != nil {
		return StatusLost
	}
	return StatusOK
}

// ownedBy returns the log of a secret, nil if there is none. Whatever is wrong, it takes as long.
func (s *Server) ownedBy(name string, secret *Secret) *log {
	var l *log
	s.mu.With(func() { l = s.logs[name] })
	var want Owner // nobody's: no secret has this digest
	if l != nil {
		want = l.owner
	}
	got := ownerOf(secret)
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return nil
	}
	return l
}
