package transport

// summed returns the octets of the arguments by which a call is known again, and the
// length of the arguments. They are the same whether the data came along or are at the
// client still: the octets before the data, for calls that may be deferred.
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

// pullFailed says whether the handler asked for data that could not be read: then the call
// has no reply, and may come again.
func (r *Request) pullFailed() bool { return r.away != nil && r.away.failed }
