package dir

// What the tests need of the inside.

const (
	ErrMoved = errMoved
)

var Status = status
