package rpcrdma

import "github.com/stag-rdma/stag/xdr"

// The Connection Configuration Protocol (RFC 5666 Section 6): an RPC program of one procedure,
// the first call of a connection. Each end gives its numbers from its own point of view.
const (
	ConfigProgram = 100417 // CONFIG_RDMA_PROG
	ConfigVersion = 1      // VERS1
	ConfigProc    = 1      // CONF_RDMA
)

// ConfigArgs are the arguments of CONF_RDMA, 12 octets.
type ConfigArgs struct {
	MaxCall  uint32 // maxcall_sendsize: largest Send the client makes, octets
	MaxReply uint32 // maxreply_sendsize: largest Send it takes
	MaxRead  uint32 // maxrdmaread: RDMA Reads it serves at a time; 0: none
}

// Append appends the three words.
func (a ConfigArgs) Append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, a.MaxCall), a.MaxReply), a.MaxRead)
}

// ParseConfigArgs reads the three words; more or fewer are an *xdr.DecodeError,
// to be answered with GARBAGE_ARGS. It borrows args.
func ParseConfigArgs(args []byte) (ConfigArgs, error) {
	d := xdr.NewDecoder(args)
	a := ConfigArgs{d.Uint32(), d.Uint32(), d.Uint32()}
	return a, d.End()
}

// ConfigReply are the results of CONF_RDMA, 12 octets.
type ConfigReply struct {
	MaxCall uint32 // maxcall_sendsize: largest Send the server takes, octets
	Align   uint32 // align: of its receive buffers; see PadsTo
	MaxRead uint32 // maxrdmaread: RDMA Reads it serves at a time; 0: none
}

// Append appends the three words.
func (r ConfigReply) Append(b []byte) []byte {
	return ConfigArgs{r.MaxCall, r.Align, r.MaxRead}.Append(b)
}

// ParseConfigReply reads the three words; more or fewer are an *xdr.DecodeError.
func ParseConfigReply(results []byte) (ConfigReply, error) {
	a, err := ParseConfigArgs(results)
	return ConfigReply{a.MaxCall, a.MaxReply, a.MaxRead}, err
}

// PadsTo reports whether align is a valid alignment for RDMA_MSGP: a power of two from 4 to 2^30.
// Choice: any other align in the Connection Configuration Protocol, including 0 and 1, means
// "send no RDMA_MSGP".
func PadsTo(align uint32) bool { return align >= 4 && align <= 1<<30 && align&(align-1) == 0 }

// ConfigInline returns the size in octets, at least 1024, of the largest Send of a side that
// sends at most own, if the other side accepts limit according to the Connection Configuration
// Protocol. agreed is the size agreed by RFC 8797, or 0.
//
// Choice: if both are known, the Connection Configuration Protocol can only lower the size.
func ConfigInline(own int, limit uint32, agreed int) int {
	if agreed > 0 {
		own = min(own, agreed)
	}
	return max(int(min(uint64(own), uint64(limit))), DefaultInline)
}
