package pushfile

import "fmt"

// Status is the outcome of a call of either side (docs/pushfile.x, pushfile_status). As an error it is
// the server's refusal.
type Status uint32

// The statuses.
const (
	StatusOK           Status = 0
	StatusRefused      Status = 1
	StatusBusy         Status = 2
	StatusReadOnly     Status = 3
	StatusNoSpace      Status = 4
	StatusQuota        Status = 5
	StatusStale        Status = 6
	StatusBadFile      Status = 7
	StatusStaleSession Status = 8
	StatusTooMany      Status = 9
	StatusUnknownLease Status = 10
	StatusBlocked      Status = 11
	StatusCondemned    Status = 12
	StatusIO           Status = 13
)

var statusText = [...]string{
	StatusOK:           "ok",
	StatusRefused:      "the caller may not write to the file",
	StatusBusy:         "others write to the file (use WRITE, or try later)",
	StatusReadOnly:     "read-only export",
	StatusNoSpace:      "no space left",
	StatusQuota:        "quota exceeded",
	StatusStale:        "the file is gone",
	StatusBadFile:      "not a regular file of this server",
	StatusStaleSession: "the session of the log is over (open the log again)",
	StatusTooMany:      "too many leases of one log (return some)",
	StatusUnknownLease: "no such lease of this log",
	StatusBlocked:      "a record cannot be applied (STATUS says why)",
	StatusCondemned:    "the log has a record that no client may write, or its medium has failed (see the server's log)",
	StatusIO:           "input or output error at the server (see its log)",
}

// String describes the status.
func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return fmt.Sprintf("status(%d)", uint32(s))
}

// Error implements error.
func (s Status) Error() string { return "push-mode write: " + s.String() }
