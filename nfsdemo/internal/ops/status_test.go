package ops_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
)

// TestNames: without TLS, a page of elsewhere whose name leads here reads nothing.
func TestNames(t *testing.T) {
	s := &ops.Server{Ready: func() string { return "" }, Names: []string{"fileserver", ""}}
	for host, want := range map[string]int{
		"evil.example": http.StatusMisdirectedRequest, "evil.example:9049": http.StatusMisdirectedRequest, "fileserver.evil.example": http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest, "localhost.evil.example": http.StatusMisdirectedRequest, "127.1": http.StatusMisdirectedRequest,
		"FileServer:9049": http.StatusOK, "localhost:9049": http.StatusOK, "localhost.": http.StatusOK, "192.0.2.1:9049": http.StatusOK, "[::1]:9049": http.StatusOK,
		"[2001:db8::1]": http.StatusOK, "": http.StatusOK,
	} {
		for _, names := range [][]string{s.Names, nil} {
			if s.Names = names; names == nil {
				want = http.StatusOK
			}
			r := httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody)
			r.Host = host
			w := httptest.NewRecorder()
			if s.HTTP().Handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%q, names %q: %d, want %d", host, names, w.Code, want)
			}
		}
		s.Names = []string{"fileserver", ""}
	}
}

// TestProfileEnds: whoever asks for a profile of a year does not keep one of the few connections for a year.
func TestProfileEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&ops.Server{Ready: func() string { return "" }}).Handler()
		start := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?seconds=31536000", nil))
		if d := time.Since(start); d > time.Hour || w.Code == http.StatusOK {
			t.Errorf("%d after %v", w.Code, d)
		}
	})
}
