package xdr

import "strconv"

// RPCStatusError is a reply other than SUCCESS, as an error: the server
// understood the call and refused it. One call failed; the connection lives.
// Its fields are those of [ReplyHeader].
type RPCStatusError struct {
	Denied    bool
	Accept    AcceptStat
	Low, High uint32
	Reject    RejectStat
	AuthStat  AuthStat
}

// Error returns, for example, "xdr: rpc call refused: PROG_MISMATCH, versions
// 3 to 3".
func (e *RPCStatusError) Error() string {
	const s = "xdr: rpc call refused: "
	switch {
	case e.Denied && e.Reject == RPCMismatch:
		return s + e.Reject.String() + e.versions()
	case e.Denied:
		return s + e.Reject.String() + ", " + e.AuthStat.String()
	case e.Accept == ProgMismatch:
		return s + e.Accept.String() + e.versions()
	}
	return s + e.Accept.String()
}

func (e *RPCStatusError) versions() string {
	return ", versions " + strconv.FormatUint(uint64(e.Low), 10) + " to " + strconv.FormatUint(uint64(e.High), 10)
}
