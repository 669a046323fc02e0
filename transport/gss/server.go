package gss

import (
	"crypto/rand"
	"time"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/xdr"
)

// What a server keeps. One context takes a few KiB. The one that was used least lately makes room: first for others of the
// same client, if that has more than its share, so that nobody's flood costs others theirs. A client whose context is gone
// makes another one.
const (
	maxContexts = 8192
	perClient   = maxContexts / 8
	// window is how far the sequence number of a call may be behind the highest one (RFC 2203 Section 5.3.3.1). Choice:
	// more than any client has in flight on a few connections.
	window = 1024
)

// Server holds the contexts that clients have with a server, whatever connections they use. It is safe for concurrent use.
type Server struct {
	accept func() Handshake

	mu       shared.Mutex
	contexts map[handle]*held
	used     list.List[held] // the least lately used first
	clients  map[string]*list.List[held]
}

// handle names a context. It is random, so that no context of an earlier server has the name of one of this: else
// calls that somebody has recorded could be made again.
type handle [16]byte

// held is a context of a Server.
type held struct {
	handle  handle
	client  string
	shake   Handshake // until it is established
	c       Context
	seq     uint32 // the highest number
	seen    [window / 64]uint64
	all, by list.Node[held]
}

// NewServer returns the table of a server. accept begins the acceptor's end of a context.
func NewServer(accept func() Handshake) *Server {
	return &Server{accept: accept, contexts: make(map[handle]*held), clients: make(map[string]*list.List[held])}
}

// Verdict is what becomes of a call.
type Verdict uint8

// Values of [Verdict].
const (
	Run    Verdict = iota // it runs
	Answer                // it was a control message: Opened.Results go back
	Garble                // its arguments are not what the client has sent: GARBAGE_ARGS
	Deny                  // it is denied with Opened.Stat
	Drop                  // it gets no answer: it, or one with its number, has come before
)

// Opened is what [Server.Open] makes of a call.
type Opened struct {
	Verdict Verdict
	Call    *Call        // for Run, Answer and Garble
	Args    []byte       // for Run: the plain arguments, a view of those given
	Results []byte       // for Answer
	Stat    xdr.AuthStat // for Deny
	Err     error        // why there is no context, or no call, for the log; may be nil
}

// Call is a call whose caller is known for certain.
type Call struct {
	Principal Principal
	Service   Service

	answered bool
	verf     xdr.Auth // if answered
	seq      uint32
	c        Context
}

// Answered reports whether the call was a control message, of which no handler knows.
func (c *Call) Answered() bool { return c.answered }

// Verifier returns the verifier of the reply, unless the call is denied.
func (c *Call) Verifier() xdr.Auth {
	if c.answered {
		return c.verf
	}
	return micOf(c.c, c.seq)
}

// AppendResults appends the results of the call, which the parts make, as its service protects them: at most MaxOverhead
// octets more.
func (c *Call) AppendResults(b []byte, parts ...[]byte) []byte {
	return appendBody(b, c.c, c.Service, c.seq, parts...)
}

// Open judges a call with a credential of RPCSEC_GSS from a client, whose contexts have a share under that name. It takes
// args, and borrows h.
func (s *Server) Open(client string, h *xdr.CallHeader, args []byte, now time.Time) Opened {
	var c cred
	if !c.parse(h.Cred.Body) || c.proc != procData && h.Proc != 0 { // control messages go to procedure 0 (Section 5.2.2)
		return Opened{Verdict: Deny, Stat: xdr.AuthBadCred}
	}
	if c.proc == procInit || c.proc == procContinue {
		return s.establish(client, &c, args)
	}
	x := s.find(c.handle, now)
	if x == nil || x.c == nil {
		return Opened{Verdict: Deny, Stat: xdr.GSSCredProblem}
	}
	if h.Verf.Flavor != xdr.RPCSECGSS {
		return Opened{Verdict: Deny, Stat: xdr.AuthBadVerf}
	}
	// First the checksum: what is not the client's own must not move the window.
	var room [24 + 8 + xdr.MaxAuthBody + 8]byte
	if err := x.c.VerifyMIC(headOf(room[:0], h), h.Verf.Body); err != nil {
		return Opened{Verdict: Deny, Stat: xdr.GSSCredProblem, Err: err}
	}
	if c.seq >= maxSeq {
		return Opened{Verdict: Deny, Stat: xdr.GSSCtxProblem}
	}
	if !s.take(x, c.seq) {
		return Opened{Verdict: Drop}
	}
	o := Opened{Call: &Call{Principal: x.c.Initiator(), Service: c.service, seq: c.seq, c: x.c}}
	if c.proc == procDestroy {
		s.forget(x)
		o.Verdict, o.Call.answered, o.Call.verf = Answer, true, micOf(x.c, c.seq)
		return o
	}
	if o.Args, o.Err = openBody(x.c, c.service, c.seq, args); o.Err != nil {
		o.Verdict = Garble // Section 5.3.3.4.2
	}
	return o
}

