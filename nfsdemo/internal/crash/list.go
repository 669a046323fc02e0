package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// List is where a worker notes its operations and their results. Each line is a JSON object and is
// written at once.
type List struct{ f *os.File }

// line is one of: an operation that is about to be sent; its result; another result, because the
// operation was sent again although it had one.
type line struct {
	Op    *Op     `json:",omitempty"`
	N     uint32  `json:",omitempty"`
	Res   *Result `json:",omitempty"`
	Again *Result `json:",omitempty"`
}

// OpenList opens the list in the file name, makes it if it does not exist, and returns its
// content.
func OpenList(name string, worker uint16) (*List, *History, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	h, whole, err := load(name, worker)
	if err == nil {
		err = f.Truncate(whole) // remove a line that was being written when the worker was killed
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &List{f}, h, nil
}

func (l *List) write(v line) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = l.f.Write(append(b, '\n'))
	return err
}

// Issue notes an operation that is about to be sent.
func (l *List) Issue(o *Op) error { return l.write(line{Op: o}) }

// Result notes the answer to operation n.
func (l *List) Result(n uint32, r *Result) error { return l.write(line{N: n, Res: r}) }

// Again notes another answer to operation n, which has one already.
func (l *List) Again(n uint32, r *Result) error { return l.write(line{N: n, Again: r}) }

// Close closes the file.
func (l *List) Close() error { return l.f.Close() }

// History is the content of a list.
type History struct {
	Worker  uint16
	Ops     []*Op
	Results []*Result // of the same length; nil: no answer yet
	Again   []Repeat
}

// Repeat is another answer to operation N.
type Repeat struct {
	N   uint32
	Res *Result
}

// LoadList reads the list in the file name.
func LoadList(name string, worker uint16) (*History, error) {
	h, _, err := load(name, worker)
	return h, err
}

// load reads a list; whole is how many octets are whole lines.
func load(name string, worker uint16) (h *History, whole int64, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	h = &History{Worker: worker}
	i := 0
	for text := range bytes.Lines(b) {
		i++
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", name, i, err)
		}
		if !h.add(&l) {
			return nil, 0, fmt.Errorf("%s:%d: is out of order", name, i)
		}
	}
	return h, int64(len(b)), nil
}

// add reports whether l can be the next line.
func (h *History) add(l *line) bool {
	last := uint32(len(h.Ops))
	switch {
	case l.Op != nil:
		if l.Op.N != last+1 || last > 0 && h.Results[last-1] == nil {
			return false
		}
		h.Ops, h.Results = append(h.Ops, l.Op), append(h.Results, nil)
	case l.Res != nil:
		if l.N != last || last == 0 || h.Results[last-1] != nil {
			return false
		}
		h.Results[last-1] = l.Res
	case l.Again != nil:
		if l.N == 0 || l.N > last || h.Results[l.N-1] == nil {
			return false
		}
		h.Again = append(h.Again, Repeat{l.N, l.Again})
	default:
		return false
	}
	return true
}

// Open returns the operation that has no result, nil if all have one.
func (h *History) Open() *Op {
	if n := len(h.Ops); n > 0 && h.Results[n-1] == nil {
		return h.Ops[n-1]
	}
	return nil
}
