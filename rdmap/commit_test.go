package rdmap_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestPersistError: the first error of Persist is final: it causes a Terminate, and every STag of the
// memory is revoked. Memory that was never persistent costs only the stream.
func TestPersistError(t *testing.T) {
	for cause, failed := range map[error]bool{conntest.ErrTest: true, region.ErrNotPersistent: false} {
		p, q := rdmaptest.Pipe()
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}, Domain: region.NewDomain()}
		x, y := conntest.Connect(t, p, q, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, cfg)
		mem := &conntest.Persisting{Mem: make([]byte, 64), Err: cause}
		reg, _ := y.Table().RegisterMemory(mem, region.Options{Access: conntest.CommitRights})
		shared, _ := cfg.Domain.RegisterShared(mem, region.Options{Access: conntest.CommitRights})
		go y.Serve()
		err := x.Flush(t.Context(), reg.STag(), 0, 64, verbs.FlushPersistent)
		if te, ok := errors.AsType[*verbs.TerminateError](err); !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 7}) {
			t.Fatal(err)
		}
		if failed && reg.Valid() || shared.Valid() == failed || !errors.Is(y.Err(), cause) {
			t.Errorf("%v: registered with the stream: %v, shared: %v; %v", cause, reg.Valid(), shared.Valid(), y.Err())
		}
	}
}
