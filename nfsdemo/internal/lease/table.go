package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ID names a lease. No two leases of a Table ever have the same ID; 0 means none.
type ID uint64

// Log names a commit log that clients append to. The caller chooses it.
type Log uint32

// Errors of Grant and Admit. The text is for the log of the server.
var (
	// ErrBusy: an operation changes the file, or another log has a lease on it, which is
	// now being recalled. The client can write with ordinary calls, or try again later.
	ErrBusy = errors.New("lease: the file is being changed or written by others")
	// ErrTooMany: the log holds MaxPerLog leases already.
	ErrTooMany = errors.New("lease: too many leases of one log")
	// ErrNoLog: the log was never opened, is closed, or is being fenced.
	ErrNoLog = errors.New("lease: the log is not open")
	// ErrUnknown: there is no such lease, or it belongs to another log.
	ErrUnknown = errors.New("lease: no such lease of this log")
	// ErrEnded: the record was appended after its lease was returned.
	ErrEnded = errors.New("lease: record after the end of its lease")
)

// Config says how patient a Table is. The zero value is usable.
type Config struct {
	// RecallTime is how long a client may take to return a lease before its log is fenced.
	// If zero, 10 s.
	RecallTime time.Duration
	// MaxPerLog limits the leases of one log, including ended ones whose records have not
	// been applied yet. If zero, 1024.
	MaxPerLog int
	// Last is the last lease that an earlier Table has granted; new ones begin after it.
	Last ID
}

// Table holds the leases of all logs. F identifies a file.
type Table[F comparable] struct {
	cfg    Config
	last   ID
	leases map[ID]*lease[F]
	files  map[F]*file[F]
	logs   map[Log]*log[F]
	out    []Action[F]
}

// lease is one client's right to write to one file by its log.
type lease[F comparable] struct {
	id       ID
	f        F
	log      *log[F]
	deadline time.Time // of the recall; zero: not recalled
	ended    bool
	final    uint64 // last sequence number that may belong to this lease, if it has ended
}

// file is what the table knows about a file. It exists while the file has leases or operations.
type file[F comparable] struct {
	leases   []*lease[F]  // held, or ended with records to apply
	waiting  []*Ticket[F] // in the order in which they began
	changing int          // operations that change it, waiting or running
}

// New returns an empty table.
func New[F comparable](cfg Config) *Table[F] {
	if cfg.RecallTime == 0 {
		cfg.RecallTime = 10 * time.Second
	}
	if cfg.MaxPerLog == 0 {
		cfg.MaxPerLog = 1024
	}
	return &Table[F]{cfg: cfg, last: cfg.Last, leases: make(map[ID]*lease[F]), files: make(map[F]*file[F]), logs: make(map[Log]*log[F])}
}

// Grant returns a lease of l on f: a new one, or the one that l holds already. Errors: ErrNoLog,
// ErrTooMany, and ErrBusy, with which the actions recall the leases of others. The actions are
// valid until the next call.
func (t *Table[F]) Grant(l Log, f F, now time.Time) (ID, []Action[F], error) {
	t.out = t.out[:0]
	x := t.logs[l]
	if x == nil || !x.open || x.fencing {
		return 0, nil, ErrNoLog
	}
	y := t.file(f)
	defer t.forget(f, y)
	if y.changing > 0 {
		return 0, nil, ErrBusy
	}
	var own *lease[F]
	busy := false
	for _, s := range y.leases {
		switch {
		case s.log != x && s.ended:
			busy = true
			t.drain(s.log, s.final)
		case s.log != x:
			busy = true
			t.recall(s, now)
		case !s.ended && s.deadline.IsZero():
			own = s
		case !s.ended:
			busy = true // being returned
		}
	}
	switch {
	case busy:
		return 0, t.out, ErrBusy
	case own != nil:
		return own.id, nil, nil
	case len(x.leases) >= t.cfg.MaxPerLog:
		return 0, nil, ErrTooMany
	}
	t.last++
	s := &lease[F]{id: t.last, f: f, log: x}
	t.hold(s)
	return s.id, nil, nil
}

func (t *Table[F]) hold(s *lease[F]) {
	t.leases[s.id], s.log.leases[s.id] = s, s
	y := t.file(s.f)
	y.leases = append(y.leases, s)
}

// Return ends a lease that its client returns. tail is the last sequence number in the log, read
// after the client's call: the client promises that no record with this lease follows.
func (t *Table[F]) Return(l Log, id ID, tail uint64) ([]Action[F], error) {
	t.out = t.out[:0]
	s := t.leases[id]
	if s == nil || s.log != t.logs[l] {
		return nil, ErrUnknown
	}
	if !s.ended {
		t.end(s, tail)
	}
	return t.out, nil
}

// Admit returns the file to which the record seq of log l, which names lease id, must be applied.
// Errors: ErrUnknown, ErrEnded. After an error the record stays where it is: see Failed.
func (t *Table[F]) Admit(l Log, id ID, seq uint64) (F, error) {
	s := t.leases[id]
	switch {
	case s == nil || s.log != t.logs[l]:
		var none F
		return none, fmt.Errorf("%w: log %d, lease %d, record %d", ErrUnknown, l, id, seq)
	case s.ended && seq > s.final:
		return s.f, fmt.Errorf("%w: log %d, lease %d, record %d, the last is %d", ErrEnded, l, id, seq, s.final)
	}
	return s.f, nil
}

// recall recalls s, unless that was done before. The first recall sets the deadline.
func (t *Table[F]) recall(s *lease[F], now time.Time) {
	if s.ended || !s.deadline.IsZero() || s.log.fencing {
		return
	}
	s.deadline = now.Add(t.cfg.RecallTime)
	t.out = append(t.out, Action[F]{Kind: Recall, Log: s.log.id, Lease: s.id})
}

// end fixes the last record of s, and forgets it when that has been applied.
func (t *Table[F]) end(s *lease[F], final uint64) {
	s.ended, s.final = true, final
	t.settle(s.f)
}

// settle removes the leases on f that are over, and runs the operations that waited for that.
func (t *Table[F]) settle(f F) {
	y := t.files[f]
	y.leases = slices.DeleteFunc(y.leases, func(s *lease[F]) bool {
		over := s.ended && s.log.applied >= s.final
		if over {
			delete(t.leases, s.id)
			delete(s.log.leases, s.id)
			t.out = append(t.out, Action[F]{Kind: Over, Log: s.log.id, Lease: s.id})
		}
		return over
	})
	t.run(y)
	t.forget(f, y)
}

func (t *Table[F]) file(f F) *file[F] {
	y := t.files[f]
	if y == nil {
		y = new(file[F])
		t.files[f] = y
	}
	return y
}

func (t *Table[F]) forget(f F, y *file[F]) {
	if len(y.leases)+len(y.waiting)+y.changing == 0 {
		delete(t.files, f)
	}
}
