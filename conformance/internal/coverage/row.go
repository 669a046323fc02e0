package coverage

import (
	"maps"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// Row is one rule.
type Row struct {
	ID       string `json:"row"`             // "7.3 F-AW"; unique in its document
	First    string `json:"first,omitempty"` // ordering rules: the operation submitted first
	Later    string `json:"later,omitempty"` // and the one after it
	Requires string `json:"requires"`
	Source   string `json:"source"` // the source of the rule
}

// Group is the part of the document that the row is in, "7.3".
func (r *Row) Group() string { return group(r.ID) }

var specs = map[string][]Row{"rdmap": rdmapRows(), "rpcrdma": rpcrdmaRows()}

// Specs returns the names of the documents that have rows, or sentences, sorted.
func Specs() []string {
	names := slices.AppendSeq(judge.Documents(), maps.Keys(specs))
	slices.Sort(names)
	return slices.Compact(names)
}

// Rows returns the rows of a document, in order; none if there is no such document. The caller must not
// change them.
func Rows(spec string) []Row { return specs[spec] }
