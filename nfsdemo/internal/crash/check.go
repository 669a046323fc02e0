package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// own is the directory of a worker, and the prefix of its names in Shared.
func own(worker uint16) string { return fmt.Sprintf("w%d", worker) }

// isOwn reports whether the name p is the worker's.
func isOwn(worker uint16, p string) bool {
	o := own(worker)
	return p == o || strings.HasPrefix(p, o+"/") || strings.HasPrefix(p, Shared+"/"+o+".")
}

// Check checks that the answers to a worker are consistent, and, if tree is not nil, that they
// agree with the tree. The error says which operation was lost, ran twice or was made up.
func Check(h *History, tree Tree) error {
	m := NewModel(h.Worker)
	err := h.replay(m)
	if err == nil {
		err = h.repeats()
	}
	if err == nil && tree != nil {
		err = h.compare(m, tree)
	}
	if err != nil {
		return fmt.Errorf("worker %d: %w", h.Worker, err)
	}
	return nil
}

// CheckAll checks the lists of all workers, and that the tree contains nothing else.
func CheckAll(all []*History, tree Tree) error {
	var workers []uint16
	for _, h := range all {
		if err := Check(h, tree); err != nil {
			return err
		}
		workers = append(workers, h.Worker)
	}
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		known := func(w uint16) bool { return isOwn(w, p) }
		if p != Shared && !slices.ContainsFunc(workers, known) {
			return fmt.Errorf("%s exists, but nobody made it", p)
		}
	}
	return nil
}

// replay applies all operations that have a result, and checks the results.
func (h *History) replay(m *Model) error {
	for i, o := range h.Ops {
		res := h.Results[i]
		if res == nil || res.Status == nfs3.ErrJukebox { // later: the worker asks again
			continue
		}
		if want := m.Apply(o, res); res.Status != want {
			return fmt.Errorf("%v was answered %v, but the only right answer is %v%s", o, res.Status.String(), want.String(), hint(res.Status))
		}
		if res.Status != nfs3.OK {
			continue
		}
		if err := m.verify(o, res); err != nil {
			return fmt.Errorf("%v: %w", o, err)
		}
	}
	return nil
}

// hint says what a wrong answer usually means.
func hint(s nfs3.Status) string {
	switch s {
	case nfs3.ErrNoEnt, nfs3.ErrExist, nfs3.ErrNotSync:
		return ": it has run twice, or another operation was lost"
	default:
		return ""
	}
}

// verify checks the rest of a result with status OK.
func (m *Model) verify(o *Op, res *Result) error {
	n := m.find(o.Path)
	if o.Kind == Rename || o.Kind == Link {
		n = m.find(o.To)
	}
	if n == nil {
		return nil
	}
	if o.Kind == Read {
		if err := n.readable(o, res.Stamps); err != nil {
			return err
		}
	}
	a := res.Attr
	if a == nil {
		return nil
	}
	size := int(a.Size / Piece)
	switch {
	case a.Type != n.typ:
		return fmt.Errorf("it is a %v, but must be a %v", a.Type, n.typ)
	case a.FileID != n.id:
		return fmt.Errorf("it is file %d, but was file %d: it was made again", a.FileID, n.id)
	case n.moded && a.Mode != n.mode:
		return fmt.Errorf("its mode is %#o, but must be %#o", a.Mode, n.mode)
	case n.typ == nfs3.TypeReg && (a.Size%Piece != 0 || size < n.least || size > len(n.pieces)):
		return fmt.Errorf("it has %d octets, but must have %d to %d", a.Size, n.least*Piece, len(n.pieces)*Piece)
	case n.typ != nfs3.TypeDir && int(a.Nlink) != m.links(n):
		return fmt.Errorf("it has %d names, but must have %d", a.Nlink, m.links(n))
	}
	return nil
}

// readable checks the pieces that a Read returned.
func (n *node) readable(o *Op, got []uint64) error {
	if len(got) > o.Pieces || o.First+len(got) < min(o.First+o.Pieces, n.least) {
		return fmt.Errorf("read %d pieces from piece %d on, but the file has at least %d", len(got), o.First, n.least)
	}
	for i, s := range got {
		if err := n.may(o.First+i, s); err != nil {
			return err
		}
	}
	return nil
}

// may returns an error unless piece i may be s.
func (f *file) may(i int, s uint64) error {
	if i >= len(f.pieces) {
		return fmt.Errorf("piece %d exists, but was never written", i)
	}
	if p := f.pieces[i]; !slices.Contains(p, s) {
		return fmt.Errorf("piece %d holds %s, but must hold %s", i, stampText(s), stampText(p[len(p)-1]))
	}
	return nil
}

// repeats checks that every repeated call got the same answer from the same life of the server.
func (h *History) repeats() error {
	for _, r := range h.Again {
		first := h.Results[r.N-1]
		if r.Res.Life == first.Life && !bytes.Equal(first.Raw, r.Res.Raw) {
			return fmt.Errorf("%v was answered %v, but %v when it was sent again with the same XID; both must be identical: %x, %x",
				h.Ops[r.N-1], first.Status.String(), r.Res.Status.String(), first.Raw, r.Res.Raw)
		}
	}
	return nil
}

// compare compares the tree with the model, with and without the effect of the open operation.
func (h *History) compare(m *Model, tree Tree) error {
	before := m.compare(tree)
	o := h.Open()
	if before == nil || o == nil {
		return before
	}
	after := m.clone()
	after.Apply(o, nil)
	err := after.compare(tree)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v is open: if it was done: %w; if not: %w", o, err, before)
}

// compare checks that the worker's names in the tree are those of the model.
func (m *Model) compare(tree Tree) error {
	var errs []error
	want := make(map[string]bool)
	ids := make(map[*node]any)
	nodes := make(map[any]*node)
	m.walk(func(p string, n *node) {
		want[p] = true
		e := tree[p]
		if e == nil {
			errs = append(errs, fmt.Errorf("%s is missing", p))
			return
		}
		if err := n.matches(e); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
		if id, ok := ids[n]; ok && id != e.ID {
			errs = append(errs, fmt.Errorf("%s is not the same object as its other name", p))
		}
		if o := nodes[e.ID]; o != nil && o != n {
			errs = append(errs, fmt.Errorf("%s is the same object as another name", p))
		}
		ids[n], nodes[e.ID] = e.ID, n
	})
	for p := range tree {
		if isOwn(m.Worker, p) && !want[path.Clean(p)] {
			errs = append(errs, fmt.Errorf("%s exists, but must not", p))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// matches checks one object.
func (n *node) matches(e *Entry) error {
	switch {
	case e.Type != n.typ:
		return fmt.Errorf("is a %v, but must be a %v", e.Type, n.typ)
	case n.moded && e.Mode != n.mode:
		return fmt.Errorf("its mode is %#o, but must be %#o", e.Mode, n.mode)
	case e.Target != n.target:
		return fmt.Errorf("points to %q, but must point to %q", e.Target, n.target)
	case n.typ == nfs3.TypeReg && len(e.Stamps) < n.least:
		return fmt.Errorf("has %d pieces, but must have %d", len(e.Stamps), n.least)
	}
	for i, s := range e.Stamps {
		if err := n.may(i, s); err != nil {
			return err
		}
	}
	return nil
}
