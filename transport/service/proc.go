package service

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// Proc declares a procedure, which takes an Args and returns a Res: structures with an XDR form.
type Proc[Args, Res any] struct {
	// Prog, Vers and Proc name it (RFC 5531 Section 9). Programs 0x20000000 to 0x3fffffff are for private use
	// (RFC 5531 Section 8.3). Every program has a procedure 0, which does nothing.
	Prog, Vers, Proc uint32
	// MaxResults bounds the encoded results, without an item for which the caller gives memory, in octets.
	// 0 means that what is not the item fits into an inline reply, about 4000 octets.
	MaxResults int
	// Once says that the procedure must not run twice when a client that has lost its connection sends a call
	// again (redial.Caller): the server keeps its replies for a while. Without it, such calls may run twice.
	Once bool
}

// Void is for procedures without arguments or results.
type Void struct{}

// Procedure is a Proc of any types.
type Procedure interface {
	row() chunks.Row
}

// Bind returns the upper-layer binding (RFC 8166 Section 6) of procedures: their items may travel in chunks.
// Both ends set it as Config.Binding. Bind panics if a type has no XDR form (xdrreflect.ErrType), if a number is
// declared twice, and if it is 0, so call it when the program starts.
func Bind(procs ...Procedure) chunks.Table {
	t := make(chunks.Table, len(procs))
	for i, p := range procs {
		t[i] = p.row()
		mustServe(t[i].Prog, t[i].Vers, t[i].Proc)
		for _, r := range t[:i] {
			if r.Prog == t[i].Prog && r.Vers == t[i].Vers && r.Proc == t[i].Proc {
				panic(fmt.Sprintf("service: program %#x, version %d, procedure %d is declared twice", r.Prog, r.Vers, r.Proc))
			}
		}
	}
	return t
}

// mustServe panics if a procedure has the number that is taken (RFC 5531 Section 12.1).
func mustServe(prog, vers, proc uint32) {
	if proc == 0 {
		panic(fmt.Sprintf("service: program %#x, version %d: procedure 0 is NULL; number procedures from 1", prog, vers))
	}
}

func (p Proc[Args, Res]) row() chunks.Row {
	return chunks.Row{
		Prog: p.Prog, Vers: p.Vers, Proc: p.Proc,
		Arg: mustForm(reflect.TypeFor[Args]()).path(), Result: mustForm(reflect.TypeFor[Res]()).path(),
	}
}

// form is what this package knows about a type.
type form struct {
	*xdrreflect.Split
	status int // the member that is the service's error, -1 if there is none
}

var forms sync.Map // reflect.Type → *form

// formOf returns the form of a type, or an error that wraps xdrreflect.ErrType.
func formOf(t reflect.Type) (*form, error) {
	if f, ok := forms.Load(t); ok {
		return f.(*form), nil
	}
	s, err := xdrreflect.SplitOf(t)
	if err != nil {
		return nil, err
	}
	f := &form{Split: s, status: -1}
	if t.NumField() > 0 {
		if first := t.Field(0); first.Tag.Get("xdr") == "union" && first.IsExported() && first.Type.Implements(reflect.TypeFor[error]()) {
			f.status = 0
		}
	}
	forms.Store(t, f)
	return f, nil
}

func mustForm(t reflect.Type) *form {
	f, err := formOf(t)
	if err != nil {
		panic(fmt.Errorf("%w (package xdrreflect lists the types that have one)", err))
	}
	return f
}

// path is nil if the type has no item.
func (f *form) path() chunks.Path {
	if !f.HasItem() {
		return nil
	}
	return f.Find
}

// failure returns the service's error in *res, nil for success.
func (f *form) failure(res any) error {
	if f.status < 0 {
		return nil
	}
	v := reflect.ValueOf(res).Elem().Field(f.status)
	if v.IsZero() {
		return nil
	}
	return v.Interface().(error)
}

// fail makes *res say err. It returns false if err is not an error of the service.
func (f *form) fail(res any, err error) bool {
	if f.status < 0 {
		return false
	}
	v := reflect.ValueOf(res).Elem().Field(f.status)
	return errors.As(err, v.Addr().Interface()) && !v.IsZero()
}
