package xdr

// What the tests need of the inside.

const (
	GrowStep = growStep
)

var ParseMark = parseMark
