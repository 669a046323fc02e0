package cli

import (
	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport"
)

// addPoolFlag adds --credit-pool.
func addPoolFlag(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "credit-pool", 0, "calls in flight of all RDMA clients together, shared by load; 0: one for each 40K of --memory-limit")
}

// creditPool returns the pool of n credits, nil, the default of the transport, for 0.
func creditPool(n int) (*transport.CreditPool, error) {
	switch {
	case n < 0:
		return nil, usagef("--credit-pool %d: want 0 or more; 0 means one for each 40K of --memory-limit", n)
	case n == 0:
		return nil, nil
	}
	return transport.NewCreditPool(n), nil
}
