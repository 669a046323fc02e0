package ops_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
)

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
