package replies

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
	"go.uber.org/zap"
)

// Errors of a Client.
var (
	// ErrNotKept: the reply named a record that will never be in the log, because the server has
	// lost it. The reply itself is valid.
	ErrNotKept = errors.New("replies: the reply came, but its record is lost (the server has restarted)")
	// ErrForeign: the log holds records that are not replies.
	ErrForeign = errors.New("replies: the log is not a log of replies")
	// ErrNoProgram: the server does not push replies.
	ErrNoProgram   = errors.New("replies: the server does not push replies")
	errUnconnected = errors.New("replies: not connected yet")
	errOffer       = errors.New("replies: the server's answer to the offer cannot be decoded")
	errBusy        = errors.New("replies: the server accepts no log now")
)

// Config is the configuration of a Client. Zero fields mean the defaults. Open copies it.
type Config struct {
	// Memory is the log, made by Create. It belongs to the Client until Close has returned nil.
	Memory region.Memory
	// Calls, if not nil, is another log, made by Create in MinCalls octets or more. A note of each
	// call is durable there before the call is sent; after a crash, Unanswered returns the calls
	// that were not answered. This costs each call one flush of this memory before it is sent, and
	// one afterwards for which nobody waits; concurrent calls share flushes. The notes of calls in
	// progress take 128 octets each and may fill an eighth of the log; further calls wait. Choose
	// says which calls are noted; if nil, all. Calls belongs to the Client as Memory does.
	Calls  region.Memory
	Choose func(prog, vers, proc uint32) bool
	// Redial says how to connect for the calls. Its Dial must be set, and its Issue is not used. A call
	// whose connection ends is sent again if it is [rpc.Call].Repeatable, which calls are whose
	// replies the server keeps. Its MinDelay and MaxDelay, or else 20 ms and 5 s, also limit the wait between
	// attempts to offer the log, which may take 10 s. After a failed one calls are made nevertheless, and their replies
	// come without records until another has succeeded.
	// Dial should open RDMA connections: on others, replies come without records.
	Redial redial.Config
	// Host is the host of the log connection if the server names none. Dial opens the connection;
	// if nil, by TCP.
	Host string
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Logger gets a line per log connection and per failure. If nil, nothing is logged.
	Logger *zap.Logger
}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	if f.Memory == nil {
		return nil, fmt.Errorf("replies: %w", setting.Error("Memory must be set"))
	}
	return &f, nil
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
