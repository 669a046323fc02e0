package execute

import (
	"context"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Deferred is what the transport leaves at the client of a call until a handler wants it.
type Deferred interface {
	memory.Deferred
	// BeginSum makes the octets that are read from now on count in Sum.
	BeginSum()
	// Sum returns the sum of the complete arguments, of which args are not at the client. It is unknown as long as some
	// of them are.
	Sum(args []byte) callid.Sum
	// ArgsLen returns the octets of the complete arguments.
	ArgsLen() int
	// Fetch reads what is left, and returns the complete arguments.
	Fetch(ctx context.Context) ([]byte, error)
	// Begun reports whether the handler has asked for data, Failed whether they could not be read.
	Begun() bool
	Failed() bool
}

// deferred returns the data of a call that are at the client, nil if there are none.
func deferred(r *rpc.Request) Deferred {
	l, _ := r.Deferred.(Deferred)
	return l
}

// argsLen returns the length of the complete arguments.
func argsLen(r *rpc.Request) int {
	if l := deferred(r); l != nil {
		return l.ArgsLen()
	}
	return len(r.Args)
}

// sumOf returns the sum of all octets of the arguments. It is unknown as long as some of them are at the
// client.
func sumOf(r *rpc.Request) callid.Sum {
	if l := deferred(r); l != nil {
		return l.Sum(r.Args)
	}
	return callid.SumOf(r.Args)
}

// fetch reads all data that are still at the client, so that the arguments are complete.
func fetch(ctx context.Context, r *rpc.Request) error {
	args, err := deferred(r).Fetch(ctx)
	if err == nil {
		r.Args, r.Deferred = args, nil
	}
	return err
}
