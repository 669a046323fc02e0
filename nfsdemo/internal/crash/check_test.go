package crash

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// story makes a history of worker 7 from operations in turn. What is not said of an operation
// is the answer of a good server.
type story struct {
	h    History
	m    *Model
	tree Tree
}

func newStory() *story {
	s := &story{h: History{Worker: 7}, m: NewModel(7)}
	s.did(&Op{Kind: Mkdir, Path: "w7", Mode: 0o755})
	return s
}

// open issues an operation.
func (s *story) open(o *Op) *Op {
	o.N = uint32(len(s.h.Ops)) + 1
	s.h.Ops, s.h.Results = append(s.h.Ops, o), append(s.h.Results, nil)
	return o
}

// did issues an operation that is answered as it should be.
func (s *story) did(o *Op) {
	s.told(o, s.m.clone().Apply(o, nil))
	s.m.Apply(o, s.h.Results[o.N-1])
}

// told issues an operation that is answered with status.
func (s *story) told(o *Op, status nfs3.Status) {
	s.open(o)
	s.h.Results[o.N-1] = &Result{Status: status, Raw: []byte{byte(o.N)}, Stable: o.Stable == nfs3.FileSync}
}

// real makes the tree that the model describes.
func (s *story) real() {
	s.tree = make(Tree)
	s.m.walk(func(p string, n *node) {
		e := &Entry{Type: n.typ, Mode: n.mode, ID: n, Target: n.target}
		for _, f := range n.pieces {
			e.Stamps = append(e.Stamps, f[len(f)-1])
		}
		s.tree[p] = e
	})
}

// cut issues an operation that is answered with status, by a server that has come after the one it was sent to.
func (s *story) cut(o *Op, status nfs3.Status) {
	o.Life = "before"
	s.told(o, status)
	s.h.Results[o.N-1].Life = "after"
	s.m.Apply(o, s.h.Results[o.N-1])
}

// file makes w7/f, two pieces long and durable.
func (s *story) file() {
	s.did(&Op{Kind: Guarded, Path: "w7/f", Mode: 0o640})
	s.did(&Op{Kind: Write, Path: "w7/f", Pieces: 2, Stable: nfs3.FileSync})
}

