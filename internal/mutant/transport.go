package mutant

// The faults of transport.
const (
	StaleBuffer    = "stale-buffer"    // Response.Buffer is not cleared
	SinkIgnored    = "sink-ignored"    // a Sink that nothing may be placed in is ignored
	BindingUnnamed = "binding-unnamed" // ERR_CHUNK for want of a Binding does not say so, at either end
)
