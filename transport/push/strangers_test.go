package push

import (
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/internal/accept/accepttest"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
)

// A host that connects and shows no token does not take the places of others.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := &Server{Store: newMemStore(), Limits: Limits{MaxConns: 16}} // an eighth: 2
		accepttest.Strangers(t, ps.ServeConn, rendezvous.ErrConns)
		if err := ps.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