// stories are histories that are wrong; each says how the checker must put it.
var stories = map[string]struct {
	make func(s *story)
	want string
}{
	"second remove": {func(s *story) {
		s.file()
		s.told(&Op{Kind: Remove, Path: "w7/f"}, nfs3.ErrNoEnt)
	}, "remove w7/f was answered"},
	"second mkdir": {func(s *story) {
		s.told(&Op{Kind: Mkdir, Path: "w7/d"}, nfs3.ErrExist)
	}, "the only right answer is NFS3_OK"},
	"second rename": {func(s *story) {
		s.file()
		s.told(&Op{Kind: Rename, Path: "w7/f", To: "w7/g"}, nfs3.ErrNoEnt)
	}, "has run twice"},
	"second link": {func(s *story) {
		s.file()
		s.told(&Op{Kind: Link, Path: "w7/f", To: "w7/g"}, nfs3.ErrExist)
	}, "has run twice"},
	"second guarded setattr": {func(s *story) {
		s.file()
		s.did(&Op{Kind: GetAttr, Path: "w7/f"})
		s.h.Results[3].Attr = &nfs3.Attr{Type: nfs3.TypeReg, Mode: 0o640, Nlink: 1, Size: 2 * Piece, Ctime: nfs3.Time{Sec: 5}}
		s.told(&Op{Kind: Chmod, Path: "w7/f", Mode: 0o600, Guard: true, Ctime: nfs3.Time{Sec: 5}}, nfs3.ErrNotSync)
	}, "NFS3ERR_NOT_SYNC"},
	"in flight at a kill, neither run": {func(s *story) {
		s.file()
		s.cut(&Op{Kind: Remove, Path: "w7/f"}, nfs3.ErrExist)
	}, "the only right answer is NFS3ERR_NOENT"},
	"in flight at a kill, not done": {func(s *story) {
		s.file()
		s.real()
		s.cut(&Op{Kind: Remove, Path: "w7/f"}, nfs3.ErrNoEnt)
	}, "w7/f exists, but must not"},
	"made up, in flight at a kill": {func(s *story) {
		s.cut(&Op{Kind: Remove, Path: "w7/f"}, nfs3.OK)
	}, "the only right answer is NFS3ERR_NOENT"},
	"answer made up from what is there": {func(s *story) {
		s.told(&Op{Kind: Remove, Path: "w7/f"}, nfs3.OK)
	}, "the only right answer is NFS3ERR_NOENT"},
	"late duplicate removes the new file": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Remove, Path: "w7/f"})
		s.file()
		s.real()
		delete(s.tree, "w7/f")
	}, "w7/f is missing"},
	"repeat answered otherwise": {func(s *story) {
		s.h.Again = append(s.h.Again, Repeat{1, &Result{Status: nfs3.ErrExist}})
	}, "both must be identical"},
	"create lost": {func(s *story) {
		s.did(&Op{Kind: Create, Path: "w7/f"})
		s.real()
		delete(s.tree, "w7/f")
	}, "w7/f is missing"},
	"remove lost": {func(s *story) {
		s.file()
		s.real()
		s.did(&Op{Kind: Remove, Path: "w7/f"})
	}, "w7/f exists, but must not"},
	"rename half done": {func(s *story) {
		s.file()
		s.open(&Op{Kind: Rename, Path: "w7/f", To: "w7/g"})
		s.real()
		s.tree["w7/g"] = s.tree["w7/f"]
	}, "is open"},
	"open remove of another name": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Mkfifo, Path: "w7/g", Mode: 0o600})
		s.open(&Op{Kind: Remove, Path: "w7/f"})
		s.real()
		delete(s.tree, "w7/g")
	}, "w7/g is missing"},
	"create half done": {func(s *story) {
		s.open(&Op{Kind: Guarded, Path: "w7/f", Mode: 0o644})
		s.real()
		s.tree["w7/f"] = &Entry{Type: nfs3.TypeReg, Mode: 0o600}
	}, "its mode is 0600, but must be 0644"},
	"link is a copy": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Link, Path: "w7/f", To: "shared/w7.1"})
		s.real()
		e := *s.tree["w7/f"]
		e.ID = "another"
		s.tree["shared/w7.1"] = &e
	}, "is not the same object as its other name"},
	"file instead of a link": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Symlink, Path: "w7/g", Target: "x"})
		s.real()
		s.tree["w7/g"].Type = nfs3.TypeReg
	}, "is a NF3REG, but must be a NF3LNK"},
	"target": {func(s *story) {
		s.did(&Op{Kind: Symlink, Path: "w7/g", Target: "x"})
		s.real()
		s.tree["w7/g"].Target = "y"
	}, `points to "y"`},
	"write lost": {func(s *story) {
		s.file()
		s.real()
		s.did(&Op{Kind: Write, Path: "w7/f", First: 1, Pieces: 1, Stable: nfs3.FileSync})
	}, "but must hold piece 0 of operation 4 of worker 7"},
	"committed octets lost": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Write, Path: "w7/f", First: 2, Pieces: 1})
		s.did(&Op{Kind: Commit, Path: "w7/f"})
		s.real()
		s.tree["w7/f"].Stamps[2] = hole
	}, "piece 2 holds zeros"},
	"torn": {func(s *story) {
		s.file()
		s.open(&Op{Kind: Write, Path: "w7/f", Pieces: 1, Stable: nfs3.FileSync})
		s.real()
		s.tree["w7/f"].Stamps[0] = torn
	}, "octets that nobody wrote"},
	"size": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Truncate, Path: "w7/f", Pieces: 1})
		s.real()
		s.tree["w7/f"].Stamps = append(s.tree["w7/f"].Stamps, hole)
	}, "piece 1 exists, but was never written"},
	"stale read": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Write, Path: "w7/f", First: 0, Pieces: 1, Stable: nfs3.FileSync})
		s.did(&Op{Kind: Read, Path: "w7/f", First: 0, Pieces: 1})
		s.h.Results[4].Stamps = []uint64{stamp(7, 3, 0)}
	}, "operation 5, read w7/f: piece 0"},
	"short read": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Read, Path: "w7/f", First: 0, Pieces: 2})
		s.h.Results[3].Stamps = []uint64{stamp(7, 3, 0)}
	}, "read 1 pieces from piece 0 on"},
	"made again": {func(s *story) {
		s.did(&Op{Kind: Mkdir, Path: "w7/d"})
		s.h.Results[1].Attr = &nfs3.Attr{Type: nfs3.TypeDir, FileID: 40}
		s.did(&Op{Kind: GetAttr, Path: "w7/d"})
		s.h.Results[2].Attr = &nfs3.Attr{Type: nfs3.TypeDir, FileID: 41}
	}, "it was made again"},
	"names": {func(s *story) {
		s.file()
		s.did(&Op{Kind: Link, Path: "w7/f", To: "w7/g"})
		s.h.Results[3].Attr = &nfs3.Attr{Type: nfs3.TypeReg, Nlink: 3, Mode: 0o640, Size: 2 * Piece}
	}, "it has 3 names, but must have 2"},
	"nobody's": {func(s *story) {
		s.real()
		s.tree["w8"] = &Entry{Type: nfs3.TypeDir}
	}, "nobody made it"},
}

