package transport

// transmission is what a call keeps when it is sent again on another connection.
type transmission struct {
	xid    uint32
	posted bool // some of it may have left
}

// post says that the call is being sent. A call without a Redialer has no tx.
func (tx *transmission) post() {
	if tx != nil {
		tx.posted = true
	}
}
