package judge

import "github.com/stag-rdma/stag/conformance/decode"

// Options limits what a judge remembers. The zero value, and a nil *Options, mean the defaults.
type Options struct {
	// Decode is for the decoder below; used by [File].
	Decode *decode.Options

	// MaxViolations bounds the violations that a [Report] keeps per connection and rule; further ones are
	// only counted. If zero, 100.
	MaxViolations int

	// MaxConns bounds the connections remembered at one time, in connections. If zero, 65536. The oldest one
	// is dropped first.
	MaxConns int

	// MaxSTags bounds the STags remembered per connection and direction, in STags. If zero, 4096. The
	// oldest is forgotten first.
	MaxSTags int

	// MaxRequests bounds the requests remembered per connection and direction while they are not answered,
	// in requests. If zero, 16384, more than an IRD can be.
	MaxRequests int
}

// withDefaults returns a copy of o with the zero fields filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	for _, f := range []struct {
		v   *int
		def int
	}{
		{&c.MaxViolations, 100},
		{&c.MaxConns, 1 << 16},
		{&c.MaxSTags, 4096},
		{&c.MaxRequests, 1 << 14},
	} {
		if *f.v <= 0 {
			*f.v = f.def
		}
	}
	return c
}
