package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
)

// wire plays one try on one connection.
type wire struct {
	nc     net.Conn
	judged *judged // the same
	try    *cases.Try
	w      *cases.Watcher
	stop   time.Time // no wait lasts longer
	idle   time.Duration
	habits map[string]bool // of the peer
	wrong  map[string]bool // what finding and faults have found, as habits

	request []byte
	up      bool // the startup is over
	crc     bool
	mark    *mpa.Inserter
	d       mpa.Deframer
	in      []byte
	marked  bool // the peer's FPDUs have markers
	fpdus   int  // of the peer
	buf     [16 << 10]byte
}

// begin writes the MPA Request of the try and reads the Reply.
func (x *wire) begin() {
	x.request = x.try.Request
	if x.request == nil {
		x.request = cases.UsualRequest()
	}
	x.write(x.request, x.try.Piece, 0)
	if x.try.Finish && len(x.try.Steps) == 0 {
		x.finish()
	}
	x.until(func() bool { return x.up })
}

// agree applies what the startup has settled. A Reply that is not well formed is not compared with the Request.
func (x *wire) agree(rep *mpa.Reply, formed bool) {
	x.w.Seen.Reply, x.up = rep, true
	req, n, err := mpa.ParseRequest(x.request)
	if n == 0 || err != nil || rep.Rejected {
		return
	}
	if formed {
		x.w.Startup(&req, rep)
	}
	x.crc = req.CRC || rep.CRC
	x.marked = req.Markers
	x.deframe(x.crc)
	if rep.Markers {
		x.mark = new(mpa.Inserter)
	}
}

// deframe begins to read FPDUs.
func (x *wire) deframe(crc bool) {
	x.d = mpa.Deframer{CRC: crc}
	if x.marked {
		x.d.ExpectMarkers()
	}
}

// steps plays what comes after the startup.
func (x *wire) steps() {
	var joined []byte
	for i := range x.try.Steps {
		st := &x.try.Steps[i]
		if done, _ := x.try.Done(&x.w.Seen); done && x.w.Seen.Ended {
			return
		}
		if st.Spare && x.grant() < 2 {
			x.settle() // a quiet time stands for the credit
		}
		joined = append(joined, x.octets(st)...)
		if st.Join {
			continue
		}
		x.write(joined, st.Piece, st.Split)
		joined = nil
		if st.Await != 0 {
			x.await(st.Await)
		}
	}
	if x.try.Finish {
		x.finish()
	}
}

// grant returns the credits that were granted last.
func (x *wire) grant() uint32 {
	a := x.w.Seen.Answers
	if len(a) == 0 {
		return 1
	}
	return a[len(a)-1].Credit
}

// octets returns the octets of a step on the wire.
func (x *wire) octets(st *cases.Step) []byte {
	if st.ULPDU == nil {
		return st.Raw
	}
	b := x.frame(st.ULPDU)
	if st.Spoil != nil {
		b = st.Spoil(b)
	}
	return b
}

func (x *wire) frame(u []byte) []byte {
	x.w.Sent()
	if x.mark != nil {
		return x.mark.AppendFPDU(nil, u, x.crc)
	}
	return mpa.AppendFPDU(nil, u, x.crc)
}

// pieceDelay is how long a piece is alone on the wire.
const pieceDelay = 500 * time.Microsecond

// write sends b. An error also shows when the connection is read.
func (x *wire) write(b []byte, piece, split int) {
	first := len(b)
	if piece > 0 {
		first = min(piece, first)
	} else if split > 0 {
		first = min(split, first)
	}
	_ = x.nc.SetWriteDeadline(x.stop)
	for len(b) > 0 {
		if _, err := x.nc.Write(b[:first]); err != nil {
			return
		}
		if b = b[first:]; len(b) > 0 {
			time.Sleep(pieceDelay)
		}
		if first = len(b); piece > 0 {
			first = min(piece, first)
		}
	}
}

// finding returns what the peer did, and the verdict, in which its habits do not count.
func (x *wire) finding() cases.Finding {
	x.w.Seen.Breaches = slices.DeleteFunc(x.w.Seen.Breaches, func(s string) bool {
		if i := strings.IndexAny(s, "0123456789"); i > 0 {
			s = s[:i] // values differ
		}
		return x.habit(s)
	})
	return x.try.Judge(&x.w.Seen)
}

