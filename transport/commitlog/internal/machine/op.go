package machine

import "fmt"

// OpKind is what an Op asks for.
type OpKind uint8

// The kinds.
const (
	OpStore   OpKind = iota // Data to Off
	OpPersist               // Ranges are durable when it is done
	OpRevoke                // the STags of the old session are invalid when it is done
	OpQuiesce               // nobody of the old session touches the memory when it is done
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

// Range is N octets at Off of the memory.
type Range struct{ Off, N int }

// Op is a step of the consumer. Those of one list are executed in order, each when the
// one before it is done; the first that fails is the end of the log.
type Op struct {
	Kind   OpKind
	Off    int
	Data   []byte
	Ranges []Range
	Head   uint64
}
