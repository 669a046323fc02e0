package lockd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// callTime limits one call to a client, with the search for its port.
const callTime = 5 * time.Second

// maxReply limits what a client may answer, in octets.
const maxReply = 4096

// network is how a client is called that has called over n.
func network(n string) string {
	if n == "rdma" {
		return "tcp" // lock managers have no RDMA
	}
	return n
}

// notSentError wraps why a call cannot have reached the client.
type notSentError struct{ error }

func (e *notSentError) Unwrap() error { return e.error }

// lane is for the calls to those who have one share.
type lane struct {
	room  chan struct{}
	slow  chan struct{} // while it has not answered
	users int           // that are in it, or wait for it
}

// lane takes a place among the calls to clients, perhaps after a wait; call leave afterwards. Addresses that have not
// answered yet, or not the last time, have few, and not all: each call to one takes as long as calls may.
func (s *Server) lane(ctx context.Context, share string, wait bool) (leave func(), ok bool) {
	var l *lane
	var rooms []chan struct{}
	s.mu.With(func() {
		if l = s.lanes[share]; l == nil {
			l = &lane{room: make(chan struct{}, maxLane), slow: make(chan struct{}, maxUnknown)}
			s.lanes[share] = l
		}
		l.users++
		rooms = []chan struct{}{l.room, s.out}
		if a := s.shares[share]; a == nil || !a.answers {
			rooms = []chan struct{}{l.slow, l.room, s.slow, s.out}
		}
	})
	entered := 0
	leave = func() {
		for _, room := range rooms[:entered] {
			<-room
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.lanes, share)
		}
	}
	for _, room := range rooms {
		if !enter(ctx, room, wait) {
			leave()
			s.stats.leftOut.Add(1)
			return nil, false
		}
		entered++
	}
	return leave, true
}

// enter takes a place in room.
func enter(ctx context.Context, room chan struct{}, wait bool) bool {
	if !wait {
		select {
		case room <- struct{}{}:
			return true
		default:
			return false
		}
	}
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// call makes a call to a program of a client, which its rpcbind finds. Its context is short.
func (s *Server) call(ctx context.Context, netw, host string, prog, vers, proc uint32, args []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	netid := netw
	if strings.Contains(host, ":") {
		netid += "6"
	}
	at, err := rpcbind.LookupAt(ctx, s.cfg.rpcbindAt(host), prog, vers, netid)
	if err != nil {
		return nil, &notSentError{err}
	}
	// Only the port counts: a client could name another machine, to which we would then talk.
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, &notSentError{err}
	}
	at = net.JoinHostPort(host, port)
	cred := xdr.SysCred{MachineName: s.cfg.Name[:min(len(s.cfg.Name), 64)]}
	if netw == "udp" {
		h := xdr.CallHeader{XID: rand.Uint32(), RPCVers: xdr.RPCVersion, Prog: prog, Vers: vers, Proc: proc, Cred: cred.Auth()}
		return callUDP(ctx, at, h.XID, append(xdr.AppendCall(nil, &h), args...))
	}
	c, err := transport.DialStream(ctx, "tcp", at, nil)
	if err != nil {
		return nil, &notSentError{err}
	}
	defer c.Close() //nolint:errcheck // the answer is there
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(ctx, &rpc.Call{Prog: prog, Vers: vers, Proc: proc, Cred: cred.Auth(), Args: args, MaxResults: maxReply}, &reply); err != nil {
		return nil, err
	}
	return append([]byte(nil), reply.Results...), reply.Header.Err()
}

// callUDP sends a call each second until its reply comes.
func callUDP(ctx context.Context, at string, xid uint32, msg []byte) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", at)
	if err != nil {
		return nil, &notSentError{err}
	}
	defer conn.Close()                                          // nothing is buffered
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a client that cancels waits for the end
	buf := make([]byte, maxReply)
	for ctx.Err() == nil {
		if _, err := conn.Write(msg); err != nil {
			return nil, err
		}
		end := time.Now().Add(time.Second)
		if d, ok := ctx.Deadline(); ok && d.Before(end) {
			end = d
		}
		if err := conn.SetReadDeadline(end); err != nil {
			return nil, err
		}
		for {
			n, err := conn.Read(buf)
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
				break
			}
			if err != nil {
				return nil, err // nobody listens
			}
			d := xdr.NewDecoder(buf[:n])
			var h xdr.ReplyHeader
			if h.Parse(&d) == nil && h.XID == xid {
				return d.Rest(), h.Err()
			}
		}
	}
	return nil, ctx.Err()
}

// tryBoth calls over TCP and, if the client is not found there, over UDP.
func (s *Server) tryBoth(ctx context.Context, host string, prog, vers, proc uint32, args []byte) ([]byte, error) {
	b, err := s.call(ctx, "tcp", host, prog, vers, proc, args)
	if err == nil {
		return b, nil
	}
	b, uerr := s.call(ctx, "udp", host, prog, vers, proc, args)
	if uerr != nil {
		uerr = errors.Join(err, uerr)
	}
	return b, uerr
}

