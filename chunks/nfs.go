package chunks

// NFS is the binding of NFS, versions 3 and 4: [NFSv3] and [NFSv4] in one.
var NFS Binding = nfs{}

type nfs struct{}

var _ Lister = nfs{}

// both is what the two versions implement.
type both interface {
	Binding
	Walker
}

// of returns the binding of a version.
func (nfs) of(vers uint32) both {
	if vers == nfsVersion4 {
		return nfs4{}
	}
	return nfs3{}
}

func (nfs) Covers(prog, vers uint32) bool {
	return nfs3{}.Covers(prog, vers) || nfs4{}.Covers(prog, vers)
}

func (b nfs) Eligible(prog, vers, proc uint32) (arg, result bool) {
	return b.of(vers).Eligible(prog, vers, proc)
}

func (b nfs) FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool) {
	return b.of(vers).FindArg(prog, vers, proc, args)
}

func (b nfs) FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool) {
	return b.of(vers).FindResult(prog, vers, proc, results)
}

func (b nfs) MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool) {
	return b.of(vers).MaxResults(prog, vers, proc, args)
}

func (b nfs) WalkArgs(prog, vers, proc uint32, args []byte, visit Visit) bool {
	return b.of(vers).WalkArgs(prog, vers, proc, args, visit)
}

func (b nfs) WalkResults(prog, vers, proc uint32, results []byte, visit Visit) bool {
	return b.of(vers).WalkResults(prog, vers, proc, results, visit)
}

// EligibleResults implements [ResultLister].
func (b nfs) EligibleResults(prog, vers, proc uint32, results []byte, list []Item) []Item {
	return EligibleResults(b.of(vers), prog, vers, proc, results, list)
}

// Lists implements [Lister].
func (nfs) Lists(prog, vers uint32) bool { return nfs4{}.Lists(prog, vers) }

func (nfs) ListArgs(prog, vers, proc uint32, args []byte, visit Visit) bool {
	return nfs4{}.ListArgs(prog, vers, proc, args, visit)
}

func (nfs) ListResults(prog, vers, proc uint32, results []byte, visit Visit) bool {
	return nfs4{}.ListResults(prog, vers, proc, results, visit)
}
