package push

import (
	"context"
	"errors"
	"hash/crc32"
	"math"
	"net"
	"slices"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
)

// session is a session that an OPEN has begun.
type session struct {
	l     *log
	id    key
	token rendezvous.Token // zeros: none
	prep  *commitlog.Prepared

	turn chan struct{} // one slot: held by the call that appends
	sums []sum         // by call: of the last records, at most maxRecords; belongs to whoever has the turn

	// Guarded by Server.mu.
	over  bool
	conn  *rdmap.Conn         // native; nil: not yet, or by call
	calls bool                // by call
	prod  *commitlog.Producer // by call; nil: not yet, or native
	next  uint64              // by call: number of the next record
}

// drop forgets a session: from now on its calls are stale, and waiting ones end. A nil session is
// ignored. The caller holds s.mu.
func (s *Server) drop(sess *session) {
	if sess == nil || sess.over {
		return
	}
	sess.over = true
	delete(s.sessions, sess.id)
	s.side.Withdraw(sess.token)
	if sess.l.session == sess {
		sess.l.session = nil
	}
	if sess.prod != nil {
		sess.prod.Close()
	}
}

// errFenced ends the connection of a session when another session begins.
var errFenced = errors.New("push: another session has begun")

// abort ends the connection of a session that was dropped and has nothing running anymore. A nil
// session is ignored.
func (sess *session) abort() {
	if sess == nil {
		return
	}
	var c *rdmap.Conn
	sess.l.s.mu.With(func() { c = sess.conn })
	if c != nil {
		c.Abort(errFenced)
	}
}

// closeSession serves CLOSE.
func (s *Server) closeSession(k key) Status {
	var sess *session
	s.mu.With(func() {
		sess = s.sessions[k]
		s.drop(sess)
	})
	sess.abort()
	if sess == nil {
		return StatusStale
	}
	return StatusOK
}

// status serves STATUS.
func (s *Server) status(k key) stateRes {
	var sess *session
	var next uint64
	s.mu.With(func() {
		if sess = s.sessions[k]; sess != nil {
			next = max(sess.next, sess.prep.Answer().NextSeq)
		}
	})
	switch {
	case sess == nil:
		return stateRes{Status: StatusStale}
	case sess.l.lost():
		return stateRes{Status: StatusLost}
	}
	return sess.state(next)
}

// state returns the state of a session.
func (sess *session) state(next uint64) stateRes {
	return stateRes{Head: sess.prep.Head(), Next: next, Level: level(sess.prep.Answer().Persistent)}
}

// appendRecords serves APPEND. The calls of a session run one after the other; a repeated call
// finds that its records have been appended, and says so.
func (s *Server) appendRecords(ctx context.Context, a *appendArgs) stateRes {
	var sess *session
	s.mu.With(func() { sess = s.sessions[a.Session] })
	if sess == nil {
		return stateRes{Status: StatusStale}
	}
	ctx, cancel := context.WithTimeout(ctx, s.lim.AppendTime)
	defer cancel()
	defer context.AfterFunc(sess.l.ctx, cancel)() // do not append to memory that has failed
	select {
	case sess.turn <- struct{}{}:
		defer func() { <-sess.turn }()
	case <-ctx.Done():
		return stateRes{Status: StatusBusy}
	}
	st := sess.append(ctx, a)
	if st == StatusOK {
		s.ctr.appends.Add(uint64(len(a.Records)))
		return sess.state(sess.next)
	}
	return stateRes{Status: st}
}

// append appends the records of a that are new. The caller has the turn.
func (sess *session) append(ctx context.Context, a *appendArgs) Status {
	if st := sess.byCall(); st != StatusOK {
		return st
	}
	if a.Seq > sess.next {
		return StatusGap
	}
	known := min(sess.next-a.Seq, uint64(len(a.Records)))
	if !sess.repeats(a.Seq, a.Records[:known]) {
		return StatusFenced
	}
	records := a.Records[known:]
	limit := commitlog.PayloadLimit(sess.prep.Answer().Capacity)
	for _, r := range records {
		if len(r) > limit {
			return StatusTooLarge
		}
	}
	// A release may have come while the session was being opened: then nobody has told the producer.
	sess.prod.Released(sess.prep.Head())
	n, err := appendAll(ctx, sess.prod, records)
	if err != nil && !errors.Is(err, commitlog.ErrFull) {
		// Only the next session can tell which of them are in the log.
		sess.l.s.mu.With(func() { sess.l.s.drop(sess) })
		if sess.l.lost() {
			return StatusLost
		}
		return StatusStale
	}
	sess.l.s.mu.With(func() { sess.next += uint64(n) })
	for _, r := range records[:n] {
		sess.sums = append(sess.sums, sumOf(r))
	}
	sess.sums = slices.Delete(sess.sums, 0, max(0, len(sess.sums)-maxRecords))
	if err != nil { // those that fit are in the log, and are skipped when they come again
		return StatusFull
	}
	return StatusOK
}

