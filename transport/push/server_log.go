package push

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// mostOpens limits the OPENs that run at a time: each may wait for a fence. One host may have one in so many: it
// could fill all places with OPENs of one log, which wait for each other.
const (
	mostOpens  = 64
	opensShare = 8
)

// open serves OPEN.
func (s *Server) open(ctx context.Context, req *rpc.Request, a *openArgs) openRes {
	host := peeraddr.Share(req.RemoteAddr)
	if !s.opening.Enter(req.RemoteAddr, mostOpens/opensShare) {
		return s.refuse(StatusBusy)
	}
	defer s.opening.Leave(req.RemoteAddr)
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return s.refuse(StatusBusy)
	}
	l, m, st := s.find(a, host)
	if m != nil {
		l, st = s.create(a.Name, m)
	}
	if st != StatusOK {
		return s.refuse(st)
	}
	return s.begin(ctx, l, a)
}

func (s *Server) refuse(st Status) openRes {
	s.ctr.refused.Add(1)
	if st == StatusFull {
		s.ctr.full.Add(1)
	}
	return openRes{Status: st}
}

// find returns what an OPEN may have: a log, or the room to make one. Whatever is wrong, the answer is the same and
// takes the same time: one look-up of the name, and one comparison of digests. An OPEN that resumes makes no log:
// its client knows of records.
func (s *Server) find(a *openArgs, host string) (*log, *making, Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, m := s.logs[a.Name], s.making[a.Name]
	var want Owner // nobody's: no secret has this digest
	switch {
	case l != nil:
		want = l.owner
	case m != nil:
		want = m.from.Owner
	}
	got := ownerOf(&a.Secret)
	same := subtle.ConstantTimeCompare(want[:], got[:]) == 1
	switch {
	case s.closed, same && l == nil:
		return nil, nil, StatusBusy
	case same:
		return l, nil, StatusOK
	case l == nil && m == nil && !a.Resume && a.Secret != (Secret{}) && possible(a.Name):
		m, st := s.reserve(a, got, host)
		return nil, m, st
	}
	return nil, nil, StatusRefused
}

// begin begins a session on l for an owner, and ends the previous one.
func (s *Server) begin(ctx context.Context, l *log, a *openArgs) openRes {
	if l.lost() {
		return s.refuse(StatusLost)
	}
	ctx, cancel := context.WithTimeout(ctx, s.lim.fence)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return s.refuse(StatusBusy)
	}
	old, fenced := s.fence(l, a)
	if fenced {
		return s.refuse(StatusFenced)
	}
	prep, err := l.log.Prepare(ctx, a.Instance)
	old.abort()
	switch {
	case errors.Is(err, region.ErrPinned), err != nil && s.ctx.Err() != nil:
		return s.refuse(StatusBusy) // the old session is over, but its operations still run
	case err != nil:
		s.logger.Error("push: session not begun", zap.String("log", l.name), zap.Error(err))
		return s.refuse(StatusLost)
	}
	return s.admit(l, prep, a)
}

// fence ends the session of l for calls, unless the opening instance was fenced itself: an instance
// that resumes after another has opened the log is told so, so that two of them do not fence each
// other forever. The instance in the header of the log decides, which a restart of the server does
// not change. The claim only adds to it whoever could not finish taking over, because operations were
// still running: otherwise the fenced instance could come before its next try.
func (s *Server) fence(l *log, a *openArgs) (old *session, fenced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Resume && l.claim != a.Instance {
		return nil, true
	}
	l.claim = a.Instance
	old = l.session
	s.drop(old)
	return old, false
}

// admit adds the new session.
func (s *Server) admit(l *log, prep *commitlog.Prepared, a *openArgs) openRes {
	sess := &session{l: l, id: key(NewSecret()), prep: prep, turn: make(chan struct{}, 1)}
	res := openRes{Opened: opened{Session: sess.id, Answer: prep.Answer()}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return openRes{Status: StatusBusy}
	}
	l.session = sess
	s.sessions[sess.id] = sess
	if a.Native && s.Addr != "" {
		at := s.side.Offer(sess, s.Addr)
		sess.token, res.Opened.Commit = at.Token, &at
	}
	s.ctr.opens.Add(1)
	s.logger.Info("push: session", zap.String("log", l.name), zap.Uint32("epoch", res.Opened.Answer.Epoch))
	return res
}

