package transport

import (
	"cmp"
	"fmt"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Check returns an error that names the first setting that is out of range or contradicts another
// one, as [Dial], [NewListener] and [Server.Serve] do. The error wraps [rpc.ErrConfig]. A nil c is
// valid.
func (c *Config) Check() error {
	_, err := c.fill()
	return err
}

// check refuses impossible settings.
func (c *Config) check() error {
	for _, r := range []struct {
		name        string
		got, lo, hi int
	}{
		{"Credits", c.Credits, 1, maxCredits},
		{"InlineSend", cmp.Or(c.InlineSend, minInline), minInline, maxInline},
		{"InlineRecv", cmp.Or(c.InlineRecv, minInline), minInline, maxInline},
		{"MaxPayload", c.MaxPayload, minInline, 1 << 30},
		{"MaxConns", c.MaxConns, 1, 1 << 30},
		{"MaxPulls", c.MaxPulls, 1, 1 << 30},
		{"Fanout", c.Fanout, 1, 256},
		{"Revision", c.Revision, 0, 2},
		{"Profile", int(c.Profile), int(ProfileRFC8166), int(ProfileRFC5666)},
		{"MaxExposed", c.MaxExposed, 1, maxCredits},
		{"BackwardCredits", c.BackwardCredits, 0, maxCredits},
	} {
		if r.got < r.lo || r.got > r.hi {
			return fmt.Errorf("%w: %s is %d, want %d to %d", rpc.ErrConfig, r.name, r.got, r.lo, r.hi)
		}
	}
	if err := c.checkSigns(); err != nil {
		return err
	}
	for _, a := range [...]int{c.Align, c.PeerAlign} {
		if a > 0 && (a > maxAlign || !rpcrdma.PadsTo(uint32(a))) {
			return fmt.Errorf("%w: an alignment of %d, want a power of two from 4 to %d", rpc.ErrConfig, a, maxAlign)
		}
	}
	if c.BackwardCredits > 0 && c.Profile == ProfileRFC5666 {
		return fmt.Errorf("%w: BackwardCredits with profile rfc5666, which has no backward direction", rpc.ErrConfig)
	}
	if c.RequestMemory < int64(c.MaxPayload) {
		return fmt.Errorf("%w: RequestMemory is %d, less than one MaxPayload of %d", rpc.ErrConfig, c.RequestMemory, c.MaxPayload)
	}
	if n := c.PerClient.Memory; n > 0 && n < int64(c.MaxPayload) {
		return fmt.Errorf("%w: PerClient.Memory is %d, less than one MaxPayload of %d", rpc.ErrConfig, n, c.MaxPayload)
	}
	return nil
}

// checkSigns refuses negative values that have no meaning.
func (c *Config) checkSigns() error {
	for _, r := range []struct {
		name string
		got  int64
	}{
		{"ExposedMemory", c.ExposedMemory},
		{"DRCMemory", c.DRCMemory},
		{"DRCTime", int64(c.DRCTime)},
		{"HandshakeTimeout", int64(c.HandshakeTimeout)},
		{"CallTimeout", int64(c.CallTimeout)},
		{"CloseTimeout", int64(c.CloseTimeout)},
		{"PullTimeout", int64(c.PullTimeout)},
		{"DoneTimeout", int64(c.DoneTimeout)},
		{"BusyPoll", int64(c.BusyPoll)},
	} {
		if r.got < 0 {
			return fmt.Errorf("%w: %s is below 0; want 0 or more, where 0 is the default", rpc.ErrConfig, r.name)
		}
	}
	return nil
}
