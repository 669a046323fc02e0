package mem_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
)

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Options{
		New: func(*testing.T) backend.FS { return mem.New(nil) },
	})
}
