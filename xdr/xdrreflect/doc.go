// Package xdrreflect encodes Go values as XDR (RFC 4506) by reflection, for
// programs with types of their own and for protocols where speed does not
// matter. Packages on the wire path use the cursor of package xdr instead.
//
// The encoding itself is that of github.com/rasky/go-xdr/xdr2:
//
//	bool                            bool
//	int8 int16 int32 int            int, range checked
//	uint8 uint16 uint32 uint        unsigned int, range checked
//	int64 uint64                    hyper, unsigned hyper
//	float32 float64                 float, double
//	string                          string<>
//	[]byte [n]byte                  opaque<> opaque[n]
//	[]T [n]T                        T<> T[n]
//	struct                          struct, exported fields in order
//	*T                              T
//
// An exported field may carry one option in its tag:
//
//	`xdr:"optional"`      of a pointer: T *, RFC 4506 Section 4.19
//	`xdr:"opaque=false"`  of []byte or [n]byte: unsigned int<>, not opaque
//	`xdr:"union"`         discriminant, an integer of 32 bits or a bool (RFC 4506 Section 4.15)
//	`xdr:"unioncase=2"`   only there when the discriminant before it is 2
//
// One []byte member of a structure may be marked as its item, the data that RPC-over-RDMA may move apart
// from the rest (RFC 8166 Section 6): see [Split]. The option stands last and goes with unioncase:
//
//	`xdr:"ddp"`   `xdr:"unioncase=0,ddp"`
//
// Types with no form in XDR, or none that is always the same, are refused with
// [ErrType]: maps, interfaces, channels, functions, complex numbers, uintptr,
// time.Time, types that contain themselves without an end, and combinations
// that go-xdr reads and writes differently.
//
// Usage:
//
//	b, err := xdrreflect.Marshal(&args)
//	rest, err := xdrreflect.Unmarshal(b, &args)
//
// Limits. go-xdr allocates what a count word says and recurses as deep as a
// list is long. So the octets are walked first, against the type, with the
// bounded cursor of package xdr: lengths, ranges, nesting and the memory that
// the value will take (see [Unmarshal]). Only what passes is given to go-xdr, and
// what does not pass has allocated nothing and left the target as it was.
//
// All functions are safe for concurrent use. Results share no memory with the
// input.
package xdrreflect
