// Package rpc has the words that ONC RPC calls, handlers and transports share: what a client says
// of a call ([Call], [Reply], [Caller]), what a server's [Handler] sees of it ([Request], [Response],
// [Opaque], [Memory]), and the errors of both. Package transport carries them over RPC-over-RDMA and
// over record-marked TCP; a handler needs only this package, also in its tests ([ServeMessage]).
//
// # For transports
//
// A transport fills a Request with [Request.Parse], runs the handler with [Run], and sends what
// [Response.Header], [Response.Items] and [Response.AppendResults] return. It ends each Response with
// Release and begins the next one with Reset. Data that it has left at the client it offers as
// [Deferred].
package rpc
