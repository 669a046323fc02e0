// Package rpc has the words that ONC RPC calls, handlers and transports share: what a client says
// of a call ([Call], [Reply], [Caller]), what a server's [Handler] sees of it ([Request], [Response],
// [Opaque], [Memory]), and the errors of both. Package transport carries them over RPC-over-RDMA and
// over record-marked TCP; a handler needs only this package, also in its tests ([ServeMessage]).
package rpc
