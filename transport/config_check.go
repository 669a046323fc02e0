package transport

import (
	"cmp"
	"fmt"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rpcrdma"
)

const (
	maxCredits = 4096
	maxAlign   = 4096 // of pooled buffers
	maxConns   = 1 << 30
)

// Check returns an error that names the first setting that is out of range or contradicts another
// one, as [Dial], [NewListener] and [Server.Serve] do. The error wraps [rpc.ErrConfig]. A nil c is
// valid.
func (c *Config) Check() error {
	_, err := c.fill()
	return err
}

// check refuses impossible settings. Those that are not set are 0.
func (c *Config) check() error {
	err := cmp.Or(setting.Check(
		setting.Int("Credits", c.Credits, 1, maxCredits),
		setting.Int("InlineSend", c.InlineSend, minInline, maxInline),
		setting.Int("InlineRecv", c.InlineRecv, minInline, maxInline),
		setting.Int("MaxPayload", c.MaxPayload, minInline, 1<<30),
		setting.Int("Fanout", c.Fanout, 1, 256),
		setting.Int("Limits.Conns", c.Limits.Conns, 1, maxConns),
		setting.Count("Limits.Memory", c.Limits.Memory),
		setting.Int("Limits.Pulls", c.Limits.Pulls, 1, 1<<30),
		setting.Count("Duplicates.Memory", c.Duplicates.Memory),
		setting.Time("Duplicates.Time", c.Duplicates.Time),
		setting.Int("Backward.Credits", c.Backward.Credits, 1, maxCredits),
		setting.Time("Timeouts.Call", c.Timeouts.Call),
		setting.Time("Timeouts.Close", c.Timeouts.Close),
		setting.Time("Timeouts.Pull", c.Timeouts.Pull),
	), c.Startup.Check(), c.Reading.Check(), c.checkOwn(), c.checkGSS())
	if p := c.CreditPool; err == nil && p != nil && p.n < 1 {
		err = setting.Error("CreditPool has %d credits, want 1 or more", p.n)
	}
	if err == nil && c.RFC5666 != nil {
		err = c.RFC5666.check()
		if err == nil && c.Backward.Credits > 0 {
			err = setting.Error("Backward.Credits with RFC5666, which has no backward direction")
		}
	}
	return ofTransport(err)
}

// checkOwn refuses what this package sets by itself.
func (c *Config) checkOwn() error {
	if s := &c.Startup; s.PrivateData != nil || s.Accept != nil || s.Extensions != 0 || s.BufferedInput != nil {
		return setting.Error("Startup.PrivateData, Accept, Extensions and BufferedInput are set by this package, leave them alone")
	}
	return nil
}

func (p *RFC5666) check() error {
	for _, a := range [...]int{p.Align, p.PeerAlign} {
		if a > 0 && (a > maxAlign || !rpcrdma.PadsTo(uint32(a))) {
			return setting.Error("an alignment of %d, want a power of two from 4 to %d", a, maxAlign)
		}
	}
	return setting.Check(
		setting.Time("RFC5666.DoneTimeout", p.DoneTimeout),
		setting.Int("RFC5666.MaxExposed", p.MaxExposed, 1, maxCredits),
		setting.Count("RFC5666.ExposedMemory", p.ExposedMemory),
	)
}

// checkMemory refuses limits that stop every large call.
func (c *Config) checkMemory() (err error) {
	if c.Limits.Memory < int64(c.MaxPayload) {
		err = setting.Error("Limits.Memory is %d, less than one MaxPayload of %d", c.Limits.Memory, c.MaxPayload)
	}
	if n := c.Limits.PerClient.Memory; n > 0 && n < int64(c.MaxPayload) {
		err = setting.Error("Limits.PerClient.Memory is %d, less than one MaxPayload of %d", n, c.MaxPayload)
	}
	return ofTransport(err)
}

// given refuses what is nil where the user has to bring one.
func given(what string, v any) error {
	if setting.IsNil(v) {
		return ofTransport(setting.Error("the %s is nil", what))
	}
	return nil
}

func ofTransport(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("transport: %w", err)
}
