// Package buildbarn serves programs written for github.com/buildbarn/go-xdr over
// RPC-over-RDMA, in two ways: its rpcserver runs unmodified on the connections of
// transport.Listen ([Serve]), or each of its Services becomes a rpc.Handler
// ([Handler]), without the copy through a stream.
//
// It is a separate module, so that users of stag do not depend on go-xdr.
package buildbarn
