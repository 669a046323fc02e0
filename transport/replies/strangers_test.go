package replies

import (
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/internal/accept/accepttest"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
)

// A host that connects and shows no token does not take the places of others.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pusher{MaxClients: 16} // an eighth: 2
		accepttest.Strangers(t, p.ServeConn, rendezvous.ErrConns)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}
