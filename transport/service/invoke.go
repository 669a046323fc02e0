package service

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"github.com/stag-rdma/stag/transport/rpc"
)

// Caller makes calls: an [rpc.Caller], or the [rpc.Backward] of a client, which a Mux serves there
// (Config.Backward.Handler).
type Caller interface {
	Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error
}

// Invoke calls p with args, and fills res with the results. A nil args or res stands for a zero value that
// nobody looks at.
//
// The item of args is borrowed. The item of res, if its capacity is not 0, is room for the result: afterwards
// it is the beginning of that memory, whichever way the result has come. Without room the result is in new
// memory. This costs a copy, and, if p has no MaxResults, memory of Config.MaxPayload octets during the call.
//
// Options change the call before it is made: its credential, or registered memory (Call.ItemMemory). If ctx ends
// before the reply is there, the server may still use the items: see Call.Free.
//
// Errors: the service's own (see the package comment); *xdr.RPCStatusError, the server has refused the call;
// *xdr.DecodeError, its results are not of type Res; those of [rpc.Caller]; and xdrreflect.ErrType.
func Invoke[Args, Res any](ctx context.Context, c Caller, p Proc[Args, Res], args *Args, res *Res, options ...func(*rpc.Call)) error {
	if args == nil {
		args = new(Args)
	}
	if res == nil {
		res = new(Res)
	}
	in, err := formOf(reflect.TypeFor[Args]())
	if err != nil {
		return err
	}
	out, err := formOf(reflect.TypeFor[Res]())
	if err != nil {
		return err
	}
	call := rpc.Call{Prog: p.Prog, Vers: p.Vers, Proc: p.Proc, MaxResults: p.MaxResults, Repeatable: true}
	if err := in.put(&call, args); err != nil {
		return err
	}
	room := out.Item(res)
	call.Sink = room[:cap(room)]
	if out.HasItem() && cap(room) == 0 && p.MaxResults == 0 {
		call.MaxResults = -1
	}
	for _, change := range options {
		change(&call)
	}
	if err := out.do(ctx, c, &call, res); err != nil {
		return fmt.Errorf("service: program %#x, version %d, procedure %d: %w", p.Prog, p.Vers, p.Proc, err)
	}
	return out.failure(res)
}

// put makes *args the arguments of a call.
func (f *form) put(call *rpc.Call, args any) error {
	b, pos, item, err := f.Marshal(args)
	call.Args = b
	if pos > 0 && len(item) > 0 {
		call.Item, call.ItemPos = item, pos
	}
	return err
}

// do makes a call whose results become *res.
func (f *form) do(ctx context.Context, c Caller, call *rpc.Call, res any) error {
	var reply rpc.Reply
	defer reply.Release()
	err := c.Do(ctx, call, &reply)
	if err == nil {
		err = reply.Header.Err()
	}
	if err != nil {
		return err
	}
	if err := f.Unmarshal(reply.Results, reply.Item, res); err != nil {
		return err
	}
	item := f.Item(res) // lent until Release, if it was not placed
	if len(item) <= len(call.Sink) {
		item = call.Sink[:copy(call.Sink, item)]
	} else {
		item = bytes.Clone(item)
	}
	f.SetItem(res, item)
	return nil
}
