package judge

import (
	"cmp"
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/internal/setting"
)

// Options limits what a judge remembers. The zero value, and a nil *Options, mean the defaults.
type Options struct {
	// Decode is for the decoder below; used by [File].
	Decode *decode.Options

	// MaxViolations bounds the violations that a [Report] keeps per connection and rule; further ones are
	// only counted. If zero, 100.
	MaxViolations int

	// MaxSTags bounds the STags remembered per connection and direction, in STags. If zero, 4096. The
	// oldest is forgotten first.
	MaxSTags int

	// MaxRequests bounds the requests remembered per connection and direction while they are not answered,
	// in requests. If zero, 16384, more than an IRD can be.
	MaxRequests int
}

// Check returns an error that names the first setting that is out of range, Decode included. A nil o is valid.
func (o *Options) Check() error {
	if o == nil {
		return nil
	}
	err := setting.Check(
		setting.Count("MaxViolations", o.MaxViolations), setting.Count("MaxSTags", o.MaxSTags), setting.Count("MaxRequests", o.MaxRequests),
	)
	if err == nil {
		err = o.Decode.Check()
	}
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	return nil
}

// withDefaults returns a copy of o with the zero fields filled in. It panics with the error of Check.
func (o *Options) withDefaults() Options {
	if err := o.Check(); err != nil {
		panic(err)
	}
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxViolations = cmp.Or(c.MaxViolations, 100)
	c.MaxSTags = cmp.Or(c.MaxSTags, 4096)
	c.MaxRequests = cmp.Or(c.MaxRequests, 1<<14)
	return c
}
