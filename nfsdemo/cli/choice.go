package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport"
)

// choice is the value of a flag that is one of a few names; the first is the default.
type choice[T fmt.Stringer] struct {
	value *T
	of    []T
}

// String returns the name of the value.
func (c choice[T]) String() string {
	if c.value == nil {
		return ""
	}
	return (*c.value).String()
}

// Set takes the name of a value.
func (c choice[T]) Set(name string) error {
	for _, v := range c.of {
		if name == v.String() {
			*c.value = v
			return nil
		}
	}
	names := make([]string, len(c.of))
	for i, v := range c.of {
		names[i] = v.String()
	}
	return fmt.Errorf("want one of %s", strings.Join(names, ", "))
}

// Type is the name of the value in the help.
func (choice[T]) Type() string { return "name" }

// profile is the document that connections follow.
type profile bool

const (
	rfc8166 profile = false
	rfc5666 profile = true
)

// String returns the name of the document.
func (p profile) String() string {
	if p == rfc5666 {
		return "rfc5666"
	}
	return "rfc8166"
}

// settings returns the Config.RFC5666 of the profile.
func (p profile) settings() *transport.RFC5666 {
	if p == rfc5666 {
		return new(transport.RFC5666)
	}
	return nil
}

// addProfileFlag declares --profile on a command.
func addProfileFlag(cmd *cobra.Command, p *profile) {
	cmd.Flags().Var(choice[profile]{p, []profile{rfc8166, rfc5666}}, "profile",
		"rules of RPC-over-RDMA: rfc8166, or rfc5666 with padded messages, exposed replies and connection configuration")
}

// addCRCFlag declares --crc on a command. peer says what that value means there.
func addCRCFlag(cmd *cobra.Command, m *transport.CRCMode, peer string) {
	of := []transport.CRCMode{transport.CRCPeer, transport.CRCOn, transport.CRCOff}
	cmd.Flags().Var(choice[transport.CRCMode]{m, of}, "crc",
		"MPA's CRC32C: on; peer: "+peer+"; off: only if the other end asks for it")
}
