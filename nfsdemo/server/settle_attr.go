package server

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// attributes is SETATTR.
func (t *settling) attributes(results []byte) ([]byte, once.Outcome, error) {
	n, err := t.resolve(t.file)
	f := file{node: n}
	if err == nil {
		f.attr, err = n.Attr()
	}
	if err != nil {
		return results, once.Unknown, err
	}
	out, err := t.compare(&f)
	if err != nil || out != once.Done {
		return results, out, err
	}
	res := nfs3.WccRes{Wcc: t.wcc(f)}
	return res.Append(results), once.Done, durable(n)
}

var errMixed = errors.New("an attribute is neither what it was nor what was asked for")

// evidence is what one attribute says about a change.
type evidence struct {
	asked  bool // it is as asked for, and was not before: the change was made, at least up to here
	before bool // it is as before, which is not as asked for
	other  bool // it is neither
}

func (e *evidence) add(set, isAsked, isBefore, wasAsked bool) {
	if !set || wasAsked && isAsked {
		return // no evidence
	}
	e.asked = e.asked || isAsked
	e.before = e.before || !isAsked && isBefore
	e.other = e.other || !isAsked && !isBefore
}

// compare finds out from the attributes of f whether they were changed as asked. The size, then
// owner and mode, then the times are changed, so a crash may have come in between: then compare
// changes the rest now. Nobody else has changed owner or mode since; a WRITE may have changed the
// size and the times.
func (t *settling) compare(f *file) (once.Outcome, error) {
	size, fixed, times := t.sizeSays(&f.attr), t.fixedSays(&f.attr), t.timesSay(&f.attr)
	switch {
	case !t.was.allowed():
		return once.NotDone, nil
	case fixed.other:
		return once.Unknown, errMixed
	case size.asked || fixed.asked || times.asked:
		return once.Done, t.complete(f, fixed.before, times.before && !times.other)
	case size.other || times.other:
		return once.Unknown, errMixed
	case t.guard != nil && f.attr.Ctime != t.was.attr.Attr.Ctime && !size.before && !fixed.before && !times.before:
		// Everything is as asked, and was so before. If the call was executed, it has changed the
		// ctime, and the guard would refuse it now.
		return once.Done, nil
	}
	return once.NotDone, nil
}

// sizeSays looks at the size. The old size is durable, and only the call itself can have truncated
// the file since: others can only have written to it, which does not make it smaller.
func (t *settling) sizeSays(is *nfs3.Attr) (e evidence) {
	was, s := &t.was.attr.Attr, &t.was.set
	cuts := s.Size < was.Size
	switch {
	case !s.SetSize || is.Size == s.Size && was.Size == s.Size:
	case is.Size == s.Size, cuts && is.Size > s.Size && is.Size < was.Size: // truncated, and then written to
		e.asked = true
	case !cuts && is.Size < s.Size: // never extended; an earlier unstable WRITE may be lost
		e.before = true
	case cuts && is.Size == was.Size && !later(is.Ctime, was.Ctime):
		e.before = true
	default: // truncated and written to, or only written to: a second time could cut off what was written
		e.other = true
	}
	return e
}

// later reports whether a is after b.
func later(a, b nfs3.Time) bool { return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec }

func (t *settling) fixedSays(is *nfs3.Attr) (e evidence) {
	was, s := &t.was.attr.Attr, &t.was.set
	e.add(s.SetUID, is.UID == s.UID, is.UID == was.UID, was.UID == s.UID)
	e.add(s.SetGID, is.GID == s.GID, is.GID == was.GID, was.GID == s.GID)
	// The kernel does not give a set-group-id bit to everybody who asks for it.
	asked := func(mode uint32) bool { return mode&^0o2000 == s.Mode&0o5777 && mode&^s.Mode == 0 }
	e.add(s.SetMode, asked(is.Mode), is.Mode == was.Mode, asked(was.Mode))
	return e
}

// timesSay looks at one time. Reads also change the access time, so it counts only if there is no
// other. A server time may also come from a WRITE; it counts only if nothing else was to be
// changed, and then it does not matter.
func (t *settling) timesSay(is *nfs3.Attr) (e evidence) {
	was, s := &t.was.attr.Attr, &t.was.set
	how, want, isTime, wasTime := s.MtimeHow, s.Mtime, is.Mtime, was.Mtime
	if how == nfs3.DontChange {
		how, want, isTime, wasTime = s.AtimeHow, s.Atime, is.Atime, was.Atime
	}
	switch how {
	case nfs3.ClientTime:
		e.add(true, sameTime(isTime, want), isTime == wasTime, sameTime(wasTime, want))
	case nfs3.ServerTime:
		alone := !s.SetSize && !s.SetMode && !s.SetUID && !s.SetGID
		e.asked = alone && isTime != wasTime
		e.before = isTime == wasTime
	default:
	}
	return e
}

// sameTime compares a time with the one asked for. File systems truncate times, to hundreds of
// nanoseconds or to seconds.
func sameTime(is, want nfs3.Time) bool {
	return is.Sec == want.Sec && (is.Nsec/100 == want.Nsec/100 || is.Nsec == 0)
}

// complete makes the changes that a crash has left undone. It does not change the size again.
func (t *settling) complete(f *file, fixed, times bool) error {
	rest := t.was.set
	rest.SetSize = false
	if !fixed {
		rest.SetMode, rest.SetUID, rest.SetGID = false, false, false
	}
	if !times {
		rest.AtimeHow, rest.MtimeHow = nfs3.DontChange, nfs3.DontChange
	}
	if rest.IsZero() {
		return nil
	}
	if err := f.node.SetAttr(&rest); err != nil {
		return err
	}
	a, err := f.node.Attr()
	f.attr = a
	return err
}