// habit notes a fault, and reports whether the peer has it as a habit.
func (x *wire) habit(fault string) bool {
	x.wrong[fault] = true
	return x.habits[fault]
}

// close ends the connection. x may be nil.
func (x *wire) close() {
	if x != nil {
		x.nc.Close()
	}
}

// finish closes the output.
func (x *wire) finish() {
	if c, ok := x.nc.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the peer may have closed first
	}
}

// until reads until enough returns true, the connection ends, the time is over or, where silence means that
// a message was dropped, the peer has been silent for long enough.
func (x *wire) until(enough func() bool) {
	for !enough() && !x.w.Seen.Ended {
		done, quiet := x.try.Done(&x.w.Seen)
		if done && x.up {
			return
		}
		stop := x.stop
		if quiet {
			if soon := time.Now().Add(x.idle); soon.Before(stop) {
				stop = soon
			}
		}
		if !x.more(stop) {
			return
		}
	}
}

// nudges are the times at which a peer that has answered nothing gets an RDMA Write of no octets: Linux's
// siw misses what arrives just after its MPA Reply, until more comes.
var nudges = []time.Duration{200 * time.Millisecond, time.Second}

// await reads until xid is answered.
func (x *wire) await(xid uint32) {
	answered := func() bool { return x.w.Seen.Answer(xid) != nil }
	from, stop := time.Now(), x.stop
	for _, after := range nudges {
		if len(x.w.Seen.Answers) > 0 || !from.Add(after).Before(stop) {
			break
		}
		x.stop = from.Add(after)
		x.until(answered)
		x.stop = stop
		if answered() || x.w.Seen.Ended {
			return
		}
		x.write(x.frame(cases.Nudge()), 0, 0)
	}
	x.until(answered)
}

// settle reads until nothing comes for a while.
func (x *wire) settle() {
	for !x.w.Seen.Ended && x.more(time.Now().Add(x.idle)) {
	}
}

// more reads once, and reports whether that was in time.
func (x *wire) more(stop time.Time) bool {
	_ = x.nc.SetReadDeadline(stop)
	n, err := x.nc.Read(x.buf[:])
	x.in = append(x.in, x.buf[:n]...)
	x.take()
	var timeout net.Error
	switch {
	case err == nil:
	case errors.As(err, &timeout) && timeout.Timeout():
		return n > 0
	default:
		x.w.Seen.Ended = true
		x.w.Seen.Reset = !errors.Is(err, io.EOF)
	}
	return true
}

// take processes what has been read.
func (x *wire) take() {
	if !x.up {
		x.reply()
	}
	for x.up {
		u, n, err := x.d.Next(x.in)
		if err != nil {
			x.w.Seen.Breaches = append(x.w.Seen.Breaches, "an FPDU that cannot be read: "+err.Error())
			if e, ok := errors.AsType[*mpa.Error](err); !ok || e.Code != mpa.CodeCRC || x.fpdus > 0 {
				x.broken()
				return
			}
			x.deframe(false) // one that never sends CRCs may be good otherwise
			continue
		}
		if n == 0 {
			return
		}
		x.fpdus++
		out := x.w.ULPDU(u)
		x.in = x.in[n:]
		for _, o := range out {
			x.write(x.frame(o), 0, 0)
		}
	}
}

// broken ends the connection, because its input cannot be decoded.
func (x *wire) broken() {
	x.w.Seen.Ended, x.w.Seen.Reset = true, true
	x.in = nil
}

// reply reads the MPA Reply. One that is whole says enough, also where it is not as it should be.
func (x *wire) reply() {
	r, n, err := mpa.ParseReply(x.in)
	if err != nil {
		x.w.Seen.Breaches = append(x.w.Seen.Breaches, "an MPA Reply that is not one: "+err.Error())
		if n == 0 {
			x.broken()
			return
		}
	}
	if n > 0 {
		r.PrivateData = append([]byte(nil), r.PrivateData...)
		x.agree(&r, err == nil)
		x.in = x.in[n:]
	}
}