// One host may have one part in so many.
const (
	logsShare   = 8
	octetsShare = 4
)

// making is a log that is being made.
type making struct {
	from   Origin
	octets uint64 // of its ring
}

// taken counts the logs of a host and the octets of their rings, including those that are being
// made. The caller holds s.mu.
func (s *Server) taken(host string) (logs int, octets uint64) {
	for _, l := range s.logs {
		if l.host == host {
			logs, octets = logs+1, octets+l.size
		}
	}
	for _, m := range s.making {
		if m.from.Host == host {
			logs, octets = logs+1, octets+m.octets
		}
	}
	return logs, octets
}

// client returns the limits for a host: none for one that may stand for any number of clients.
func (l *Limits) client(host string) (logs int, octets uint64) {
	if peeraddr.Many(host) {
		return math.MaxInt, math.MaxUint64
	}
	return max(l.MaxLogs/logsShare, 1), max(l.MaxOctets/octetsShare, 1)
}

// full logs what there is no room for and returns StatusFull. The caller holds s.mu.
func (s *Server) full(whose, host string) Status {
	logs, octets := s.taken(host)
	s.logger.Warn("push: no room for another log (remove logs that nobody uses, or raise the limit; until then the client does without)",
		zap.String("limit of", whose), zap.String("host", host), zap.Int("its logs", logs), zap.Uint64("its octets", octets),
		zap.Int("all logs", len(s.logs)), zap.Uint64("all octets", s.octets))
	return StatusFull
}

// reserve reserves the name and the room for a log until it exists, or cannot be made. The caller holds s.mu.
func (s *Server) reserve(a *openArgs, owner Owner, host string) (*making, Status) {
	m := &making{Origin{owner, host}, s.lim.capacity(a.Capacity)}
	logs, octets := s.taken(host)
	switch most, mostOctets := s.lim.client(host); {
	case len(s.logs)+len(s.making) >= s.lim.MaxLogs || s.octets+m.octets > s.lim.MaxOctets:
		return nil, s.full("all logs together", host)
	case logs >= most || octets+m.octets > mostOctets:
		return nil, s.full("one host", host)
	}
	s.making[a.Name] = m
	s.octets += m.octets
	return m, StatusOK
}

// unreserve undoes reserve. The caller holds s.mu.
func (s *Server) unreserve(name string) {
	if m := s.making[name]; m != nil {
		s.octets -= m.octets
		delete(s.making, name)
	}
}

// create makes the log for which reserve has reserved the room.
func (s *Server) create(name string, m *making) (*log, Status) {
	l, err := s.make(name, m)
	if err != nil {
		s.mu.With(func() { s.unreserve(name) })
		s.logger.Error("push: log not made", zap.String("log", name), zap.Error(err))
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return nil, StatusFull
		}
		return nil, StatusLost
	}
	s.ctr.made.Add(1)
	s.logger.Info("push: log made", zap.String("log", name), zap.String("host", m.from.Host), zap.Uint64("capacity", m.octets))
	return l, StatusOK
}

func (s *Server) make(name string, m *making) (*log, error) {
	size, err := commitlog.MemorySize(m.octets)
	if err != nil {
		return nil, err
	}
	err = s.Store.Create(name, size, m.from, func(mem region.Memory) error {
		return commitlog.Create(mem, &commitlog.Options{Owner: m.from.Owner})
	})
	if err != nil {
		return nil, fmt.Errorf("not in the store: %w", err)
	}
	return s.load(name)
}

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
	ctx, cancel := context.WithTimeout(ctx, s.lim.append)
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
	p := commitlog.NewProducer(nil)
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

// mostReads limits the READs that run at a time, most of which wait for records. One log, and one host with all its logs
// unless it may stand for any number of clients, may have one in so many.
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
	ctx, cancel := context.WithTimeout(ctx, s.lim.fence)
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