// granted calls GRANTED once, in the form that the client uses. sent says that the client may have got it.
func (s *Server) granted(c *client, b *block) (st Status, sent bool, err error) {
	cookie, answer := s.expect(c.addr)
	defer s.forget(c.addr, cookie)
	args := b.args
	args.Cookie = cookie
	proc := ProcGranted
	if b.async {
		proc = ProcGrantedMsg
	}
	out, err := s.call(b.ctx, network(b.network), c.addr, NLMProgram, b.vers, uint32(proc), Append(nil, &args, b.vers))
	if err != nil {
		_, kept := errors.AsType[*notSentError](err)
		return 0, !kept, err
	}
	if !b.async {
		var r Res
		d := xdr.NewDecoder(out)
		err := Parse(&d, &r, b.vers)
		return r.Status, true, err
	}
	select {
	case st := <-answer:
		return st, true, nil
	case <-time.After(callTime):
		return 0, true, fmt.Errorf("lockd: no GRANTED_RES from %s", c.addr)
	case <-b.ctx.Done():
		return 0, true, b.ctx.Err()
	}
}

// answerKey tells the answers apart. Cookies can be guessed, so only the client that was asked may answer: another could
// refuse a lock for it, which it would believe to hold.
type answerKey struct{ addr, cookie string }

// expect makes a cookie, and where the answer to it comes.
func (s *Server) expect(addr string) ([]byte, chan Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cookie++
	cookie, ch := binary.BigEndian.AppendUint64(nil, s.cookie), make(chan Status, 1)
	s.answers[answerKey{addr, string(cookie)}] = ch
	return cookie, ch
}

func (s *Server) forget(addr string, cookie []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, answerKey{addr, string(cookie)})
}

// answered notes a GRANTED_RES.
func (s *Server) answered(addr string, cookie []byte, st Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.answers[answerKey{addr, string(cookie)}] <- st:
	default: // nobody has asked, or it is answered: sending to nil does not proceed either
	}
}

// reply sends the results of a _MSG call. If too much is being sent, the client does without and asks again.
func (s *Server) reply(c *server.Call, proc Proc, results []byte) {
	h, netw, vers := hostOf(c.RemoteAddr, nil), network(c.Network), c.Vers
	leave, ok := s.lane(s.ctx, h.share(), false)
	if !ok {
		return
	}
	s.wg.Go(func() {
		defer leave()
		_, err := s.call(s.ctx, netw, h.addr, NLMProgram, vers, uint32(proc), results)
		s.heard(h.share(), err)
		if err != nil {
			s.cfg.Logger.Debug("lockd: an answer did not reach its client", zap.String("address", h.addr), zap.Error(err))
		}
	})
}

// serveNSM answers one call. It monitors nobody for other programs: a machine that mounts from others by
// NFSv3 with locks needs a monitor of its own.
func (s *Server) serveNSM(_ context.Context, c *server.Call) error {
	var state uint32
	s.mu.With(func() { state = s.kept.state })
	switch c.Proc {
	case ProcStat, ProcMon:
		r := StatRes{Outcome: Fail, State: state}
		c.Resp.Results = xdr.Encode(c.Resp.Results, &r)
	case ProcUnmon, ProcUnmonAll:
		c.Resp.Results = xdr.AppendUint32(c.Resp.Results, state)
	case ProcSimuCrash:
	case ProcNotify:
		d := xdr.NewDecoder(c.Args)
		var a Notify
		if err := xdr.Decode(&d, &a).Err(); err != nil {
			return err
		}
		s.started(peeraddr.Host(c.RemoteAddr), a.Name, a.State)
	default:
		c.Resp.Stat = xdr.ProcUnavail
	}
	return nil
}

// started frees what a client held before it has started again. Only calls from its own address count.
func (s *Server) started(addr string, name []byte, state uint32) {
	var list []*client
	s.mu.With(func() {
		for h, c := range s.clients {
			if h.addr == addr && sameName([]byte(h.name), name) {
				list = append(list, c)
			}
		}
	})
	if len(list) == 0 {
		if c := s.maybe(host{addr, string(name)}); c != nil {
			list = append(list, c)
		}
	}
	for _, c := range list {
		var repeated bool
		c.mu.With(func() {
			repeated = state == c.notified && state != 0 // a client says it more than once: the locks are new ones
			c.notified = state
		})
		if !repeated {
			s.cfg.Logger.Info("lockd: a client has started again: its locks are free", zap.String("client", c.name), zap.String("address", addr))
			s.release(c)
		}
	}
}

// sameName reports whether two names are of one machine: one of them may be without its domain.
func sameName(a, b []byte) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return len(a) > 0 && bytes.EqualFold(a, b[:len(a)]) && (len(a) == len(b) || b[len(a)] == '.')
}

// How long a client that held locks is called.
const (
	notifyFor  = 15 * time.Minute
	notifyRest = time.Minute // the longest wait between two calls
)

// notify tells a client that held locks before that this server has started again, and forgets it when it
// cannot reclaim them anymore.
func (s *Server) notify(h host) {
	ctx, cancel := context.WithTimeout(s.ctx, notifyFor)
	defer cancel()
	args := xdr.Encode(nil, &Notify{Name: []byte(s.cfg.Name), State: s.kept.state})
	for wait := s.cfg.Retry; ctx.Err() == nil; wait = min(2*wait, notifyRest) {
		leave, ok := s.lane(ctx, h.share(), true)
		if !ok {
			break
		}
		_, err := s.tryBoth(ctx, h.addr, NSMProgram, NSMVersion, ProcNotify, args)
		leave()
		s.heard(h.share(), err)
		if err == nil {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	select {
	case <-time.After(s.Grace()):
	case <-s.ctx.Done():
		return // it has to be told next time
	}
	var change uint64
	s.mu.With(func() {
		if c := s.clients[h]; c != nil && c.kept != 0 {
			return
		}
		delete(s.kept.hosts, h)
		s.changes++
		change = s.changes
	})
	_ = s.save(change) // it is told once more than necessary
}
