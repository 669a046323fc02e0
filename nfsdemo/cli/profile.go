package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport"
)

// profileFlag is the value of --profile.
type profileFlag struct{ profile *transport.Profile }

// String returns the name of the profile.
func (f profileFlag) String() string {
	if f.profile == nil {
		return transport.ProfileRFC8166.String()
	}
	return f.profile.String()
}

// Set takes the name of a profile.
func (f profileFlag) Set(name string) error {
	for _, p := range []transport.Profile{transport.ProfileRFC8166, transport.ProfileRFC5666} {
		if name == p.String() {
			*f.profile = p
			return nil
		}
	}
	return fmt.Errorf("want %v or %v", transport.ProfileRFC8166, transport.ProfileRFC5666)
}

// Type is the name of the value in the help.
func (profileFlag) Type() string { return "name" }

// addProfileFlag declares --profile on a command.
func addProfileFlag(cmd *cobra.Command, p *transport.Profile) {
	cmd.Flags().Var(profileFlag{p}, "profile",
		"rules of RPC-over-RDMA: rfc8166, or rfc5666 with padded messages, exposed replies and connection configuration")
}
