package push

import "fmt"

// Status is the result of a call (docs/push.x, push_status). As an error it means that the server
// has refused.
type Status uint32

// The statuses.
const (
	StatusOK       Status = 0
	StatusRefused  Status = 1 // because of the name, the secret or the rules; the server does not say which
	StatusBusy     Status = 2 // busy now; try again
	StatusFull     Status = 3 // no room in the log, or for another log
	StatusFenced   Status = 4 // another instance of the owner has opened the log since, or another program uses the session
	StatusStale    Status = 5 // the session is over
	StatusGap      Status = 6 // records before this one are missing
	StatusTooLarge Status = 7 // a record beyond the limit
	StatusLost     Status = 8 // the log is damaged, or its medium has failed
	StatusReleased Status = 9 // the record was released
)

var statusText = [...]string{
	StatusOK:       "ok",
	StatusRefused:  "refused (is it the secret with which this log was made?)",
	StatusBusy:     "busy (try again)",
	StatusFull:     "full (release records of this log; for another log: on the server, remove logs that nobody uses, or raise the limits)",
	StatusFenced:   "another instance of the owner has opened the log since, or uses the session",
	StatusStale:    "the session is over (open again)",
	StatusGap:      "the log does not reach this number (read the log, to see which records it has)",
	StatusTooLarge: "record too large (split it, or open a larger log)",
	StatusLost:     "the log is damaged, or its medium has failed (see the server's log)",
	StatusReleased: "the record was released",
}

// String describes the status.
func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return fmt.Sprintf("status(%d)", uint32(s))
}

// Error implements error.
func (s Status) Error() string { return "push: " + s.String() }

// temporary reports whether the same call may succeed later.
func (s Status) temporary() bool { return s == StatusBusy || s == StatusStale }

// Error says which operation on which log failed. Err is a Status if the server refused, and
// otherwise an error of package transport, rdmap or commitlog.
type Error struct {
	Op  string // "open", "append", "read", "release", "load"
	Log string // its name
	Err error
}

// Error returns one line.
func (e *Error) Error() string {
	if s, ok := e.Err.(Status); ok { //nolint:errorlint // the outermost, for its text
		return fmt.Sprintf("push: %s %q: %v", e.Op, e.Log, s.String())
	}
	return fmt.Sprintf("push: %s %q: %v", e.Op, e.Log, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