// dial connects to the peer, which must answer in time.
func (p *Prober) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: p.timeout()}
	nc, err := d.DialContext(ctx, "tcp", p.Address)
	if err != nil {
		return nil, err
	}
	return nc, nil
}

// play plays t. The connection is open after it if t holds it.
func (p *Prober) play(ctx context.Context, t *cases.Try) (*wire, error) {
	nc, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	if !t.Control || !p.TriesOnly {
		nc = p.Capture.TapClient(nc)
	}
	j := hear(nc, decode.FromAccepter)
	j.keep = p.Octets
	x := &wire{
		nc: j, judged: j, try: t, w: cases.Watch(t), stop: time.Now().Add(p.timeout()), idle: p.quiet(),
		habits: p.habits, wrong: make(map[string]bool),
	}
	cancel := context.AfterFunc(ctx, func() { nc.Close() })
	defer cancel()
	x.begin()
	if done, _ := t.Done(&x.w.Seen); !done {
		x.steps()
		x.until(func() bool { return false })
	}
	return x, nil
}

// nextXID returns the XID of the next call that checks whether the peer is alive. The XIDs of the cases
// begin elsewhere.
func (p *Prober) nextXID() uint32 {
	p.xid++
	return p.xid
}

// greet gets to know the peer, and makes the connection that stays open.
func (p *Prober) greet(ctx context.Context) (*steady, error) {
	p.xid = rand.Uint32() // a duplicate request cache may know the calls of another run
	p.target = cases.Target{Prog: p.Program, Vers: p.Version, Inline: rpcrdma.DefaultInline, Grant: 1, XID: p.xid + 1<<20, Handle: string(p.Handle)}
	s, err := p.keep(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	seen := &s.x.w.Seen
	own := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}
	peer, ok := rpcrdma.ParsePrivateData(seen.Reply.PrivateData)
	if ok {
		p.target.Inline, _ = own.Inline(peer)
		p.target.Receives = peer.RecvSize
	}
	p.target.Grant = int(min(max(seen.Answers[0].Credit, 1), 1024))
	return s, nil
}

// call makes a NULL call on a new connection, which stays open.
func (p *Prober) call(ctx context.Context) (*wire, error) {
	t := cases.Alive(p.target, p.nextXID())
	x, err := p.play(ctx, &t)
	if err != nil {
		return nil, err
	}
	// An answer with other faults will do: the case that makes this call has them as its own.
	if f := x.finding(); f.Kind != cases.KindAnswered {
		x.nc.Close()
		return nil, fmt.Errorf("a NULL call of program %d version %d: %s", p.target.Prog, p.target.Vers, join(f.Text, f.Why))
	}
	return x, nil
}

// alive makes a NULL call on a new connection.
func (p *Prober) alive(ctx context.Context) error {
	x, err := p.call(ctx)
	if err != nil {
		return err
	}
	x.nc.Close()
	if b := x.w.Seen.Breaches; len(b) > 0 {
		return errors.New(strings.Join(b, "; "))
	}
	if said, worst := x.faults(); worst == cases.Fails {
		return errors.New("it breaks " + strings.Join(said, "; "))
	}
	return nil
}

// steady is a connection that has nothing to do with the cases.
type steady struct {
	p   *Prober
	x   *wire
	msn uint32 // of the last call
}

func (p *Prober) keep(ctx context.Context) (*steady, error) {
	x, err := p.call(ctx)
	if err != nil {
		return nil, err
	}
	return &steady{p: p, x: x, msn: 1}, nil
}

// ping makes a NULL call.
func (s *steady) ping(ctx context.Context) error {
	xid := s.p.nextXID()
	cancel := context.AfterFunc(ctx, func() { s.x.nc.Close() })
	defer cancel()
	s.x.stop = time.Now().Add(s.p.timeout())
	s.msn++
	seen := &s.x.w.Seen
	seen.Answers = seen.Answers[:0]
	s.x.try = &cases.Try{Subjects: []uint32{xid}, Steps: []cases.Step{{}}}
	s.x.write(s.x.frame(cases.NullCall(s.p.target, xid, s.msn)), 0, 0)
	s.x.until(func() bool { return seen.Answer(xid) != nil })
	a := seen.Answer(xid)
	switch {
	case a == nil && seen.Term != nil:
		return fmt.Errorf("got a Terminate: %v", seen.Term)
	case a == nil && seen.Ended:
		return errors.New("was ended")
	case a == nil:
		return errors.New("is not served any more")
	case a.Kind != cases.KindAnswered:
		return errors.New("got another answer: " + a.Text)
	}
	return nil
}