// TestWrong: the checker finds every kind of error.
func TestWrong(t *testing.T) {
	for name, c := range stories {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			c.make(s)
			if s.tree == nil {
				s.real()
			}
			err := CheckAll([]*History{&s.h}, s.tree)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestRight: everything that a crash may leave is not an error.
func TestRight(t *testing.T) {
	for name, f := range map[string]func(s *story){
		"open, not done": func(s *story) {
			s.real()
			s.open(&Op{Kind: Remove, Path: "w7/f"})
		},
		"open, done": func(s *story) {
			s.m.Apply(s.open(&Op{Kind: Rename, Path: "w7/f", To: "shared/w7.2"}), nil)
			s.real()
		},
		"refused": func(s *story) {
			s.did(&Op{Kind: Mkdir, Path: "w7/f"})
			s.did(&Op{Kind: Remove, Path: "w7/h"})
		},
		"not now": func(s *story) {
			s.told(&Op{Kind: Remove, Path: "w7/f"}, nfs3.ErrJukebox)
		},
		"not committed, lost": func(s *story) {
			s.real()
			s.did(&Op{Kind: Write, Path: "w7/f", First: 1, Pieces: 3})
		},
		"COMMIT after another start of the server": func(s *story) {
			s.real()
			s.did(&Op{Kind: Write, Path: "w7/f", First: 1, Pieces: 3})
			s.told(&Op{Kind: Commit, Path: "w7/f"}, nfs3.OK)
			s.h.Results[4].Verf = 9
		},
		"half of an open write": func(s *story) {
			s.open(&Op{Kind: Write, Path: "w7/f", First: 1, Pieces: 3, Stable: nfs3.FileSync})
			s.real()
			f := s.tree["w7/f"]
			f.Stamps = append(f.Stamps, stamp(7, 4, 1))
		},
		"run twice, in flight at a kill": func(s *story) {
			s.cut(&Op{Kind: Mkdir, Path: "w7/d"}, nfs3.ErrExist)
			s.cut(&Op{Kind: Link, Path: "w7/f", To: "w7/g"}, nfs3.ErrExist)
			s.cut(&Op{Kind: Rename, Path: "w7/g", To: "w7/h"}, nfs3.ErrNoEnt)
			s.cut(&Op{Kind: Remove, Path: "w7/h"}, nfs3.ErrNoEnt)
		},
		"run once, in flight at a kill": func(s *story) { s.cut(&Op{Kind: Remove, Path: "w7/f"}, nfs3.OK) },
		"repeat after a kill": func(s *story) {
			s.h.Again = append(s.h.Again, Repeat{1, &Result{Status: nfs3.ErrExist, Life: "after"}})
		},
		"repeat": func(s *story) {
			s.h.Again = append(s.h.Again, Repeat{1, s.h.Results[0]})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.file()
			f(s)
			if s.tree == nil {
				s.real()
			}
			if err := CheckAll([]*History{&s.h}, s.tree); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestList: a list returns what was noted on it; an unfinished line does not count.
func TestList(t *testing.T) {
	name := filepath.Join(t.TempDir(), "7")
	l, h, err := OpenList(name, 7)
	if err != nil || len(h.Ops) != 0 {
		t.Fatal(h, err)
	}
	o := &Op{N: 1, XID: 3, Kind: Rename, Path: "w7/a", To: "w7/b", Dir: []byte{1}}
	for _, err := range []error{
		l.Issue(o), l.Result(1, &Result{Status: nfs3.ErrNoEnt, Raw: []byte{9}}), l.Again(1, &Result{}),
		l.Issue(&Op{N: 2, Kind: Look, Path: "w7"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.f.WriteString(`{"N":2,"Res`); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, h, err = OpenList(name, 7)
	if err != nil || len(h.Ops) != 2 || h.Open() != h.Ops[1] || len(h.Again) != 1 || h.Ops[0].To != "w7/b" || h.Results[0].Status != nfs3.ErrNoEnt {
		t.Fatalf("%+v %v", h, err)
	}
	if err := l.Result(2, &Result{}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if h, err = LoadList(name, 7); err != nil || h.Open() != nil {
		t.Fatalf("%+v %v", h, err)
	}
}

// TestListOrder: a list that no worker can have written is refused.
func TestListOrder(t *testing.T) {
	for _, lines := range [][]line{
		{{Op: &Op{N: 2}}},
		{{Op: &Op{N: 1}}, {Op: &Op{N: 2}}},
		{{N: 1, Res: &Result{}}},
		{{Op: &Op{N: 1}}, {N: 1, Res: &Result{}}, {N: 1, Res: &Result{}}},
		{{Op: &Op{N: 1}}, {N: 1, Again: &Result{}}},
		{{}},
	} {
		name := filepath.Join(t.TempDir(), "7")
		l, _, err := OpenList(name, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range lines {
			if err := l.write(v); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		if _, err := LoadList(name, 7); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("%v: %v", lines, err)
		}
	}
}
