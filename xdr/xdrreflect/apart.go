package xdrreflect

import "runtime"

// shallow is the nesting that is read on the stack of the caller, in levels as in Limits.MaxDepth. Each takes about
// 400 octets of it, so these fit the 32 KiB that goroutines with a handler have anyway.
const shallow = 64

// turns are as many as can compute at the same time.
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

// apart runs f, which recurses deeply and does not block, on a stack of its own. A stack does not shrink when a
// function returns: that of a server's handler would stay at 4 MiB for as long as the handler blocks, for a list that
// came in 60 KiB. So this one ends with f, and there are few at a time. A panic of f is one of the caller.
func apart(f func()) {
	turns <- struct{}{}
	defer func() { <-turns }()
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }()
		f()
	}()
	if v := <-panicked; v != nil {
		panic(v)
	}
}

// nested runs f here with limits that allow a shallow nesting. If f says that this was not enough, it runs apart with all
// that l allows.
func (l Limits) nested(f func(Limits) (deep bool)) {
	most := l.MaxDepth
	l.MaxDepth = min(most, shallow)
	if f(l) && most > shallow {
		l.MaxDepth = most
		apart(func() { f(l) })
	}
}
