package chunks

// Join returns the binding of several services: for each program the first of b that covers it. A binding
// without [Scope] covers all, so it comes last.
func Join(b ...Binding) Binding { return joined(b) }

type joined []Binding

// of returns the binding of a program: an empty table if there is none.
func (j joined) of(prog, vers uint32) Binding {
	for _, b := range j {
		if Covers(b, prog, vers) {
			return single(b, prog, vers)
		}
	}
	return Table(nil)
}

// single returns what b has for a program. Only that says which optional halves there are.
func single(b Binding, prog, vers uint32) Binding {
	if j, ok := b.(joined); ok {
		return j.of(prog, vers)
	}
	return b
}

func (j joined) Covers(prog, vers uint32) bool { return Covers(j.of(prog, vers), prog, vers) }

func (j joined) Eligible(prog, vers, proc uint32) (arg, result bool) {
	return j.of(prog, vers).Eligible(prog, vers, proc)
}

func (j joined) FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool) {
	return j.of(prog, vers).FindArg(prog, vers, proc, args)
}

func (j joined) FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool) {
	return j.of(prog, vers).FindResult(prog, vers, proc, results)
}

func (j joined) MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool) {
	return j.of(prog, vers).MaxResults(prog, vers, proc, args)
}