// establish answers RPCSEC_GSS_INIT and RPCSEC_GSS_CONTINUE_INIT.
func (s *Server) establish(client string, c *cred, args []byte) Opened {
	d := xdr.NewDecoder(args)
	token := d.Opaque(MaxToken)
	if d.End() != nil || c.proc == procInit != (len(c.handle) == 0) {
		return Opened{Verdict: Deny, Stat: xdr.AuthBadCred}
	}
	x := &held{client: client}
	if c.proc == procInit {
		x.shake = s.accept()
		rand.Read(x.handle[:])
	} else if x = s.resume(c.handle); x == nil { // no other call has it meanwhile
		return Opened{Verdict: Deny, Stat: xdr.GSSCredProblem}
	}
	var r initRes
	var err error
	r.token, x.c, err = x.shake.Step(token)
	o := Opened{Verdict: Answer, Call: &Call{Service: None, answered: true, c: x.c}, Err: err}
	switch {
	case err != nil: // no context, no verifier (Section 5.2.3.1)
		r.major = majorFailure
	case x.c == nil:
		r.handle, r.major = x.handle[:], majorContinue
		s.add(x)
	default:
		x.shake = nil
		r.handle, r.major, r.window = x.handle[:], majorComplete, window
		o.Call.Principal, o.Call.verf = x.c.Initiator(), micOf(x.c, window)
		s.add(x)
	}
	o.Results = r.append(nil)
	return o
}

// find returns the context of a handle, nil if there is none, or none any more.
func (s *Server) find(h []byte, now time.Time) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.lookup(h)
	if x != nil && x.c != nil && !now.Before(x.c.Expires()) {
		s.remove(x)
		return nil
	}
	return x
}

func (s *Server) lookup(h []byte) *held {
	if len(h) != len(handle{}) {
		return nil
	}
	return s.contexts[handle(h)]
}

// resume takes out a context that is not established yet.
func (s *Server) resume(h []byte) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.lookup(h)
	if x == nil || x.shake == nil {
		return nil
	}
	s.remove(x)
	return x
}

// add adds a context, and drops others if there are too many.
func (s *Server) add(x *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.clients[x.client]
	if mine == nil {
		mine = new(list.List[held])
		s.clients[x.client] = mine
	}
	s.contexts[x.handle] = x
	s.used.Push(&x.all, x)
	mine.Push(&x.by, x)
	for mine.Len() > perClient {
		s.remove(mine.First())
	}
	for s.used.Len() > maxContexts {
		s.remove(s.used.First())
	}
}

func (s *Server) forget(x *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(x)
}

// remove takes out x, if it is still there. The caller holds s.mu.
func (s *Server) remove(x *held) {
	if !x.all.Queued() {
		return
	}
	delete(s.contexts, x.handle)
	x.all.Leave()
	x.by.Leave()
	if s.clients[x.client].Len() == 0 {
		delete(s.clients, x.client)
	}
}

// take enters the number of a call into the window. It returns false if the number is below it, or has come before.
func (s *Server) take(x *held, seq uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.all.Queued() {
		s.used.Push(&x.all, x)
		s.clients[x.client].Push(&x.by, x)
	}
	word, bit := &x.seen[seq%window/64], uint64(1)<<(seq%64)
	switch {
	case seq > x.seq:
		if seq-x.seq >= window {
			x.seen = [window / 64]uint64{}
		} else {
			for n := x.seq + 1; n < seq; n++ { // those between have not come
				x.seen[n%window/64] &^= 1 << (n % 64)
			}
		}
		x.seq = seq
	case x.seq-seq >= window, *word&bit != 0:
		return false
	}
	*word |= bit
	return true
}

// Contexts returns how many contexts there are.
func (s *Server) Contexts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used.Len()
}
