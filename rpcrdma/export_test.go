package rpcrdma

// What tests distinguish, and nobody else.
var (
	ErrType         = errType
	ErrDirection    = errDirection
	ErrXID          = errXID
	ErrNotReduced   = errNotReduced
	ErrItemLength   = errItemLength
	ErrNotRead      = errNotRead
	ErrReadList     = errReadList
	ErrNoReplyChunk = errNoReplyChunk
	ErrNoChunks     = errNoChunks
)
