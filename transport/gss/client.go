package gss

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/xdr"
)

// Client has the context of one user with one server, and makes it when the first call needs it, and again when it has
// ended. Several connections to that server may share it. It is safe for concurrent use.
type Client struct {
	initiate func(ctx context.Context) (Handshake, error)
	service  Service
	making   chan struct{} // has room for whoever makes the context

	mu  sync.Mutex
	now *session
}

// NewClient returns a Client whose calls have a service. initiate begins the initiator's end of a context, for example by
// asking a KDC for a ticket.
func NewClient(service Service, initiate func(ctx context.Context) (Handshake, error)) *Client {
	return &Client{initiate: initiate, service: service, making: make(chan struct{}, 1)}
}

// Service returns the service of its calls.
func (c *Client) Service() Service { return c.service }

// session is an established context.
type session struct {
	c      Context
	handle []byte
	window uint32

	mu     sync.Mutex
	seq    uint32
	unsent list.List[Outgoing] // by number
	moved  chan struct{}       // closed when the first of them is sent; nil: nobody waits
}

// soon is how long before its end a context is no longer used: a call takes some time, and clocks differ.
const soon = 10 * time.Second

// maxSteps is more than any mechanism needs.
const maxSteps = 8

// Exchange sends the arguments of a control message to procedure 0 of the program that is called, and returns what
// came back; the verifier and the results may be views of memory that does not change any more.
type Exchange func(ctx context.Context, cred xdr.Auth, args []byte) (h xdr.ReplyHeader, results []byte, err error)

// Begin begins a call: it makes the context, by means of ex, if there is none, and takes a sequence number. End must follow.
func (c *Client) Begin(ctx context.Context, ex Exchange) (*Outgoing, error) {
	s, err := c.session(ctx, ex)
	if err != nil {
		return nil, err
	}
	return s.next(ctx, c)
}

// current returns the context, nil if there is none that will do.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.now; s != nil && time.Until(s.c.Expires()) > soon && !s.used() {
		return s
	}
	return nil
}

func (c *Client) session(ctx context.Context, ex Exchange) (*session, error) {
	if s := c.current(); s != nil {
		return s, nil
	}
	select { // one asks the KDC for all
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s := c.current(); s != nil {
		return s, nil
	}
	s, err := c.establish(ctx, ex)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.now = s
	c.mu.Unlock()
	return s, nil
}

// StatusError is a server's refusal of a context (RFC 2203 Section 5.2.3.1).
type StatusError struct {
	Major, Minor uint32 // Minor is the mechanism's
	Err          error  // what its token says, if it sent one
}

// Error says so.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("gss: the server makes no context: gss_major %#x, gss_minor %d", e.Major, e.Minor)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

// establish makes a context (RFC 2203 Section 5.2).
func (c *Client) establish(ctx context.Context, ex Exchange) (*session, error) {
	shake, err := c.initiate(ctx)
	if err != nil {
		return nil, err
	}
	token, sc, err := shake.Step(nil)
	if err != nil {
		return nil, err
	}
	cr := cred{proc: procInit, service: c.service}
	for range maxSteps {
		h, results, err := ex(ctx, cr.auth(), xdr.AppendOpaque(nil, token))
		if err == nil {
			err = h.Err()
		}
		if err != nil {
			return nil, err
		}
		var r initRes
		if err := r.parse(results); err != nil {
			return nil, fmt.Errorf("gss: the server's answer cannot be decoded: %w", err)
		}
		if r.major != majorComplete && r.major != majorContinue {
			refused := &StatusError{Major: r.major, Minor: r.minor}
			if len(r.token) > 0 && sc == nil {
				_, _, refused.Err = shake.Step(r.token)
			}
			return nil, refused
		}
		token = nil
		if sc == nil {
			if token, sc, err = shake.Step(r.token); err != nil {
				return nil, err
			}
		}
		switch {
		case r.major == majorComplete && sc != nil && token == nil:
			// The window is the first thing that is protected: whoever answers has the key.
			if err := verifyMIC(sc, &h.Verf, r.window); err != nil {
				return nil, err
			}
			if r.window == 0 || len(r.handle) == 0 {
				return nil, errors.New("gss: the server's context has no handle, or no window")
			}
			return &session{c: sc, handle: append([]byte(nil), r.handle...), window: r.window}, nil
		case r.major == majorComplete:
			return nil, errors.New("gss: the server is done with a context that is not established here")
		}
		cr.proc, cr.handle = procContinue, append([]byte(nil), r.handle...)
	}
	return nil, errors.New("gss: the server makes no end of a context")
}

// used reports whether the numbers are used up.
func (s *session) used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq >= maxSeq-1
}

// Outgoing is one transmission of a call.
type Outgoing struct {
	s     *session
	of    *Client
	seq   uint32
	place list.Node[Outgoing]
}

// next takes a number. A call with a low one that is sent late would fall out of the server's window, and never be
// answered: so nobody runs ahead of one that is not sent yet.
func (s *session) next(ctx context.Context, c *Client) (*Outgoing, error) {
	for {
		s.mu.Lock()
		if first := s.unsent.First(); first == nil || s.seq+1-first.seq < s.window {
			s.seq++
			o := &Outgoing{s: s, of: c, seq: s.seq}
			s.unsent.Push(&o.place, o)
			s.mu.Unlock()
			return o, nil
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// End ends the call, sent or not.
func (o *Outgoing) End() { o.s.sent(o) }

func (s *session) sent(o *Outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.unsent.First() == o
	o.place.Leave()
	if first && s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// Cred returns the credential, and a verifier of the right length, which Sign fills.
func (o *Outgoing) Cred() (credential, verifier xdr.Auth) {
	c := cred{seq: o.seq, service: o.of.service, handle: o.s.handle}
	return c.auth(), xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, o.s.c.MICSize())}
}

// Sign fills mic, the body of the verifier, when the header of the call is known up to its credential: when it is sent.
func (o *Outgoing) Sign(header, mic []byte) {
	o.s.c.AppendMIC(mic[:0], header)
	o.s.sent(o)
}

// AppendArgs appends the arguments of the call as the service protects them: at most MaxOverhead octets more.
func (o *Outgoing) AppendArgs(b, plain []byte) []byte {
	return appendBody(b, o.s.c, o.of.service, o.seq, plain)
}

// Stale reports whether a reply says that the server does not have the context any more. It has not run the call, which
// may be made again in another context: the next Begin makes one.
func (o *Outgoing) Stale(h *xdr.ReplyHeader) bool {
	if !h.Denied || h.Reject != xdr.AuthError || h.AuthStat != xdr.GSSCredProblem && h.AuthStat != xdr.GSSCtxProblem {
		return false
	}
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.of.now == o.s {
		o.of.now = nil
	}
	return true
}

// Open checks the reply to the call, takes its results and returns a view of the plain ones. A reply that is denied
// has no verifier: nothing about it is certain.
func (o *Outgoing) Open(h *xdr.ReplyHeader, results []byte) ([]byte, error) {
	if h.Denied {
		return results, nil
	}
	if err := verifyMIC(o.s.c, &h.Verf, o.seq); err != nil {
		return nil, err
	}
	if h.Accept != xdr.Success {
		return results, nil
	}
	return openBody(o.s.c, o.of.service, o.seq, results)
}