func (s *steady) close() {
	if s != nil && s.x != nil {
		s.x.nc.Close()
	}
}

// judged is a connection whose octets the judge hears. The probe's own violations are not of interest.
type judged struct {
	net.Conn

	mu    sync.Mutex
	c     *decode.Conn
	b     *judge.Builder
	peer  decode.Dir // what the peer sends
	keep  int        // octets of each direction
	said  [2][]byte  // by us, and by the peer
	frame int
	ended bool
}

// hear returns nc with a judge. peer is the direction of what the peer sends.
func hear(nc net.Conn, peer decode.Dir) *judged {
	j := &judged{Conn: nc, b: judge.NewBuilder(nil), peer: peer}
	j.c = decode.NewConn(nil, j.b.Event)
	j.c.Info.ID = 1
	ends := [2]netip.AddrPort{addrOf(nc.LocalAddr()), addrOf(nc.RemoteAddr())}
	j.c.Info.Opener, j.c.Info.Accepter = ends[1-peer], ends[peer]
	return j
}

func addrOf(a net.Addr) netip.AddrPort {
	p, _ := netip.ParseAddrPort(a.String()) // only for texts
	return p
}

func (j *judged) stamp() decode.Stamp {
	j.frame++
	return decode.Stamp{Frame: j.frame, Time: time.Now()}
}

// note keeps the first octets.
func (j *judged) note(side int, b []byte) {
	if room := j.keep - len(j.said[side]); room > 0 {
		j.said[side] = append(j.said[side], b[:min(len(b), room)]...)
	}
}

// Read reads, and shows the judge what came.
func (j *judged) Read(b []byte) (int, error) {
	n, err := j.Conn.Read(b)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return n, err
	}
	j.note(1, b[:n])
	j.c.Octets(j.peer, b[:n], j.stamp())
	var timeout net.Error
	switch {
	case err == nil, errors.As(err, &timeout) && timeout.Timeout():
	default:
		j.c.Close(j.peer, !errors.Is(err, io.EOF), j.stamp())
	}
	return n, err
}

// Write shows the judge what goes out before the peer can answer it.
func (j *judged) Write(b []byte) (int, error) {
	j.mu.Lock()
	if !j.ended {
		j.note(0, b)
		j.c.Octets(1-j.peer, b, j.stamp())
	}
	j.mu.Unlock()
	return j.Conn.Write(b)
}

// CloseWrite ends the output.
func (j *judged) CloseWrite() error {
	c, ok := j.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return c.CloseWrite()
}

// faults ends the judgement and returns what the peer has done wrong, but for notes. Calls after the first return
// nothing.
func (j *judged) faults() (all []*judge.Violation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return nil
	}
	j.ended = true
	j.c.Finish()
	for _, v := range j.b.Report().Violations {
		if v.Dir == j.peer && v.Rule.Severity != judge.Note {
			all = append(all, v)
		}
	}
	return all
}

// faults returns what the judge has found on the connection, and how bad it is. x may be nil.
func (x *wire) faults() (said []string, worst cases.Verdict) {
	if x == nil {
		return nil, cases.OK
	}
	return sentence(x.judged.faults(), func(v *judge.Violation) bool {
		return x.try.Excused[v.Rule.ID] != "" || v.Rule.Severity == judge.Error && x.habit(v.Rule.ID)
	})
}

// sentence returns violations in words, and how bad they are, but for those that are excused.
func sentence(all []*judge.Violation, excused func(*judge.Violation) bool) (said []string, worst cases.Verdict) {
	for _, v := range all {
		if excused(v) {
			continue
		}
		said = append(said, v.Rule.ID+": "+v.Detail+" ("+v.Rule.Source+")")
		if v.Rule.Severity == judge.Error {
			worst = cases.Fails
		}
		worst = max(worst, cases.Tolerated)
	}
	return said, worst
}
