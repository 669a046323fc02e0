package mem

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
)

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Options{
		New: func(*testing.T) backend.FS { return New(nil) },
	})
}
