package machine

import "fmt"

// OpKind is the kind of an Op.
type OpKind uint8

// The kinds.
const (
	OpStore   OpKind = iota // store Data at Off
	OpPersist               // make Ranges durable
	OpRevoke                // invalidate the STags of the old session
	OpQuiesce               // wait until nobody of the old session touches the memory
	OpPublish               // tell the producer Head; may get lost
	numberOps               // not a kind
)

var opNames = [numberOps]string{
	OpStore: "store", OpPersist: "persist", OpRevoke: "revoke", OpQuiesce: "quiesce", OpPublish: "publish",
}

// String returns the kind in words.
func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", uint8(k))
}

// Range is N octets at offset Off of the memory.
type Range struct{ Off, N int }

// Op is a step of the consumer. The steps of a list are executed one after the other; the first one
// that fails ends the log.
type Op struct {
	Kind   OpKind
	Off    int
	Data   []byte
	Ranges []Range
	Head   uint64
}
