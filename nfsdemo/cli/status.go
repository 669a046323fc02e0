package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/once"
	"github.com/stag-rdma/stag/nfsdemo/pushwrite"
	"github.com/stag-rdma/stag/transport"
)

// statusTimeout limits one request for /status.
const statusTimeout = 10 * time.Second

// statusJSON is the content of /status.
type statusJSON struct {
	Export    string           `json:"export"`
	Transport transport.Stats  `json:"transport"`
	Push      *pushwrite.Stats `json:"push,omitempty"`
	Once      *once.Stats      `json:"once,omitempty"` // of --intents
	Problems  []problemJSON    `json:"problems"`       // what needs somebody's attention
}

// problemJSON describes a record that cannot be applied, a condemned log, or a failed journal.
type problemJSON struct {
	Log    string    `json:"log"`
	File   string    `json:"file,omitempty"`   // name of the log's file
	Record uint64    `json:"record,omitempty"` // 0: the log cannot be read
	Lease  uint64    `json:"lease,omitempty"`
	Error  string    `json:"error"`
	Remedy string    `json:"remedy,omitempty"` // what to do
	Since  time.Time `json:"since,omitzero"`
}

// String returns one line.
func (p *problemJSON) String() string {
	s := "push log " + p.Log
	if p.File != "" {
		s = p.File
	}
	return s + ": " + p.Error + " (" + p.Remedy + ")"
}

// statusHandler serves /status and /metrics.
func statusHandler(s *service) http.Handler {
	pw := s.push.pw // read now: close sets it to nil
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(statusOf(s, pw)) // the client is gone
	})
	mux.Handle("GET /metrics", metricsHandler(s, pw))
	return mux
}

func statusOf(s *service, pw *pushwrite.Server) *statusJSON {
	out := &statusJSON{Export: s.path, Transport: s.srv.Stats(), Problems: []problemJSON{}}
	if s.once != nil {
		st := s.once.Stats()
		out.Once = &st
		if st.Err != nil {
			out.Problems = append(out.Problems, problemJSON{
				Log: "intents", Error: st.Err.Error(), Remedy: "remove the cause and restart the server: until then calls that need the journal are not executed",
			})
		}
	}
	if pw == nil {
		return out
	}
	st := pw.Stats()
	out.Problems = append(out.Problems, pushProblems(&st)...)
	out.Push = &st
	return out
}

// pushProblems are the problems of push logs.
func pushProblems(st *pushwrite.Stats) (all []problemJSON) {
	for _, list := range [...][]pushwrite.Blocked{st.Now, st.NowCondemned} {
		for _, b := range list {
			all = append(all, problemJSON{
				Log: b.Log, File: b.File, Record: b.Record, Lease: b.Lease, Error: b.Err.Error(), Remedy: b.Remedy, Since: b.Since,
			})
		}
	}
	return all
}

// printProblems prints the problems that need somebody's attention, one per line.
func (p *pushService) printProblems(w io.Writer) {
	if p == nil || p.pw == nil {
		return
	}
	st := p.pw.Stats()
	for _, problem := range pushProblems(&st) {
		fmt.Fprintln(w, "nfsdemo:", problem.String())
	}
}
