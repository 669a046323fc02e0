package probe

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
)

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
