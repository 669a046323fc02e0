package replies

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// Errors of a Client.
var (
	// ErrNotKept: the reply came and named its record, and that will not be in the log: the
	// server has lost it. The reply is filled in.
	ErrNotKept = errors.New("replies: the reply came, and its record is lost (the server has restarted)")
	// ErrForeign: the log holds records that are no replies.
	ErrForeign = errors.New("replies: the log is not one of replies")
	// ErrNoProgram says that the server pushes no replies.
	ErrNoProgram   = errors.New("replies: the server does not push replies")
	errUnconnected = errors.New("replies: not connected yet")
	errOffer       = errors.New("replies: the server's answer to the offer does not parse")
	errBusy        = errors.New("replies: the server takes no log now")
)

// Defaults of Config.
const (
	DefaultOfferTimeout = 10 * time.Second
	DefaultMinDelay     = 20 * time.Millisecond
	DefaultMaxDelay     = 5 * time.Second
)

// Config of a Client. Zero fields mean the defaults. It is copied.
type Config struct {
	// Memory is the log, made by Create. The Client has it until Close has returned nil.
	Memory region.Memory
	// Calls, if not nil, is another log, made by Create in MinCalls octets or more, in which a
	// note of each call is durable before it is sent: Unanswered tells after a crash what was
	// asked and not answered. It costs a call a flush of this memory before it is sent, and
	// one behind it that nobody waits for; calls share them. Of the calls under way an
	// eighth of the log has room, 128 octets each; more wait. Choose says which calls are
	// noted; if nil, all. The Client has it as it has Memory.
	Calls  region.Memory
	Choose func(prog, vers, proc uint32) bool
	// Immediates, if not nil, lets the server send 8 octets of Immediate Data in place of a
	// reply that its record holds: give it as Immediate to the RPC clients that Redial makes
	// (transport.Config), with ImmediateReplies, which the server has to set too. If nil, or
	// where it has not, replies come twice, by the log and as ever.
	Immediates *Immediates
	// Redial is how the calls travel; its Dial must be set, its Issue is not used. It makes
	// RDMA connections: others get no records.
	Redial transport.RedialConfig
	// Host is where the connection of the log goes when the server names no host; Dial
	// makes it, by TCP if nil.
	Host string
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// RDMA is the configuration of the connection of the log; nil: the defaults.
	RDMA *rdmap.Config
	// OfferTimeout bounds one attempt to offer the log; when it has failed, calls are made
	// all the same, and their replies come without records until another attempt has
	// succeeded. If zero, 10 s.
	OfferTimeout time.Duration
	// MinDelay and MaxDelay bound the wait between attempts, which doubles. If zero, 20 ms
	// and 5 s.
	MinDelay, MaxDelay time.Duration
	// Logger gets a line per connection of the log and failure; nil discards.
	Logger *zap.Logger
}

func (c *Config) fill() *Config {
	f := *c
	if f.OfferTimeout == 0 {
		f.OfferTimeout = DefaultOfferTimeout
	}
	if f.MinDelay == 0 {
		f.MinDelay = DefaultMinDelay
	}
	if f.MaxDelay == 0 {
		f.MaxDelay = DefaultMaxDelay
	}
	if f.Dial == nil {
		f.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	return &f
}

// address puts the host in front of an address without one.
func (c *Config) address(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		return net.JoinHostPort(c.Host, port)
	}
	return addr
}

// Create makes an empty log of all of mem; see [commitlog.Create].
func Create(mem region.Memory, o *commitlog.Options) error { return commitlog.Create(mem, o) }

// recovered reads what the log holds.
func recovered(l *commitlog.Log) ([]*Record, error) {
	var rs []*Record
	for {
		rec, err := l.TryNext()
		if err != nil {
			return nil, err
		}
		if rec == nil {
			return rs, nil
		}
		r, ok := parseRecord(rec.Seq, rec.Payload)
		if !ok {
			return nil, fmt.Errorf("%w: record %d", ErrForeign, rec.Seq)
		}
		rs = append(rs, r)
	}
}