// sum tells records with the same number apart.
type sum struct {
	n   int
	crc uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(r []byte) sum { return sum{len(r), crc32.Checksum(r, castagnoli)} }

// repeats reports whether records, from number seq on, are what the session has appended. Otherwise two programs use
// one session (a virtual machine and its copy, perhaps): to acknowledge what is not in the log would lose it. The
// caller has the turn.
func (sess *session) repeats(seq uint64, records [][]byte) bool {
	if len(records) == 0 {
		return true
	}
	first := sess.next - uint64(len(sess.sums))
	if seq < first {
		return false
	}
	for i, r := range records {
		if sess.sums[seq-first+uint64(i)] != sumOf(r) {
			return false
		}
	}
	return true
}

// byCall makes the producer for calls, if there is none. The caller has the turn.
func (sess *session) byCall() Status {
	if st := sess.claim(nil); st != StatusOK || sess.prod != nil {
		return st
	}
	p := commitlog.NewProducer(&commitlog.ProducerOptions{Queue: math.MaxInt}) // a call has brought the records already
	if err := sess.prep.Local(p); err != nil || !sess.has(p) {
		p.Close()
		return StatusStale
	}
	return StatusOK
}

// claim reserves the session for the connection c, or, if c is nil, for calls. It can be for only
// one of them.
func (sess *session) claim(c *rdmap.Conn) Status {
	s := sess.l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.over || sess.conn != nil || c != nil && sess.calls {
		return StatusStale
	}
	sess.conn, sess.calls = c, c == nil
	s.side.Withdraw(sess.token)
	return StatusOK
}

// has sets the producer for calls. It returns false if the session is over.
func (sess *session) has(p *commitlog.Producer) bool {
	s := sess.l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.over {
		return false
	}
	sess.prod, sess.next = p, sess.prep.Answer().NextSeq
	return true
}

// appendAll appends records in order, as many as there is room for, and returns when these are part of the log. With
// commitlog.ErrFull the first n are. After another error nobody can tell.
func appendAll(ctx context.Context, p *commitlog.Producer, records [][]byte) (n int, err error) {
	var first error
	var pending []*commitlog.Pending
	for _, r := range records {
		e, err := p.TryBegin(r)
		if err != nil {
			first = err
			break
		}
		pending = append(pending, e)
	}
	for _, e := range pending {
		if _, err := e.Wait(ctx); err != nil && (first == nil || errors.Is(first, commitlog.ErrFull)) {
			first = err
		}
	}
	return len(pending), first
}

// Serve takes l and accepts commit connections from it. It returns ErrServerClosed, or the first
// error of Accept. While the process is out of file descriptors, it waits instead.
func (s *Server) Serve(l net.Listener) error {
	if err := s.init(); err != nil {
		_ = l.Close() // it has accepted nobody
		return err
	}
	return s.side.Serve(l, func(nc net.Conn) error {
		return s.side.ServeConn(nc, commitlog.Config(nil), s.serveSession)
	})
}

// serveSession lets the producer at the other end of c append.
func (s *Server) serveSession(c *rdmap.Conn, sess *session) error {
	a, err := s.attach(c, sess)
	if err == nil {
		err = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: a.Append(nil)}})
	}
	if err != nil {
		c.Abort(err)
		return err
	}
	s.ctr.native.Add(1)
	err = c.Serve()
	s.mu.With(func() { s.drop(sess) })
	return err
}

// attach gives the session to c. If c lacks the extension, the session stays as it is: its client
// appends by call.
func (s *Server) attach(c *rdmap.Conn, sess *session) (*commitlog.Answer, error) {
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		return nil, commitlog.ErrNoExtension
	}
	if st := sess.claim(c); st != StatusOK {
		return nil, st
	}
	a, err := sess.prep.Attach(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && sess.over { // dropped before it had a connection to abort
		err = errFenced
	}
	return a, err
}
