package transport

// summed returns the octets of the arguments that identify a call, and the length of the arguments.
// They are the same whether the data have come or are still at the client: for calls that may be
// deferred, the octets before the data.
func (d *duplicates) summed(req *Request) (head []byte, n int) {
	head, n = req.Args, len(req.Args)
	if req.away != nil {
		n = req.away.x.in.Unreduced()
	}
	if d.lazy != nil && d.lazy.Lazy(req.Prog, req.Vers, req.Proc) {
		if pos, _, ok := d.bind.FindArg(req.Prog, req.Vers, req.Proc, head); ok {
			head = head[:pos]
		}
	}
	return head[:min(len(head), sumLen)], n
}

// pullFailed reports whether the handler has asked for data that could not be read. Then the call
// has no reply, and may come again.
func (r *Request) pullFailed() bool { return r.away != nil && r.away.failed }
